//! Combines `--values` and `--set` into parameter values.
//!
//! `--set` is applied on top of the file. A scalar may replace a scalar; an assignment that would drop or change a list
//! or an object is refused by its path. No message repeats a value: it may be a secret.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use broker_domain::Error as DomainError;
use broker_render::read_document;
use serde_json::{Map, Value};

struct Assignment {
    path: Path,
    value: Value,
}

/// Field names from the outermost to the innermost.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Path(Vec<String>);

/// The values do not form an object.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ValuesError {
    /// The file is neither JSON nor YAML.
    #[error(transparent)]
    Document(#[from] DomainError),
    #[error("--values: is {found}; use an object of parameters")]
    NotAnObject { found: &'static str },
    /// The assignment cannot be parsed; identified by its position, because its text may be a value.
    #[error("--set number {position}: {problem}")]
    Unparsable { position: usize, problem: &'static str },
    #[error("--set {path}: is set twice; set it once")]
    SetTwice { path: String },
    /// The assignment sets a field of a value that is not an object.
    #[error(
        "--set {path}: {ancestor} is {found}; set {ancestor} as a whole, or remove it from the values"
    )]
    BelowNonObject { path: String, ancestor: String, found: &'static str },
    /// The assignment replaces an object or a list.
    #[error("--set {path}: is already {found}; set one of its fields, or change the values")]
    ReplacesStructure { path: String, found: &'static str },
}

impl ValuesError {
    /// Whether the command line is at fault, not a file.
    pub(crate) const fn is_usage(&self) -> bool {
        match self {
            Self::Document(_) | Self::NotAnObject { .. } => false,
            Self::Unparsable { .. }
            | Self::SetTwice { .. }
            | Self::BelowNonObject { .. }
            | Self::ReplacesStructure { .. } => true,
        }
    }
}

/// The JSON text of an object: the document, if any, with the assignments on top.
///
/// # Errors
///
/// [`ValuesError`], with the path.
pub(crate) fn assemble(
    document: Option<&[u8]>,
    assignments: &[String],
) -> Result<String, ValuesError> {
    let mut object = match document.map(|bytes| read_document("--values", bytes)).transpose()? {
        None => Map::new(),
        Some(Value::Object(object)) => object,
        Some(other) => return Err(ValuesError::NotAnObject { found: kind(&other) }),
    };
    let mut set = BTreeSet::new();
    for (index, text) in assignments.iter().enumerate() {
        let unparsable = |problem| ValuesError::Unparsable { position: index + 1, problem };
        let Assignment { path, value } = text.parse().map_err(unparsable)?;
        assign(&mut object, &path, value)?;
        if !set.insert(path.clone()) {
            return Err(ValuesError::SetTwice { path: path.to_string() });
        }
    }
    Ok(Value::Object(object).to_string())
}

fn assign(object: &mut Map<String, Value>, path: &Path, value: Value) -> Result<(), ValuesError> {
    let Some((last, ancestors)) = path.0.split_last() else { return Ok(()) };
    let mut parent = object;
    for (depth, name) in ancestors.iter().enumerate() {
        let inner = parent.entry(name).or_insert_with(|| Value::Object(Map::new()));
        let found = kind(inner);
        parent = inner.as_object_mut().ok_or_else(|| ValuesError::BelowNonObject {
            path: path.to_string(),
            ancestor: Path(ancestors[..=depth].to_vec()).to_string(),
            found,
        })?;
    }
    if let Some(existing @ (Value::Object(_) | Value::Array(_))) = parent.get(last) {
        return Err(ValuesError::ReplacesStructure {
            path: path.to_string(),
            found: kind(existing),
        });
    }
    parent.insert(last.clone(), value);
    Ok(())
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl FromStr for Assignment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (path, value) = text.split_once('=').ok_or("use PATH=VALUE, such as size.disk=20")?;
        Ok(Self { path: path.parse()?, value: scalar(value)? })
    }
}

impl FromStr for Path {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let mut names = vec![String::new()];
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '.' => names.push(String::new()),
                '[' | ']' => return Err(LIST_INDEX),
                '\\' => match (characters.next(), names.last_mut()) {
                    (Some(escaped @ ('.' | '\\')), Some(name)) => name.push(escaped),
                    _ => return Err("a backslash must precede a dot or a backslash"),
                },
                other => {
                    if let Some(name) = names.last_mut() {
                        name.push(other);
                    }
                }
            }
        }
        if names.iter().any(String::is_empty) {
            return Err("the path contains an empty name; use PATH=VALUE, such as size.disk=20");
        }
        if names.iter().any(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(LIST_INDEX);
        }
        Ok(Self(names))
    }
}

const LIST_INDEX: &str = "a list cannot be set by index; set the whole list with --values";

/// A JSON scalar if the text is one, else the text itself.
fn scalar(text: &str) -> Result<Value, &'static str> {
    match serde_json::from_str(text) {
        Ok(Value::Array(_) | Value::Object(_)) => {
            Err("the value is a list or an object; set it with --values")
        }
        // An integer literal that parses as a float does not fit into 64 bits and was rounded.
        Ok(Value::Number(number)) if number.is_f64() && !text.contains(['.', 'e', 'E']) => {
            Err("the number does not fit into 64 bits; quote it to send text")
        }
        Ok(value) => Ok(value),
        Err(_) => Ok(Value::from(text)),
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            self.0.iter().map(|name| name.replace('\\', "\\\\").replace('.', "\\.")).collect();
        f.write_str(&names.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn value_is_a_json_scalar_or_text() {
        let rows = [
            ("a=1", r#"{"a":1}"#),
            ("a=-0.5", r#"{"a":-0.5}"#),
            ("a=true", r#"{"a":true}"#),
            ("a=null", r#"{"a":null}"#),
            ("a=small", r#"{"a":"small"}"#),
            ("a=", r#"{"a":""}"#),
            ("a=\"1\"", r#"{"a":"1"}"#),
            ("a=1.2.3", r#"{"a":"1.2.3"}"#),
            ("a=01", r#"{"a":"01"}"#),
            ("a=b=c", r#"{"a":"b=c"}"#),
            ("a=[x", r#"{"a":"[x"}"#),
            ("a.b.c=1", r#"{"a":{"b":{"c":1}}}"#),
            (r"a\.b=1", r#"{"a.b":1}"#),
        ];
        for (text, expected) in rows {
            assert_eq!(assemble(None, &set(&[text])).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn assignments_override_the_file() {
        let file = b"size: small\ndisk:\n  gb: 10\n  kind: ssd\n";
        let values = assemble(Some(file), &set(&["disk.gb=20", "size=large", "zone=eu"])).unwrap();
        assert_eq!(values, r#"{"disk":{"gb":20,"kind":"ssd"},"size":"large","zone":"eu"}"#);
        assert_eq!(assemble(None, &[]).unwrap(), "{}");
    }

    #[test]
    fn unparsable_assignment_names_what_is_allowed() {
        let rows = [
            ("a", "use PATH=VALUE, such as size.disk=20"),
            ("=1", "the path contains an empty name; use PATH=VALUE, such as size.disk=20"),
            ("a..b=1", "the path contains an empty name; use PATH=VALUE, such as size.disk=20"),
            ("a.0=1", "a list cannot be set by index; set the whole list with --values"),
            ("a[0]=1", "a list cannot be set by index; set the whole list with --values"),
            ("a=[1]", "the value is a list or an object; set it with --values"),
            ("a={}", "the value is a list or an object; set it with --values"),
            (r"a\b=1", "a backslash must precede a dot or a backslash"),
            (
                "a=99999999999999999999",
                "the number does not fit into 64 bits; quote it to send text",
            ),
        ];
        for (text, message) in rows {
            let error = assemble(None, &set(&["x=1", text])).unwrap_err();
            assert_eq!(error.to_string(), format!("--set number 2: {message}"));
            assert!(error.is_usage(), "{text}");
        }
    }

    #[test]
    fn conflict_names_its_path_and_no_value() {
        let rows: &[(&[u8], &[&str], &str)] = &[
            (b"{}", &["a=hush", "a=hush"], "--set a: is set twice; set it once"),
            (
                b"{\"a\": [\"hush\"]}",
                &["a.b=hush"],
                "--set a.b: a is a list; set a as a whole, or remove it from the values",
            ),
            (
                b"{}",
                &["a.b=hush", "a=hush"],
                "--set a: is already an object; set one of its fields, or change the values",
            ),
            (b"[1]", &[], "--values: is a list; use an object of parameters"),
            (b"hush", &[], "--values: is a string; use an object of parameters"),
            (b"", &[], "--values: is empty"),
        ];
        for (file, texts, message) in rows {
            let error = assemble(Some(file), &set(texts)).unwrap_err().to_string();
            assert_eq!(error, *message);
        }
    }
}
