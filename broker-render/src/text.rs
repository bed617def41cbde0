//! How foreign text appears in our messages: quoted, on one line, and short.

use serde_json::Value;

/// The longest piece of foreign text that a message repeats, in characters.
const MAX_CHARS: usize = 64;

/// Foreign text in double quotes, control characters escaped, cut where it gets long.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// `a, b, c` out of words.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

/// One step of a path below another: `a.b`, or `a["b c"]` where `b c` is no plain name.
pub(crate) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key.len() <= MAX_CHARS
        && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", quoted(key)),
    }
}

/// What kind of value it is, in the words of JSON.
pub(crate) const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_stays_short_and_on_one_line() {
        assert_eq!(quoted("a\"b\n"), r#""a\"b\n""#);
        assert_eq!(quoted(&"x".repeat(80)), format!("\"{}…\"", "x".repeat(64)));
        assert_eq!(join("a", "b-c_1"), "a.b-c_1");
        assert_eq!(join("", "b"), "b");
        assert_eq!(join("a", "b.c"), r#"a["b.c"]"#);
    }
}
