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
        assert_eq!(
            detector.leaking_places(),
            [""; 0],
            "{spelling}: the secret is not registered yet"
        );
        detector.secrets.extend([SECRET.to_owned(), "another-secret".to_owned()]);
        assert_eq!(detector.leaking_places(), ["a place"], "{spelling}: {text}");
        assert_eq!(detector.leaks(), [format!("a place: {text}")], "{spelling}");
    }
}

#[test]
fn truncated_secret_is_not_found() {
    let mut detector = LeakDetector::default();
    detector.secrets.insert(SECRET.to_owned());
    detector.record("a place", &SECRET[1..]);
    detector.record("a place", &SECRET[..SECRET.len() - 1]);
    assert_eq!(detector.leaking_places(), [""; 0]);
}

#[test]
fn error_is_recorded_with_its_sources() {
    let mut detector = LeakDetector::default();
    let source = std::io::Error::other(SECRET);
    detector.record_error(&broker_ports::PortError::rejected("no").with_source(source));
    detector.secrets.insert(SECRET.to_owned());
    assert_eq!(detector.leaking_places(), ["an error"]);
}

#[test]
fn places_without_text_are_reported() {
    let mut detector = LeakDetector::default();
    detector.record("a place", "");
    detector.record("another", "a word");
    assert_eq!(detector.places_without_text(), ["a place"]);
    assert_eq!(detector.text_of("another"), "a word\n");
    assert_eq!(detector.text_of("nowhere"), "");
}

#[test]
fn base64_matches_the_standard_encoding() {
    for text in ["", "a", "ab", "abc", SECRET] {
        assert_eq!(base64(text), STANDARD.encode(text));
    }
}

#[test]
fn search_finds_each_of_many_texts() {
    let texts: Vec<_> = (0..1_000).map(|number| format!("number-{number:05}-of-many")).collect();
    let search = Search::new(texts.iter().cloned());
    for text in &texts {
        assert_eq!(search.find(&format!("ä {text}")), Some(3));
        assert_eq!(search.find(&text[..text.len() - 1]), None);
    }
    assert_eq!(search.find(""), None);
}

#[test]
#[should_panic(expected = "would match by chance")]
fn short_secret_is_refused() {
    let _ = spellings("abcdefgh");
}
