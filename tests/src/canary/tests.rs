//! A search that finds nothing proves something only if it would have found it.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::*;

/// Each encoding writes it in another way.
const SECRET: &str = "pl4nted-\"s3cret\"-wïth\\quotes?>";

/// Who gives it away, and how.
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
fn a_secret_is_found_however_it_is_spelt() {
    for (how, text) in leaks() {
        let mut net = Net::default();
        net.hear("a place", format!("before\n{text}\nafter"));
        net.hear("another", "nothing");
        assert_eq!(net.found(), [""; 0], "{how}: nobody knows that it is one");
        net.secrets.extend([SECRET.to_owned(), "another-secret".to_owned()]);
        assert_eq!(net.found(), ["a place"], "{how}: {text}");
        assert_eq!(net.leaks(), [format!("a place: {text}")], "{how}");
    }
}

#[test]
fn most_of_a_secret_is_none() {
    let mut net = Net::default();
    net.secrets.insert(SECRET.to_owned());
    net.hear("a place", &SECRET[1..]);
    net.hear("a place", &SECRET[..SECRET.len() - 1]);
    assert_eq!(net.found(), [""; 0]);
}

#[test]
fn an_error_is_heard_with_its_sources() {
    let mut net = Net::default();
    let source = std::io::Error::other(SECRET);
    net.hear_error(&broker_ports::PortError::rejected("no").with_source(source));
    net.secrets.insert(SECRET.to_owned());
    assert_eq!(net.found(), ["an error"]);
}

#[test]
fn silence_is_told_from_words() {
    let mut net = Net::default();
    net.hear("a place", "");
    net.hear("another", "a word");
    assert_eq!(net.silent(), ["a place"]);
    assert_eq!(net.at("another"), "a word\n");
    assert_eq!(net.at("nowhere"), "");
}

#[test]
fn base64_is_what_others_call_so() {
    for text in ["", "a", "ab", "abc", SECRET] {
        assert_eq!(base64(text), STANDARD.encode(text));
    }
}

#[test]
fn of_many_texts_each_is_found() {
    let texts: Vec<_> = (0..1_000).map(|number| format!("number-{number:05}-of-many")).collect();
    let search = Search::of(texts.iter().cloned());
    for text in &texts {
        assert_eq!(search.find(&format!("ä {text}")), Some(3));
        assert_eq!(search.find(&text[..text.len() - 1]), None);
    }
    assert_eq!(search.find(""), None);
}

#[test]
#[should_panic(expected = "would be found anywhere")]
fn a_secret_that_would_be_found_anywhere_is_none() {
    let _ = spellings("abcdefgh");
}
