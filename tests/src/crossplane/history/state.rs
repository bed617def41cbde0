//! A state of an object, without values that differ from run to run and without stale conditions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SLOT_ANNOTATION;
use crate::crossplane::requests::Requests;

/// The prefix of Crossplane's message that names unready parts.
pub(super) const UNREADY: &str = "False Creating Unready resources: ";
const PAUSED_ANNOTATION: &str = "/metadata/annotations/crossplane.io~1paused";
const COMPOSITE_LABEL: &str = "/metadata/labels/crossplane.io~1composite";

/// A state of an object, reduced to what is comparable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Each condition: status, reason and message.
    pub conditions: BTreeMap<String, String>,
    /// Whether the Ready condition is of the current generation. Only for a composite resource that is not
    /// being deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
    /// The references: version, kind, whether a namespace is named, and whether the part ever existed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// The finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Other properties: `paused` and `deleting`; for a part, `labelled` and `owned`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
}

/// Corrects Ready conditions that are based on stale parts. Crossplane may read a stale part from its cache
/// and report a ready resource as unready for a moment.
#[derive(Default)]
pub(super) struct StaleReadyFilter {
    ready_parts: BTreeMap<String, bool>,
    /// The last current Ready condition of the composite resource.
    ready: Option<String>,
}

impl StaleReadyFilter {
    pub(super) fn record_part(&mut self, slot: &str, state: &State) {
        let ready = state.conditions.get("Ready").is_some_and(|ready| ready.starts_with("True"));
        self.ready_parts.insert(slot.to_owned(), ready);
    }

    pub(super) fn correct(&mut self, state: &mut State) {
        let found = state.conditions.get("Ready").cloned();
        match (&self.ready, found) {
            (Some(last), Some(found)) if last.starts_with("True") && self.is_stale(&found) => {
                state.conditions.insert("Ready".to_owned(), last.clone());
            }
            (_, found) => self.ready = found,
        }
    }

    /// Whether a Ready condition names only parts that are ready.
    fn is_stale(&self, condition: &str) -> bool {
        let Some(parts) = condition.strip_prefix(UNREADY) else { return false };
        let parts = parts.split([',', ' ']).filter(|part| !part.is_empty() && *part != "and");
        parts.into_iter().all(|part| self.ready_parts.get(part).is_some_and(|ready| *ready))
    }
}

impl State {
    /// Whether the paused condition is stale. Crossplane may read the shell from its cache after it reconciled
    /// the armed resource, and report "paused" for a moment.
    pub(super) fn is_stale(&self) -> bool {
        let condition =
            |kind: &str| self.conditions.get(kind).map(String::as_str).unwrap_or_default();
        condition("Synced").contains("ReconcilePaused")
            && !condition("Ready").is_empty()
            && !self.marks.contains(&"paused".to_owned())
    }

    /// The state of an object, in a lifetime that had these parts.
    pub(super) fn of(object: &Value, requests: &Requests, parts: &BTreeSet<String>) -> Self {
        let list = |path: &str| object.pointer(path).and_then(Value::as_array);
        let references = list("/spec/crossplane/resourceRefs").into_iter().flatten();
        Self {
            conditions: conditions(object, requests),
            current: is_current(object),
            references: references.map(|to| reference(to, parts)).collect(),
            finalizers: list("/metadata/finalizers").into_iter().flatten().map(text).collect(),
            marks: marks(object, requests),
        }
    }
}

/// The conditions of an object: status, reason and message.
pub(super) fn conditions(object: &Value, requests: &Requests) -> BTreeMap<String, String> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let entry = |condition: &Value| {
        let words = ["status", "reason", "message"].map(|key| text(&condition[key]));
        let words = words.join(" ").trim().replace(requests.xr().name(), "NAME");
        (text(&condition["type"]), words)
    };
    conditions.into_iter().flatten().map(entry).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_part(object: &Value) -> bool {
    object.pointer(SLOT_ANNOTATION).is_some()
}

/// `None` during a deletion: it starts a new generation, which a concurrent reconcile may also report as ready.
fn is_current(object: &Value) -> Option<bool> {
    let is_deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.filter(|_| !is_part(object) && !is_deleting);
    let mut conditions = conditions.and_then(Value::as_array).into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready")?;
    Some(ready.get("observedGeneration")? == &object["metadata"]["generation"])
}

fn reference(to: &Value, parts: &BTreeSet<String>) -> String {
    let place = if to.get("namespace").is_some() { " in a namespace" } else { "" };
    let unknown = if parts.contains(&text(&to["name"])) { "" } else { ", which never was" };
    format!("{} {}{place}{unknown}", text(&to["apiVersion"]), text(&to["kind"]))
}

fn marks(object: &Value, requests: &Requests) -> Vec<String> {
    let xr = requests.xr();
    let owner = |owner: &Value| {
        (&owner["kind"], &owner["name"]) == (&json!(xr.kind()), &json!(xr.name()))
            && (&owner["controller"], &owner["blockOwnerDeletion"]) == (&json!(true), &json!(true))
    };
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let marks = [
        ("paused", object.pointer(PAUSED_ANNOTATION).is_some()),
        ("deleting", object.pointer("/metadata/deletionTimestamp").is_some()),
        ("labelled", is_part(object) && object.pointer(COMPOSITE_LABEL) == Some(&json!(xr.name()))),
        ("owned", is_part(object) && owners.into_iter().flatten().any(owner)),
    ];
    marks.into_iter().filter(|(_, holds)| *holds).map(|(mark, _)| mark.to_owned()).collect()
}
