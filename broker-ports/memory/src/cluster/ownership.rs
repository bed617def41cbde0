//! Act: field ownership of server-side apply.
//!
//! A field is a path to a leaf: a scalar, a whole array, or an empty object. Real servers also track items of some
//! arrays; the broker's manifests do not need that.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

type Path = Vec<String>;

/// The operation by which a manager owns its fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Server-side apply: a field that the next apply omits is removed.
    Apply,
    /// Any other write.
    Update,
    /// A write of the status.
    UpdateStatus,
}

/// A field manager: its name and operation.
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
    /// Forced server-side apply: `content` gets all sent fields. Fields that only this manager owned and no longer
    /// sends are removed.
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
                self.release(path);
            }
        }
        self.0.insert(manager.clone(), leaves.into_keys().collect());
    }

    /// Any other write: the writer owns the changed fields; removed fields have no owner.
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
                self.release(&path);
                self.0.entry(manager.clone()).or_default().insert(path);
            }
        }
        self.0.retain(|_, owned| !owned.is_empty());
    }

    /// Removes a field, its ancestors and its descendants from every owner.
    fn release(&mut self, path: &Path) {
        for owned in self.0.values_mut() {
            owned.retain(|other| !other.starts_with(path) && !path.starts_with(other));
        }
    }

    /// The value of `metadata.managedFields`.
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

fn collect_leaves(
    object: &Map<String, Value>,
    path: &mut Path,
    leaves: &mut BTreeMap<Path, Value>,
) {
    for (key, value) in object {
        path.push(key.clone());
        match value.as_object().filter(|inner| !inner.is_empty()) {
            Some(inner) => collect_leaves(inner, path, leaves),
            None => drop(leaves.insert(path.clone(), value.clone())),
        }
        path.pop();
    }
}

/// Sets a value at a path and returns whether it changed.
fn set(object: &mut Map<String, Value>, path: &[String], value: &Value) -> bool {
    match path {
        [] => false,
        [key] => match object.get(key) {
            Some(live) if live == value => false,
            // An empty object sets no fields below it.
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

/// Removes a leaf, and the enclosing objects that become empty.
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
        let mut node = &mut root;
        for step in path {
            let inner = node.entry(format!("f:{step}")).or_insert_with(|| json!({}));
            let Value::Object(inner) = inner else { break };
            node = inner;
        }
    }
    Value::Object(root)
}
