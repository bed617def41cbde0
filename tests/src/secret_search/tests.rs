//! Negative control: the search finds a planted secret in every spelling.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;

/// A secret that each encoding escapes differently.
const SECRET: &str = "pl4nted-\"s3cret\"-wïth\\quotes?>";

/// A text with the secret in each spelling.
fn leaks() -> Vec<(&'static str, String)> {
    let surrounded = |before: &str| format!("{before}{SECRET}!");
    vec![
        ("as it is", surrounded("token ")),
        ("in JSON", json!({"note": SECRET}).to_string()),
        ("in JSON within JSON", json!({"note": json!({"note": SECRET}).to_string()}).to_string()),
        ("in Rust", format!("{:?}", Some(surrounded("token ")))),
        ("in hexadecimal digits", format!("\\x{}", in_hexadecimal(surrounded("").as_bytes()))),
        ("in base64", STANDARD.encode(SECRET)),
        ("in base64, with text before and after", STANDARD.encode(surrounded(""))),
        ("in base64, a byte later", STANDARD.encode(surrounded("a"))),
        ("in base64, two bytes later", STANDARD.encode(surrounded("ab"))),
        ("in base64 for a URL", URL_SAFE_NO_PAD.encode(surrounded("a"))),
    ]
}

#[test]
fn secret_in_any_spelling_is_found() {
    for (spelling, text) in leaks() {
        let mut detector = LeakDetector::default();
        detector.record("a place", format!("before\n{text}\nafter"));
        detector.record("another", "nothing");
        assert_eq!(detector.leaking_places(), [""; 0], "{spelling}: it is not registered yet");
        detector.secrets.extend([SECRET.to_owned(), "another-secret".to_owned()]);
        assert_eq!(detector.leaking_places(), ["a place"], "{spelling}: {text}");
        assert_eq!(detector.leaks(), [format!("a place: {text}")], "{spelling}");
    }
}

#[test]
fn error_is_recorded_with_its_sources() {
    let mut detector = LeakDetector::default();
    let source = std::io::Error::other(SECRET);
    detector.record_error(&broker_ports::PortError::rejected("no").with_source(source));
    detector.secrets.insert(SECRET.to_owned());
    assert_eq!(detector.leaking_places(), ["an error"]);
}
