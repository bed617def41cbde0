//! Whether what we would send already stands.
//!
//! Two forms of one question. A pass that holds the whole live object compares field by field. A watch
//! cache keeps only a digest, taken over the fields that the API server records as ours.

use serde_json::{Map, Value};

use crate::canonical::{self, Digest, same};
use crate::injection;
use crate::manifest::Manifest;
use crate::names::FIELD_MANAGER;

/// Whether an apply of `desired` would change nothing: every field of it stands on the live object, and
/// nothing stands there under our name that it no longer contains.
///
/// Fields of others (defaults, Crossplane's, status, their labels) do not count, and neither does the
/// injection site, which a re-apply takes from the live object anyway.
pub fn is_applied(live: &Value, desired: &Manifest) -> bool {
    let sent = sent_fields(desired);
    let stands = desired.as_object().iter().all(|(key, sent)| match key.as_str() {
        // Preconditions are no fields of ours, and the rest of the metadata is compared below.
        "metadata" => name_of(sent) == live.get(key).map(|live| name_of(live)).unwrap_or_default(),
        "spec" => true,
        _ => live.get(key).is_some_and(|live| same(sent, live)),
    });
    let mut owned = owned_fields(live);
    if let Some(owned) = &mut owned {
        normalise(owned);
    }
    stands
        && within(&Value::Object(sent.clone()), live)
        && owned.is_none_or(|owned| nothing_stale(&Value::Object(owned), &Value::Object(sent)))
}

/// The digest over the fields of a live object that our field manager applied, without the injection
/// site; `None` when there are none. It equals [`Manifest::digest`] of what was applied for as long as
/// nobody changes one of them.
pub fn owned_digest(live: &Value) -> Option<Digest> {
    let mut owned = owned_fields(live)?;
    normalise(&mut owned);
    Some(Digest::of(canonical::object_text(&owned).as_bytes()))
}

pub(crate) fn desired_digest(desired: &Manifest) -> Digest {
    Digest::of(canonical::object_text(&sent_fields(desired)).as_bytes())
}

/// The fields of a manifest that its field manager comes to own.
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

/// Without the injection site, and without the empty objects that it may leave: whether somebody owns an
/// empty object or nothing at all makes no difference to anybody.
fn normalise(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        injection::remove_sites(spec);
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

/// Whether everything that is sent stands; arrays as a whole, objects field by field.
fn within(sent: &Value, live: &Value) -> bool {
    match (sent, live) {
        (Value::Object(sent), Value::Object(live)) => {
            sent.iter().all(|(key, sent)| live.get(key).is_some_and(|live| within(sent, live)))
        }
        _ => same(sent, live),
    }
}

/// Whether every field that we own is still one that we send.
fn nothing_stale(owned: &Value, sent: &Value) -> bool {
    match (owned, sent) {
        // Below an empty object that we own, the API server's defaults may have grown.
        (Value::Object(_), Value::Object(sent)) if sent.is_empty() => true,
        (Value::Object(owned), Value::Object(sent)) => owned
            .iter()
            .all(|(key, owned)| sent.get(key).is_some_and(|sent| nothing_stale(owned, sent))),
        _ => true,
    }
}

/// The part of a live object that our field manager applied.
fn owned_fields(live: &Value) -> Option<Map<String, Value>> {
    let managed = live.get("metadata")?.get("managedFields")?.as_array()?;
    let ours = managed.iter().filter(|entry| {
        entry.get("manager").and_then(Value::as_str) == Some(FIELD_MANAGER)
            && entry.get("operation").and_then(Value::as_str) == Some("Apply")
            && entry.get("subresource").and_then(Value::as_str).unwrap_or_default().is_empty()
    });
    let mut fields = None;
    for entry in ours {
        let tree = entry.get("fieldsV1").and_then(Value::as_object)?;
        merge(fields.get_or_insert_with(Map::new), tree);
    }
    let mut fields = fields?;
    drop_empty(&mut fields);
    let Value::Object(owned) = project(live, &fields) else { return None };
    Some(owned)
}

/// An empty branch stands for a whole value, or for an empty object. These two objects are never sent as a
/// whole, so that what stands below is not ours.
fn drop_empty(fields: &mut Map<String, Value>) {
    if let Some(Value::Object(spec)) = fields.get_mut("f:spec")
        && spec.get("f:parameters").is_some_and(is_empty_object)
    {
        spec.remove("f:parameters");
    }
    fields.retain(|key, branch| key != "f:spec" || !is_empty_object(branch));
}

/// One tree of field names out of several.
fn merge(into: &mut Map<String, Value>, tree: &Map<String, Value>) {
    for (key, branch) in tree {
        let inner = into.entry(key.clone()).or_insert_with(|| Value::Object(Map::new()));
        if let (Value::Object(inner), Value::Object(branch)) = (inner, branch) {
            merge(inner, branch);
        }
    }
}

/// The values at the fields that a tree names: `f:` for a field, `k:` for an item by its keys, `v:` for a
/// member of a set, `i:` for an item by position, `.` for the thing itself.
fn project(live: &Value, tree: &Map<String, Value>) -> Value {
    if tree.is_empty() {
        return live.clone();
    }
    match live {
        Value::Object(object) => {
            let field = |(key, branch): (&String, &Value)| {
                let name = key.strip_prefix("f:")?;
                let value = object.get(name)?;
                Some((name.to_owned(), project(value, branch.as_object()?)))
            };
            Value::Object(tree.iter().filter_map(field).collect())
        }
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

fn names_item(key: &str, index: usize, item: &Value) -> bool {
    if let Some(keys) = key.strip_prefix("k:") {
        let keys = serde_json::from_str::<Map<String, Value>>(keys).unwrap_or_default();
        return !keys.is_empty()
            && keys.iter().all(|(key, value)| item.get(key).is_some_and(|item| same(item, value)));
    }
    if let Some(member) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(member).is_ok_and(|member| same(&member, item));
    }
    key.strip_prefix("i:").is_some_and(|position| position.parse() == Ok(index))
}
