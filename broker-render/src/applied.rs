//! Whether what we would send already stands.
//!
//! Two forms of one question. A pass that holds the whole live object compares field by field. A watch
//! cache keeps only a digest, taken over the fields that the API server records as ours.

use serde_json::{Map, Value};

use crate::canonical::{self, Digest, same};
use crate::manifest::Manifest;
use crate::names::{
    APPLIED_DIGEST_ANNOTATION, ARMED_ANNOTATION, CROSSPLANE_FIELDS, FIELD_MANAGER, OWN_LABELS,
};
use crate::{composition_ref, injection};

/// Whether an apply of `desired` would change nothing: every field of it stands on the live object, and
/// nothing stands there under our name that it no longer contains.
///
/// Fields of others (defaults, Crossplane's, status, their labels) do not count, and neither do the
/// injection site and the `compositionRef`, which a re-apply takes from the live object anyway. A live
/// object that was stripped of its `managedFields` is compared by what stands alone.
pub fn is_applied(live: &Value, desired: &Manifest) -> bool {
    let same_object = ["apiVersion", "kind"]
        .iter()
        .all(|key| desired.as_object().get(*key) == live.get(key))
        && desired.as_object().get("metadata").map(name_of) == live.get("metadata").map(name_of);
    let sent = Value::Object(sent_fields(desired));
    same_object
        && match owned_fields(live) {
            Owned::Unknown => stands(&sent, live, Extra::Allowed),
            Owned::Nothing => false,
            Owned::Fields(mut owned) => {
                normalise(&mut owned);
                stands(&sent, &Value::Object(owned), Extra::Refused)
            }
        }
}

/// The digest over the fields of a live object that our field manager applied, without the injection
/// site and the `compositionRef`; `None` when there are none. It equals [`Manifest::digest`] of what was
/// applied for as long as nobody changes one of them.
pub fn owned_digest(live: &Value) -> Option<Digest> {
    let Owned::Fields(mut owned) = owned_fields(live) else { return None };
    normalise(&mut owned);
    Some(Digest::of(canonical::object_text(&owned).as_bytes()))
}

/// Whether another writer changed or removed a field of a live composite resource since the broker armed it. `owned` is its
/// [`owned_digest`].
///
/// A shell does not drift, nor does what an earlier release armed, which left no digest to compare with. Fields that others
/// only added do not count, unless they also took over a field of ours. A field that was changed and put back is as it was applied, although the other writer owns it
/// from then on.
pub fn is_drifted(live: &Value, owned: Option<Digest>) -> bool {
    let applied = applied_digest(live);
    applied.is_some() && applied != owned && applied != content_digest(live)
}

fn applied_digest(live: &Value) -> Option<Digest> {
    let annotations = live.get("metadata")?.get("annotations")?;
    Digest::parse(annotations.get(APPLIED_DIGEST_ANNOTATION)?.as_str()?)
}

/// The digest over what anyone wrote into the fields that the broker sends: the whole `spec`, and the labels and the
/// annotation that every armed composite resource carries.
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
    let marks = |map: &str, names: &[&str]| {
        let standing = metadata.get(map).and_then(Value::as_object);
        let ours =
            standing.into_iter().flatten().filter(|(name, _)| names.contains(&name.as_str()));
        Value::Object(ours.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    let marks = [
        ("labels", marks("labels", &OWN_LABELS)),
        ("annotations", marks("annotations", &[ARMED_ANNOTATION])),
    ];
    let marks = marks.into_iter().map(|(map, marks)| (map.to_owned(), marks)).collect();
    content.insert("metadata".to_owned(), Value::Object(marks));
    normalise(&mut content);
    Some(Digest::of(canonical::object_text(&content).as_bytes()))
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

/// Without the injection site, the `compositionRef` and the annotation with the digest of the rest, and without the empty
/// objects that they leave: an owned empty object is the same as none.
fn normalise(fields: &mut Map<String, Value>) {
    if let Some(annotations) = fields.get_mut("metadata").and_then(|it| it.get_mut("annotations"))
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

/// Whether what stands may hold fields that are not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Allowed,
    Refused,
}

/// Whether what is sent stands: objects field by field, arrays item by item, all of them.
fn stands(sent: &Value, live: &Value, extra: Extra) -> bool {
    match (sent, live) {
        // Below an empty object that we own, the API server's defaults may have grown.
        (Value::Object(sent), Value::Object(_)) if sent.is_empty() => true,
        (Value::Object(sent), Value::Object(live)) => {
            let field = |(key, sent): (&String, &Value)| {
                live.get(key).is_some_and(|live| stands(sent, live, extra))
            };
            (extra == Extra::Allowed || sent.len() == live.len()) && sent.iter().all(field)
        }
        (Value::Array(sent), Value::Array(live)) => {
            // Nobody but the API server, with its defaults, adds to an item of ours.
            let mut items = sent.iter().zip(live);
            sent.len() == live.len() && items.all(|(sent, live)| stands(sent, live, Extra::Allowed))
        }
        _ => same(sent, live),
    }
}

/// What our field manager applied of a live object.
enum Owned {
    /// The object does not say.
    Unknown,
    /// Nothing: it was made by others, or somebody took our name off.
    Nothing,
    Fields(Map<String, Value>),
}

fn owned_fields(live: &Value) -> Owned {
    let managed = live.get("metadata").and_then(|metadata| metadata.get("managedFields"));
    let Some(Value::Array(managed)) = managed else { return Owned::Unknown };
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
        return Owned::Nothing;
    }
    drop_empty(&mut fields);
    Owned::Fields(live.as_object().map(|live| project_object(live, &fields)).unwrap_or_default())
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
            && keys.iter().all(|(key, value)| item.get(key).is_some_and(|item| same(item, value)));
    }
    if let Some(member) = key.strip_prefix("v:") {
        return serde_json::from_str::<Value>(member).is_ok_and(|member| same(&member, item));
    }
    key.strip_prefix("i:").is_some_and(|position| position.parse() == Ok(index))
}
