//! Canonical JSON: one text per value, so that equal input gives equal bytes and equal digests.
//!
//! This module sorts keys itself: another crate in the embedder's dependency graph may switch the JSON
//! library to insertion order.

use std::fmt::{self, Write as _};

use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// The first float beyond the range of a signed 64-bit integer.
pub(crate) const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

/// Every integer below this magnitude is exact as a float.
pub(crate) const TWO_POW_53: f64 = 9_007_199_254_740_992.0;

/// A SHA-256 digest of the fields that the broker sends or owns.
///
/// ```
/// use broker_render::Digest;
///
/// let digest = Digest::new([0xab; 32]);
/// assert_eq!(digest.to_string(), "ab".repeat(32));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest from its stored bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses the output of [`Display`](fmt::Display): 64 lower-case hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: [u8; 64] = text.as_bytes().try_into().ok()?;
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? * 16 + value(pair[1])?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The canonical text of a value: sorted keys, no spaces, whole numbers as integers.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

pub(crate) fn object_text(object: &Map<String, Value>) -> String {
    let mut out = String::new();
    write_object(object, &mut out);
    out
}

/// Normalises whole numbers to integers. JSON Schema treats `1.0` and `1` as equal, and an API server turns
/// the first into the second.
pub(crate) fn number(number: &Number) -> Number {
    match number.as_f64() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it has no fraction and fits into 53 bits"
        )]
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < TWO_POW_53 => {
            Number::from(float as i64)
        }
        _ => number.clone(),
    }
}

/// Whether two values are equal, regardless of number notation.
pub(crate) fn equal_values(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number(left) == number(right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| equal_values(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| {
                    right.get(key).is_some_and(|right| equal_values(left, right))
                })
        }
        _ => left == right,
    }
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Object(object) => write_object(object, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Number(value) => write_displayed(&Value::Number(number(value)), out),
        Value::Null | Value::Bool(_) | Value::String(_) => write_displayed(value, out),
    }
}

fn write_object(object: &Map<String, Value>, out: &mut String) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    out.push('{');
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_displayed(&Value::from(key.as_str()), out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

/// Writes a scalar as the JSON library does.
fn write_displayed(value: &Value, out: &mut String) {
    // Writing into a String is infallible, and so is a scalar's Display.
    let _ = write!(out, "{value}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_sorted_and_whole_numbers_are_integers() {
        let value = json!({"b": [1.0, 0.5, -0.0], "a": {"d": "\"\n", "c": null}});
        assert_eq!(text(&value), r#"{"a":{"c":null,"d":"\"\n"},"b":[1,0.5,0]}"#);
    }

    #[test]
    fn digest_parse_rejects_any_other_text() {
        let digest = Digest::of(b"some bytes");
        let text = digest.to_string();
        assert_eq!(Digest::parse(&text), Some(digest));
        for other in
            ["", &text[1..], &text.to_uppercase(), &text.replace('0', "g"), &"é".repeat(32)]
        {
            assert_eq!(Digest::parse(other), None, "{other}");
        }
    }

    #[test]
    fn equal_values_ignores_number_notation() {
        assert!(equal_values(&json!({"a": [1.0, {"b": 2}]}), &json!({"a": [1, {"b": 2.0}]})));
        assert!(!equal_values(&json!([1, 2]), &json!([1])));
        assert!(!equal_values(&json!({"a": 1}), &json!({"b": 1})));
        assert!(!equal_values(&json!(1), &json!("1")));
    }
}
