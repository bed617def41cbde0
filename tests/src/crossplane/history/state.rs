//! A state of an object, without what differs from run to run and without what Crossplane takes back.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SLOT;
use crate::crossplane::requests::Requests;

/// The prefix of Crossplane's message that names unready parts.
pub(super) const UNREADY: &str = "False Creating Unready resources: ";
const PAUSED: &str = "/metadata/annotations/crossplane.io~1paused";
const COMPOSITE: &str = "/metadata/labels/crossplane.io~1composite";

/// A state of an object, reduced to what is comparable.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Each condition: status, reason and message.
    pub conditions: BTreeMap<String, String>,
    /// For a composite resource that is not being deleted: whether its Ready condition is of the current
    /// generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
    /// Its references: version, kind, whether a namespace is named, and whether the part ever existed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// Its finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Other properties: `paused`, `deleting`; for a part, whether it is `labelled` and `owned` as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<String>,
}

/// The known parts at the time of a composite resource's condition.
///
/// Crossplane may read a stale part from its cache, report a ready resource as unready, and take that back:
/// a race.
#[derive(Default)]
pub(super) struct News {
    ready_parts: BTreeMap<String, bool>,
    /// The last current Ready condition of the composite resource.
    ready: Option<String>,
}

impl News {
    pub(super) fn of_part(&mut self, slot: &str, state: &State) {
        let ready = state.conditions.get("Ready").is_some_and(|ready| ready.starts_with("True"));
        self.ready_parts.insert(slot.to_owned(), ready);
    }

    pub(super) fn correct(&mut self, state: &mut State) {
        let said = state.conditions.get("Ready").cloned();
        match (&self.ready, said) {
            (Some(known), Some(said)) if known.starts_with("True") && self.is_old(&said) => {
                state.conditions.insert("Ready".to_owned(), known.clone());
            }
            (_, said) => self.ready = said,
        }
    }

    /// Whether it names parts that were ready before.
    fn is_old(&self, said: &str) -> bool {
        let Some(parts) = said.strip_prefix(UNREADY) else { return false };
        let parts = parts.split([',', ' ']).filter(|part| !part.is_empty() && *part != "and");
        parts.into_iter().all(|part| self.ready_parts.get(part).is_some_and(|ready| *ready))
    }
}

impl State {
    /// Crossplane may read the shell from its cache after it reconciled the armed one. It then reports
    /// "paused" once more and takes that back: a race.
    pub(super) fn is_stale(&self) -> bool {
        let said = |kind: &str| self.conditions.get(kind).map(String::as_str).unwrap_or_default();
        said("Synced").contains("ReconcilePaused")
            && !said("Ready").is_empty()
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
    let said = |condition: &Value| {
        let said = ["status", "reason", "message"].map(|key| text(&condition[key]));
        let said = said.join(" ").trim().replace(requests.xr().name(), "NAME");
        (text(&condition["type"]), said)
    };
    conditions.into_iter().flatten().map(said).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn is_part(object: &Value) -> bool {
    object.pointer(SLOT).is_some()
}

/// A deletion counts as a new generation, and a concurrent reconcile may report that one ready too: a race
/// that has no effect.
fn is_current(object: &Value) -> Option<bool> {
    let leaving = object.pointer("/metadata/deletionTimestamp").is_some();
    let conditions = object.pointer("/status/conditions");
    let conditions = conditions.filter(|_| !is_part(object) && !leaving);
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
        ("paused", object.pointer(PAUSED).is_some()),
        ("deleting", object.pointer("/metadata/deletionTimestamp").is_some()),
        ("labelled", is_part(object) && object.pointer(COMPOSITE) == Some(&json!(xr.name()))),
        ("owned", is_part(object) && owners.into_iter().flatten().any(owner)),
    ];
    marks.into_iter().filter(|(_, holds)| *holds).map(|(mark, _)| mark.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ready: &str) -> State {
        let conditions = BTreeMap::from([("Ready".to_owned(), ready.to_owned())]);
        State { conditions, ..State::default() }
    }

    #[test]
    fn reference_to_an_unknown_part_is_marked() {
        let to = json!({"apiVersion": "v1", "kind": "Disk", "name": "a", "namespace": "n"});
        let parts = |name: &str| BTreeSet::from([name.to_owned()]);
        assert_eq!(reference(&to, &parts("a")), "v1 Disk in a namespace");
        assert_eq!(reference(&to, &parts("b")), "v1 Disk in a namespace, which never was");
    }

    #[test]
    fn condition_about_a_previously_ready_part_is_stale() {
        let unready = "False Creating Unready resources: disk, and machine";
        let rows = [
            ("it was never ready", [true, true], None, unready),
            ("both were ready", [true, true], Some("True Available"), "True Available"),
            ("one was not", [true, false], Some("True Available"), unready),
        ];
        for (why, parts, before, expected) in rows {
            let mut news = News { ready: before.map(str::to_owned), ..News::default() };
            for (slot, ready) in ["disk", "machine"].into_iter().zip(parts) {
                news.of_part(slot, &state(if ready { "True" } else { "False" }));
            }
            let mut said = state(unready);
            news.correct(&mut said);
            assert_eq!(said.conditions["Ready"], expected, "{why}");
        }
    }
}
