//! Drift detection: whether an apply would change a live object.
//!
//! A pass holds the whole live object and compares field by field. A watch cache keeps only a digest of the
//! fields that the API server records as the broker's.

use serde_json::{Map, Value};

use crate::canonical::{self, Digest, equal_values};
use crate::manifest::Manifest;
use crate::names::{
    APPLIED_DIGEST_ANNOTATION, ARMED_ANNOTATION, CROSSPLANE_FIELDS, FIELD_MANAGER, OWN_LABELS,
};
use crate::{composition_ref, injection};

/// Whether applying `desired` would be a no-op: the live object has every field, and the broker owns no other
/// field.
///
/// Fields of other writers (defaults, Crossplane's, status, their labels) do not count. Neither do the
/// injection site and `compositionRef`, which a re-apply copies from the live object. Without
/// `managedFields`, only values are compared.
pub fn is_applied(live: &Value, desired: &Manifest) -> bool {
    let same_object = ["apiVersion", "kind"]
        .iter()
        .all(|key| desired.as_object().get(*key) == live.get(key))
        && desired.as_object().get("metadata").map(name_of) == live.get("metadata").map(name_of);
    let sent = Value::Object(sent_fields(desired));
    same_object
        && match owned_fields(live) {
            OwnedFields::Unknown => contains(&sent, live, ExtraFields::Allowed),
            OwnedFields::Nothing => false,
            OwnedFields::Fields(mut owned) => {
                normalise(&mut owned);
                contains(&sent, &Value::Object(owned), ExtraFields::Refused)
            }
        }
}

/// The digest of the fields that the broker applied to a live object, without the injection site and
/// `compositionRef`; `None` if there are none. Equals the applied [`Manifest::digest`] until another writer
/// changes one of the fields.
pub fn owned_digest(live: &Value) -> Option<Digest> {
    let OwnedFields::Fields(mut owned) = owned_fields(live) else { return None };
    normalise(&mut owned);
    Some(Digest::of(canonical::object_text(&owned).as_bytes()))
}

/// Whether another writer changed or removed a field of a live composite resource since the broker armed it.
/// `owned` is its [`owned_digest`].
///
/// Never true for a shell, nor for an object that an earlier release armed without a digest. Fields that
/// others merely added do not count unless they took over a field of the broker's. A field that was changed
/// and restored does not count either, although the other writer owns it now.
pub fn is_drifted(live: &Value, owned: Option<Digest>) -> bool {
    let applied = applied_digest(live);
    applied.is_some() && applied != owned && applied != content_digest(live)
}

fn applied_digest(live: &Value) -> Option<Digest> {
    let annotations = live.get("metadata")?.get("annotations")?;
    Digest::parse(annotations.get(APPLIED_DIGEST_ANNOTATION)?.as_str()?)
}

/// The digest of the current content of the fields that the broker sends, under any owner: the whole
/// `spec`, plus the labels and the annotation of every armed composite resource.
fn content_digest(live: &Value) -> Option<Digest> {
    let metadata = live.get("metadata")?;
    let mut tree = Map::new();
    for entry in metadata.get("managedFields")?.as_array()? {
        if let Some(fields) = entry.get("fieldsV1").and_then(Value::as_object) {
            merge(&mut tree, fields);
        }
    }
    drop_empty(&mut tree);
    tree.retain(|key, _| key == "f:spec");
    let mut content = live.as_object().map(|live| project_object(live, &tree))?;
    if let Some(Value::Object(spec)) = content.get_mut("spec") {
        spec.retain(|name, _| !CROSSPLANE_FIELDS.contains(&name.as_str()));
    }
    let own_entries = |map: &str, names: &[&str]| {
        let current = metadata.get(map).and_then(Value::as_object);
        let ours = current.into_iter().flatten().filter(|(name, _)| names.contains(&name.as_str()));
        Value::Object(ours.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    let entries = [
        ("labels", own_entries("labels", &OWN_LABELS)),
        ("annotations", own_entries("annotations", &[ARMED_ANNOTATION])),
    ];
    let entries = entries.into_iter().map(|(map, own)| (map.to_owned(), own)).collect();
    content.insert("metadata".to_owned(), Value::Object(entries));
    normalise(&mut content);
    Some(Digest::of(canonical::object_text(&content).as_bytes()))
}

pub(crate) fn desired_digest(desired: &Manifest) -> Digest {
    Digest::of(canonical::object_text(&sent_fields(desired)).as_bytes())
}

fn sent_fields(desired: &Manifest) -> Map<String, Value> {
    let mut sent = desired.as_object().clone();
    sent.remove("apiVersion");
    sent.remove("kind");
    if let Some(Value::Object(metadata)) = sent.get_mut("metadata") {
        metadata.retain(|key, _| ["labels", "annotations"].contains(&key.as_str()));
    }
    normalise(&mut sent);
    sent
}

/// Removes the injection site, `compositionRef`, the digest annotation, and empty objects that remain: owning
/// an empty object equals owning nothing.
fn normalise(fields: &mut Map<String, Value>) {
    if let Some(annotations) =
        fields.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
        && let Some(annotations) = annotations.as_object_mut()
    {
        annotations.remove(APPLIED_DIGEST_ANNOTATION);
    }
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        injection::remove_sites(spec);
        composition_ref::remove(spec);
        if spec.get("parameters").is_some_and(is_empty_object) {
            spec.remove("parameters");
        }
    }
    fields.retain(|_, value| !is_empty_object(value));
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn name_of(metadata: &Value) -> (Option<&str>, Option<&str>) {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    (text("name"), text("namespace"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ExtraFields {
    Allowed,
    Refused,
}

/// Whether the live value contains the sent one: objects by field, arrays completely and in order.
fn contains(sent: &Value, live: &Value, extra_fields: ExtraFields) -> bool {
    match (sent, live) {
        // Below an empty object that the broker owns, the API server may have filled in defaults.
        (Value::Object(sent), Value::Object(_)) if sent.is_empty() => true,
        (Value::Object(sent), Value::Object(live)) => {
            let field = |(key, sent): (&String, &Value)| {
                live.get(key).is_some_and(|live| contains(sent, live, extra_fields))
            };
            (extra_fields == ExtraFields::Allowed || sent.len() == live.len())
                && sent.iter().all(field)
        }
        (Value::Array(sent), Value::Array(live)) => {
            // Within an item of the broker, only the API server adds fields: its defaults.
            let mut items = sent.iter().zip(live);
            sent.len() == live.len()
                && items.all(|(sent, live)| contains(sent, live, ExtraFields::Allowed))
        }
        _ => equal_values(sent, live),
    }
}

enum OwnedFields {
    /// The object has no record of owners.
    Unknown,
    /// Other writers created the object, or one removed the broker's ownership.
    Nothing,
    Fields(Map<String, Value>),
}

fn owned_fields(live: &Value) -> OwnedFields {
    let managed = live.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    let Some(Value::Array(managed)) = managed else { return OwnedFields::Unknown };
    let ours = managed.iter().filter(|entry| {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        text("manager") == FIELD_MANAGER
            && text("operation") == "Apply"
            && text("subresource").is_empty()
    });
    let mut fields = Map::new();
    for tree in ours.filter_map(|entry| entry.get("fieldsV1")?.as_object()) {
        merge(&mut fields, tree);
    }
    if fields.is_empty() {
        return OwnedFields::Nothing;
    }
    drop_empty(&mut fields);
    OwnedFields::Fields(
        live.as_object().map(|live| project_object(live, &fields)).unwrap_or_default(),
    )
}

/// Removes `spec` and `spec.parameters` if their branch is empty. An empty branch means a whole value, but the
/// broker never sends these two objects as a whole.
fn drop_empty(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(spec)) = fields.get_mut("f:spec")
        && spec.get("f:parameters").is_some_and(is_empty_object)
    {
        spec.remove("f:parameters");
    }
    fields.retain(|key, branch| key != "f:spec" || !is_empty_object(branch));
}

fn merge(into: &mut Map<String, Value>, tree: &Map<String, Value>) {
    for (key, branch) in tree {
        let inner = into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(inner), Value::Object(branch)) = (inner, branch) {
            merge(inner, branch);
        }
    }
}

/// Projects a value to the fields that a tree names. Prefixes: `f:` a field, `k:` an item by keys, `v:` a set
/// member, `i:` an item by position, `.` the value itself.
fn project(live: &Value, tree: &Map<String, Value>) -> Value {
    if tree.is_empty() {
        return live.clone();
    }
    match live {
        Value::Object(object) => Value::Object(project_object(object, tree)),
        Value::Array(items) => {
            let item = |(index, item): (usize, &Value)| {
                let branch = tree.iter().find(|(key, _)| names_item(key, index, item))?.1;
                Some(project(item, branch.as_object()?))
            };
            Value::Array(items.iter().enumerate().filter_map(item).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => live.clone(),
    }
}

fn project_object(live: &Map<String, Value>, tree: &Map<String, Value>) -> Map<String, Value> {
    let field = |(key, branch): (&String, &Value)| {
        let name = key.strip_prefix("f:")?;
        Some((name.to_owned(), project(live.get(name)?, branch.as_object()?)))
    };
    tree.iter().filter_map(field).collect()
}

fn names_item(key: &str, index: usize, item: &Value) -> bool {
    if let Some(keys) = key.strip_prefix("k:") {
        let keys = serde_json::from_str::<Map<String, Value>>(keys).unwrap_or_default();
        return !keys.is_empty()
            && keys
                .iter()
                .all(|(key, value)| item.get(key).is_some_and(|item| equal_values(item, value)));
    }
    if let Some(member) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(member)
            .is_ok_and(|member| equal_values(&member, item));
    }
    key.strip_prefix("i:").is_some_and(|position| position.parse() == Ok(index))
}
