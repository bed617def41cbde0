//! Taking injected values out of what others say about them.
//!
//! An API server that refuses a field may repeat its value, and a provider may repeat the user data that it
//! choked on, escaped or encoded. No such message goes anywhere before it went through here.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

/// The longest message that is passed on.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// A shorter beginning of a value, where somebody cut it off, says nothing about it.
const MIN_REMAINDER_BYTES: usize = 8;

/// How often a value is escaped at most: in its document, in the body of a request, in a message about it.
const MAX_ESCAPES: usize = 3;

/// Stands where a value stood. Injected values are ASCII, so that this can never be a part of one.
const MARK: char = '█';

/// Removes every injected value from a message and cuts it to 1 KiB.
///
/// A value is found raw, escaped as JSON does it (up to three times, as a token in a document in a body in a
/// message is, and with the additional escapes of Go), in both alphabets of base64, alone or at any position
/// inside of something larger, and, where somebody cut it off, by its beginning.
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
    // The longest first: what is left of a document after its token was cut out would not be found.
    needles.sort_by(|left, right| right.len().cmp(&left.len()).then_with(|| left.cmp(right)));
    needles.dedup();
    let mut text = message.to_owned();
    for needle in &needles {
        while text.contains(needle.as_str()) {
            // A value from elsewhere may hold the mark itself. Then it is removed without one; the text
            // gets shorter each time, so that this ends.
            let mark = if needle.contains(MARK) { String::new() } else { MARK.to_string() };
            text = text.replace(needle.as_str(), &mark);
        }
    }
    shorten(without_beginnings(&text, &needles))
}

fn encodings(value: &str) -> Vec<String> {
    let mut encodings = Vec::new();
    let mut layer = vec![value.to_owned()];
    for _ in 0..MAX_ESCAPES {
        // Not every layer is written by Go.
        let both = |text: &String| [escape(text), go_escape(&escape(text))];
        layer = layer.iter().flat_map(both).collect();
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

/// As JSON writes it, without the quotes around it.
fn escape(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Go escapes these three as well.
fn go_escape(escaped: &str) -> String {
    escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// The digits that a value contributes to a longer text in base64 when it begins at that offset within a
/// group of three bytes. Digits that also depend on a neighbour are left out.
fn embedded_base64(value: &[u8], offset: usize) -> Vec<String> {
    let mut padded = vec![0; offset];
    padded.extend(value);
    let first = (offset * 4).div_ceil(3);
    let last = padded.len() * 4 / 3;
    // So few whole digits are no trace of anything, and would be found everywhere.
    if last < first + 4 {
        return Vec::new();
    }
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .into_iter()
        .map(|digits| digits[first..last].to_owned())
        .collect()
}

/// Removes each beginning of a needle that is long enough to say something about it. Encodings of one value
/// begin alike, so that the one counts that goes farthest.
fn without_beginnings(text: &str, needles: &[String]) -> String {
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

/// How far two texts are the same.
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
