//! Removes injected values from messages of other systems.
//!
//! An API server that rejects a field may repeat its value. A provider may repeat user data that it failed to
//! parse, escaped or encoded. Every such message must pass through this module first.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

/// The maximum length of a scrubbed message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// The minimum length of a prefix that is removed; a shorter one reveals nothing.
const MIN_REMAINDER_BYTES: usize = 8;

/// The maximum nesting of escapes: in the document, the request body, and a message about it.
const MAX_ESCAPES: usize = 3;

/// The replacement for a value. Injected values are ASCII and never contain it.
const MARK: char = '█';

/// Removes every injected value from a message and cuts it to 1 KiB.
///
/// Finds a value raw; escaped as JSON up to three times, with Go's additional escapes; in both base64
/// alphabets, at any offset inside a larger text; and, if truncated, by its prefix.
///
/// ```
/// let message = broker_render::scrub("Invalid value: \"s3cr3t-t0ken\"", &["s3cr3t-t0ken"]);
/// assert_eq!(message, "Invalid value: \"█\"");
/// ```
pub fn scrub(message: &str, injected: &[&str]) -> String {
    let mut needles: Vec<String> = injected
        .iter()
        .filter(|value| !value.is_empty())
        .flat_map(|value| encodings(value))
        .collect();
    // Longest first: with its token replaced, a document would no longer match.
    needles.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
    needles.dedup();
    let mut text = message.to_owned();
    for needle in &needles {
        while text.contains(needle.as_str()) {
            // A needle that contains the mark is removed without a replacement. The text shrinks each time, so
            // the loop ends.
            let mark = if needle.contains(MARK) { String::new() } else { MARK.to_string() };
            text = text.replace(needle.as_str(), &mark);
        }
    }
    shorten(without_prefixes(&text, &needles))
}

fn encodings(value: &str) -> Vec<String> {
    let mut encodings = Vec::new();
    let mut layer = vec![value.to_owned()];
    for _ in 0..MAX_ESCAPES {
        // A layer may or may not use Go's encoder.
        let escape_both_ways = |text: &String| [escape(text), go_escape(&escape(text))];
        layer = layer.iter().flat_map(escape_both_ways).collect();
        layer.sort();
        layer.dedup();
        encodings.extend(layer.iter().cloned());
    }
    let escaped_for_base64 = encodings.clone();
    for text in std::iter::once(value.to_owned()).chain(escaped_for_base64) {
        for offset in 0..3 {
            encodings.extend(embedded_base64(text.as_bytes(), offset));
        }
    }
    encodings.extend([STANDARD.encode(value), URL_SAFE.encode(value), value.to_owned()]);
    encodings
}

/// Escapes as JSON does, without the surrounding quotes.
pub(crate) fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes the three additional characters that Go escapes.
fn go_escape(escaped: &str) -> String {
    escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The base64 digits of a value at that offset within a group of three bytes. Excludes digits that also
/// depend on neighbouring bytes.
fn embedded_base64(value: &[u8], offset: usize) -> Vec<String> {
    let mut padded = vec![0; offset];
    padded.extend(value);
    let first = (offset * 4).div_ceil(3);
    let last = padded.len() * 4 / 3;
    // Fewer whole digits reveal nothing and would match everywhere.
    if last < first + 4 {
        return Vec::new();
    }
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .into_iter()
        .map(|digits| digits[first..last].to_owned())
        .collect()
}

/// Removes every prefix of a needle that is long enough to reveal something. Encodings of one value share
/// prefixes, so the longest match counts.
fn without_prefixes(text: &str, needles: &[String]) -> String {
    let mut by_start: BTreeMap<&[u8], Vec<&str>> = BTreeMap::new();
    for needle in needles {
        if let Some(start) = needle.as_bytes().get(..MIN_REMAINDER_BYTES) {
            by_start.entry(start).or_default().push(needle);
        }
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let start = rest.as_bytes().get(..MIN_REMAINDER_BYTES);
        let candidates = start.and_then(|start| by_start.get(start)).into_iter().flatten();
        let longest = candidates.map(|needle| common_bytes(rest, needle)).max();
        kept.push(if longest.is_some() { MARK } else { c });
        rest = &rest[longest.unwrap_or(c.len_utf8())..];
    }
    kept
}

fn common_bytes(left: &str, right: &str) -> usize {
    let common = left.chars().zip(right.chars()).take_while(|(left, right)| left == right);
    common.map(|(c, _)| c.len_utf8()).sum()
}

fn shorten(mut text: String) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        let ellipsis = "…";
        text.truncate(text.floor_char_boundary(MAX_MESSAGE_BYTES - ellipsis.len()));
        text.push_str(ellipsis);
    }
    text
}
