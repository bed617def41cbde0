//! A search that finds nothing proves something only if it would have found a planted secret.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;

/// Each encoding escapes it differently.
const SECRET: &str = "pl4nted-\"s3cret\"-wïth\\quotes?>";

/// Each way to leak the secret.
fn leaks() -> Vec<(&'static str, String)> {
    let around = |before: &str| format!("{before}{SECRET}!");
    vec![
        ("as it is", around("token ")),
        ("in JSON", json!({"note": SECRET}).to_string()),
        ("in JSON within JSON", json!({"note": json!({"note": SECRET}).to_string()}).to_string()),
        ("in Rust", format!("{:?}", Some(around("token ")))),
        ("in hexadecimal digits", format!("\\x{}", in_digits(around("").as_bytes()))),
        ("in base64", STANDARD.encode(SECRET)),
        ("in base64, with something before and after it", STANDARD.encode(around(""))),
        ("in base64, a byte later", STANDARD.encode(around("a"))),
        ("in base64, two bytes later", STANDARD.encode(around("ab"))),
        ("in base64 for a URL", URL_SAFE_NO_PAD.encode(around("a"))),
    ]
}

#[test]
fn secret_in_any_spelling_is_found() {
    for (how, text) in leaks() {
        let mut net = LeakDetector::default();
        net.record("a place", format!("before\n{text}\nafter"));
        net.record("another", "nothing");
        assert_eq!(net.found(), [""; 0], "{how}: the secret is not registered yet");
        net.secrets.extend([SECRET.to_owned(), "another-secret".to_owned()]);
        assert_eq!(net.found(), ["a place"], "{how}: {text}");
        assert_eq!(net.leaks(), [format!("a place: {text}")], "{how}");
    }
}

#[test]
fn truncated_secret_is_not_found() {
    let mut net = LeakDetector::default();
    net.secrets.insert(SECRET.to_owned());
    net.record("a place", &SECRET[1..]);
    net.record("a place", &SECRET[..SECRET.len() - 1]);
    assert_eq!(net.found(), [""; 0]);
}

#[test]
fn error_is_recorded_with_its_sources() {
    let mut net = LeakDetector::default();
    let source = std::io::Error::other(SECRET);
    net.record_error(&broker_ports::PortError::rejected("no").with_source(source));
    net.secrets.insert(SECRET.to_owned());
    assert_eq!(net.found(), ["an error"]);
}

#[test]
fn silent_places_are_reported() {
    let mut net = LeakDetector::default();
    net.record("a place", "");
    net.record("another", "a word");
    assert_eq!(net.silent(), ["a place"]);
    assert_eq!(net.at("another"), "a word\n");
    assert_eq!(net.at("nowhere"), "");
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
    let search = Search::of(texts.iter().cloned());
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
