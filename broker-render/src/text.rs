//! Foreign text in messages: quoted, on one line, and short.

use serde_json::Value;

/// The maximum length of foreign text in a message, in characters.
const MAX_CHARS: usize = 64;

/// The number of words that a list shows before it counts the rest.
const MAX_WORDS: usize = 16;

/// The maximum length of a list of words in bytes, without the trailing count.
const MAX_LIST_BYTES: usize = 512;

pub(crate) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

pub(crate) fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Joins words: `a, b, c`, or `a, b and 40 more`. The iterator yields only the words that are shown.
pub(crate) fn list<W: AsRef<str>>(
    words: impl IntoIterator<Item = W, IntoIter: ExactSizeIterator>,
) -> String {
    let mut words = words.into_iter();
    let mut named = Vec::new();
    let mut bytes = 0;
    while named.len() < MAX_WORDS
        && let Some(word) = words.next()
    {
        let word = shortened(word.as_ref());
        bytes += word.len() + 2;
        if bytes > MAX_LIST_BYTES {
            return format!("{} and {} more", named.join(", "), words.len() + 1);
        }
        named.push(word);
    }
    let named = named.join(", ");
    if words.len() == 0 { named } else { format!("{named} and {} more", words.len()) }
}

/// Appends one step to a path: `a.b`, or `a["b c"]` where `b c` is not a plain name.
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

/// The JSON type of a value, in words.
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

    #[test]
    fn long_list_ends_with_a_count() {
        assert_eq!(list([""; 0]), "");
        assert_eq!(list(["a", "b"]), "a, b");
        assert_eq!(list(["a"; 16]), ["a"; 16].join(", "));
        assert_eq!(list(["a"; 20]), ["a"; 16].join(", ") + " and 4 more");
        let long = "x".repeat(60);
        assert_eq!(list([&long; 16]), [long.as_str(); 8].join(", ") + " and 8 more");
        let huge = "é".repeat(100_000);
        let cut = "é".repeat(64) + "…";
        assert_eq!(list([&huge; 5]), [cut.as_str(); 3].join(", ") + " and 2 more");
    }
}
