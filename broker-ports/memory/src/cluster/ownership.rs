//! Who owns which field, as server-side apply keeps it.
//!
//! A field is a path to a leaf: a scalar, an array as a whole, or an empty object. That is coarser than the
//! real thing, which looks into some arrays, and enough for everything that the broker sends.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A path to a leaf of an object.
type Path = Vec<String>;

/// How a manager came to own its fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// By server-side apply: what it leaves out the next time goes.
    Apply,
    /// By any other write.
    Update,
    /// By a write of the status.
    UpdateStatus,
}

/// Who wrote, and how.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    name: String,
    operation: Operation,
}

impl Manager {
    pub(super) fn new(name: &str, operation: Operation) -> Self {
        Self { name: name.to_owned(), operation }
    }
}

/// The owners of an object's fields.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Ownership(BTreeMap<Manager, BTreeSet<Path>>);

impl Ownership {
    /// Server-side apply, forced: `content` gets what is sent and loses what this manager sent before,
    /// does not send now, and nobody else owns.
    pub(super) fn apply(
        &mut self,
        manager: &Manager,
        content: &mut Map<String, Value>,
        sent: &Map<String, Value>,
    ) {
        let mut leaves = BTreeMap::new();
        collect_leaves(sent, &mut Vec::new(), &mut leaves);
        let before = self.0.remove(manager).unwrap_or_default();
        for path in before.iter().filter(|path| !leaves.keys().any(|leaf| leaf.starts_with(path))) {
            if !self.0.values().flatten().any(|owned| owned.starts_with(path)) {
                remove(content, path);
            }
        }
        for (path, value) in &leaves {
            if set(content, path, value) {
                self.take(path);
            }
        }
        self.0.insert(manager.clone(), leaves.into_keys().collect());
    }

    /// Any other write: what changed belongs to the writer from now on, and what is gone to nobody.
    pub(super) fn update(
        &mut self,
        manager: &Manager,
        before: &Map<String, Value>,
        after: &Map<String, Value>,
    ) {
        let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
        collect_leaves(before, &mut Vec::new(), &mut old);
        collect_leaves(after, &mut Vec::new(), &mut new);
        for path in old.keys().filter(|path| !new.contains_key(*path)) {
            for owned in self.0.values_mut() {
                owned.remove(path);
            }
        }
        for (path, value) in new {
            if old.get(&path) != Some(&value) {
                self.take(&path);
                self.0.entry(manager.clone()).or_default().insert(path);
            }
        }
        self.0.retain(|_, owned| !owned.is_empty());
    }

    /// Takes a field, and whatever lies above or below it, from everybody.
    fn take(&mut self, path: &Path) {
        for owned in self.0.values_mut() {
            owned.retain(|other| !other.starts_with(path) && !path.starts_with(other));
        }
    }

    /// As the API server writes it into `metadata.managedFields`.
    pub(super) fn to_json(&self, api_version: &str) -> Value {
        let entry = |(manager, paths): (&Manager, &BTreeSet<Path>)| {
            let mut entry = json!({
                "manager": manager.name,
                "operation": if manager.operation == Operation::Apply { "Apply" } else { "Update" },
                "apiVersion": api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": tree(paths),
            });
            if manager.operation == Operation::UpdateStatus {
                entry["subresource"] = json!("status");
            }
            entry
        };
        Value::Array(self.0.iter().map(entry).collect())
    }
}

fn collect_leaves(object: &Map<String, Value>, at: &mut Path, into: &mut BTreeMap<Path, Value>) {
    for (key, value) in object {
        at.push(key.clone());
        match value.as_object().filter(|inner| !inner.is_empty()) {
            Some(inner) => collect_leaves(inner, at, into),
            None => drop(into.insert(at.clone(), value.clone())),
        }
        at.pop();
    }
}

/// Puts a value where it belongs, and says whether that changed anything.
fn set(object: &mut Map<String, Value>, path: &[String], value: &Value) -> bool {
    match path {
        [] => false,
        [key] => match object.get(key) {
            Some(live) if live == value => false,
            // An empty object asks for nothing below it.
            Some(Value::Object(_)) if value.as_object().is_some_and(Map::is_empty) => false,
            _ => {
                object.insert(key.clone(), value.clone());
                true
            }
        },
        [key, rest @ ..] => {
            let inner = object.entry(key.clone()).or_insert_with(|| json!({}));
            if !inner.is_object() {
                *inner = json!({});
            }
            inner.as_object_mut().is_some_and(|inner| set(inner, rest, value))
        }
    }
}

/// Removes a leaf, and the objects around it that it leaves empty.
fn remove(object: &mut Map<String, Value>, path: &[String]) {
    match path {
        [] => {}
        [key] => drop(object.remove(key)),
        [key, rest @ ..] => {
            if let Some(Value::Object(inner)) = object.get_mut(key) {
                remove(inner, rest);
                if inner.is_empty() {
                    object.remove(key);
                }
            }
        }
    }
}

fn tree(paths: &BTreeSet<Path>) -> Value {
    let mut root = Map::new();
    for path in paths {
        let mut at = &mut root;
        for step in path {
            let inner = at.entry(format!("f:{step}")).or_insert_with(|| json!({}));
            let Value::Object(inner) = inner else { break };
            at = inner;
        }
    }
    Value::Object(root)
}
