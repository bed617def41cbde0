//! Observe: an object in the store of the simulated API server.

use std::collections::BTreeMap;

use broker_domain::ObjectReference;
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL};
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::ownership::{Manager, Operation, Ownership};

/// An object of the API server. It may hold a token, so it is not printed.
///
/// `content` holds the fields that managers can own: labels, annotations, `spec` and `status`. The server owns the
/// other metadata.
#[derive(Clone, PartialEq)]
pub(super) struct Object {
    pub(super) uid: String,
    pub(super) resource_version: u64,
    pub(super) generation: i64,
    pub(super) created: OffsetDateTime,
    pub(super) deleting: Option<OffsetDateTime>,
    pub(super) finalizers: Vec<String>,
    pub(super) owners: Vec<Value>,
    pub(super) content: Map<String, Value>,
    pub(super) ownership: Ownership,
}

impl Object {
    /// Edits fields as an update does: the manager then owns the changed ones.
    pub(super) fn write(
        &mut self,
        manager: &str,
        operation: Operation,
        edit: impl FnOnce(&mut Map<String, Value>),
    ) {
        let before = self.content.clone();
        edit(&mut self.content);
        prune(&mut self.content);
        let manager = Manager::new(manager, operation);
        self.ownership.update(&manager, &before, &self.content);
    }

    pub(super) fn spec(&self) -> Option<&Value> {
        self.content.get("spec")
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.metadata_entry("labels", key)
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata_entry("annotations", key)
    }

    /// Whether it carries the broker's label.
    pub(super) fn is_ours(&self) -> bool {
        self.label(MANAGED_BY_LABEL) == Some(FIELD_MANAGER)
    }

    fn metadata_entry(&self, map: &str, key: &str) -> Option<&str> {
        self.content.get("metadata")?.get(map)?.get(key)?.as_str()
    }

    /// The uids of its owners.
    pub(super) fn owner_uids(&self) -> impl Iterator<Item = &str> {
        self.owners.iter().filter_map(|owner| owner.get("uid")?.as_str())
    }

    /// Whether the object with this uid is an owner.
    pub(super) fn is_owned_by(&self, uid: &str) -> bool {
        self.owner_uids().any(|owner| owner == uid)
    }

    /// Whether it blocks the foreground deletion of the owner with this uid.
    pub(super) fn blocks(&self, uid: &str) -> bool {
        self.owners.iter().any(|owner| {
            owner.get("uid").and_then(Value::as_str) == Some(uid)
                && owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
        })
    }

    pub(super) fn condition(&self, kind: &str) -> Option<&Value> {
        let conditions = self.content.get("status")?.get("conditions")?.as_array()?;
        conditions.iter().find(|condition| condition.get("type") == Some(&json!(kind)))
    }

    /// The API server's response.
    pub(super) fn to_json(&self, reference: &ObjectReference) -> Value {
        let mut content = self.content.clone();
        let mut metadata = match content.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let managed = self.ownership.to_json(reference.api_version());
        let server_fields: BTreeMap<_, _> = [
            ("name", json!(reference.name())),
            ("namespace", reference.namespace().map_or(Value::Null, Value::from)),
            ("uid", json!(self.uid)),
            ("resourceVersion", json!(self.resource_version.to_string())),
            ("generation", json!(self.generation)),
            ("creationTimestamp", timestamp(self.created)),
            ("deletionTimestamp", self.deleting.map_or(Value::Null, timestamp)),
            ("finalizers", json!(self.finalizers)),
            ("ownerReferences", json!(self.owners)),
            ("managedFields", managed),
        ]
        .into();
        let is_set = |value: &Value| !value.is_null() && value != &json!([]);
        for (key, value) in server_fields.into_iter().filter(|(_, value)| is_set(value)) {
            metadata.insert(key.to_owned(), value);
        }
        content.insert("apiVersion".to_owned(), json!(reference.api_version()));
        content.insert("kind".to_owned(), json!(reference.kind()));
        content.insert("metadata".to_owned(), Value::Object(metadata));
        Value::Object(content)
    }
}

/// A Kubernetes timestamp, in whole seconds.
pub(super) fn timestamp(moment: OffsetDateTime) -> Value {
    let whole = moment.replace_nanosecond(0).unwrap_or(moment);
    Value::from(whole.format(&Rfc3339).unwrap_or_default())
}

/// A JSON merge patch: `null` removes, objects merge, any other value replaces.
pub(super) fn merge_patch(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => drop(target.remove(key)),
            Value::Object(inner) => {
                let entry = target.entry(key.clone()).or_insert_with(|| json!({}));
                if !entry.is_object() {
                    *entry = json!({});
                }
                if let Value::Object(entry) = entry {
                    merge_patch(entry, inner);
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Drops empty label and annotation maps, as the API server does.
fn prune(content: &mut Map<String, Value>) {
    if let Some(Value::Object(metadata)) = content.get_mut("metadata") {
        metadata.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
    }
    content.retain(|key, value| {
        key != "metadata" || value.as_object().is_none_or(|map| !map.is_empty())
    });
}
