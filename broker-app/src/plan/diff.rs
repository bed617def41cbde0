//! Field changes of an object. Pure, and without secrets.

use broker_render::redacted;
use serde_json::{Map, Value};

/// A changed field.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    /// Its path, such as `spec.parameters.size`.
    pub path: String,
    /// The current value; `None` if absent.
    pub from: Option<Value>,
    /// The planned value; `None` if removed.
    pub to: Option<Value>,
}

/// Metadata that the API server manages and no apply sends.
const SERVER_FIELDS: [&str; 6] =
    ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"];

/// The changed fields, sorted by path.
pub(super) fn changes(before: Option<&Value>, after: &Value) -> Vec<FieldChange> {
    let no_object = Value::Object(Map::new());
    let before = before.unwrap_or(&no_object);
    let mut paths = Vec::new();
    compare(
        String::new(),
        &without_server_fields(before),
        &without_server_fields(after),
        &mut paths,
    );
    let (redacted_before, redacted_after) = (redacted(before), redacted(after));
    let mut changes: Vec<_> = paths
        .into_iter()
        .map(|path| FieldChange {
            from: value_at(&redacted_before, &path).cloned(),
            to: value_at(&redacted_after, &path).cloned(),
            path: displayed_path(&path),
        })
        .collect();
    changes.sort_by(|left, right| left.path.cmp(&right.path));
    changes
}

fn without_server_fields(object: &Value) -> Value {
    let Value::Object(mut fields) = object.clone() else { return Value::Null };
    fields.remove("status");
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.retain(|key, _| !SERVER_FIELDS.contains(&key.as_str()));
    }
    Value::Object(fields)
}

/// Descends into objects; a list counts as one field.
fn compare(path: String, before: &Value, after: &Value, changed: &mut Vec<String>) {
    let child_path = |key: &str| format!("{path}\u{0}{key}");
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in after {
                match before.get(key) {
                    Some(old) => compare(child_path(key), old, value, changed),
                    None => compare(child_path(key), &empty_like(value), value, changed),
                }
            }
            for (key, value) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
                compare(child_path(key), value, &empty_like(value), changed);
            }
        }
        (before, after) if before == after => {}
        (_, _) => changed.push(path),
    }
}

/// Compares a missing object as an empty one, so each of its fields is listed.
fn empty_like(value: &Value) -> Value {
    match value {
        Value::Object(fields) if !fields.is_empty() => Value::Object(Map::new()),
        Value::Object(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => Value::Null,
    }
}

fn value_at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('\u{0}').filter(|key| !key.is_empty()).try_fold(object, |value, key| value.get(key))
}

/// Quotes a key that contains a dot.
fn displayed_path(path: &str) -> String {
    let keys = path.split('\u{0}').filter(|key| !key.is_empty());
    let quoted =
        keys.map(|key| if key.contains('.') { format!("[{key:?}]") } else { key.to_owned() });
    quoted.collect::<Vec<_>>().join(".").replace(".[", "[")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(before: Option<&Value>, after: &Value) -> Vec<String> {
        let text =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "-".to_owned(), Value::to_string);
        let changes = changes(before, after).into_iter();
        changes.map(|it| format!("{}: {} > {}", it.path, text(&it.from), text(&it.to))).collect()
    }

    #[test]
    fn changes_list_each_field_without_server_fields() {
        let before = json!({
            "metadata": {"uid": "a", "resourceVersion": "1", "labels": {"x.y/z": "1", "gone": "2"}},
            "spec": {"parameters": {"size": "small", "list": [1]}}, "status": {"a": 1},
        });
        let after = json!({
            "metadata": {"uid": "b", "resourceVersion": "2", "labels": {"x.y/z": "3"}},
            "spec": {"parameters": {"size": "small", "list": [1, 2], "new": {"deep": true}}},
        });
        assert_eq!(
            described(Some(&before), &after),
            [
                "metadata.labels.gone: \"2\" > -",
                "metadata.labels[\"x.y/z\"]: \"1\" > \"3\"",
                "spec.parameters.list: [1] > [1,2]",
                "spec.parameters.new.deep: - > true",
            ]
        );
        assert_eq!(described(Some(&before), &before), Vec::<String>::new());
        assert_eq!(described(None, &json!({"spec": {"a": 1}})), ["spec.a: - > 1"]);
    }

    #[test]
    fn injected_value_is_redacted() {
        let before = json!({"spec": {"userData": ""}});
        let after = json!({"spec": {"userData": "#cloud-config canary"}});
        assert_eq!(described(Some(&before), &after), ["spec.userData: \"\" > \"█\""]);
    }
}
