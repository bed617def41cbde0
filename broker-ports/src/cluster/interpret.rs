//! Observe: converts objects from API server JSON into the broker's types.
//!
//! Every adapter uses this module, so that simulated and real clusters are interpreted in the same way.

use broker_render::{
    ARMED_ANNOTATION, Armed, CROSSPLANE_FIELDS, Digest, EPOCH_ANNOTATION, FIELD_MANAGER,
    OWN_LABELS, PAUSED_ANNOTATION, XrdScope, armed, composition_ref, injected, is_drifted,
    owned_digest, references, references_digest, scrub,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::inspection::{Condition, ObjectReport};
use super::live::{
    Arming, CachedXr, ConditionStatus, FOREGROUND, LiveObject, LiveXr, SpecState, XrStatus,
};
use super::write::ObjectVersion;
use crate::error::PortError;

/// Crossplane's reason for a Synced condition that is False because of a pause.
const PAUSED_REASON: &str = "ReconcilePaused";

impl ObjectVersion {
    /// Reads the version from an object's metadata.
    ///
    /// # Errors
    ///
    /// `Rejected` without a uid or resource version: such an object was never stored.
    pub fn of(object: &Value) -> Result<Self, PortError> {
        let text = |key: &str| {
            let text = metadata(object, key).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| PortError::rejected(format!("the object has no metadata.{key}")))
        };
        Ok(Self { uid: text("uid")?, resource_version: text("resourceVersion")? })
    }
}

impl LiveObject {
    /// Wraps an object that the API server sent.
    ///
    /// # Errors
    ///
    /// As [`ObjectVersion::of`].
    pub fn from_json(json: Value) -> Result<Self, PortError> {
        Ok(Self::new(ObjectVersion::of(&json)?, json))
    }
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    let finalizers = metadata(object, "finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|names| names.iter().any(|name| name.as_str() == Some(finalizer)))
}

impl XrStatus {
    /// Reads the status of a composite resource.
    pub fn of(object: &Value) -> Self {
        let all = conditions(object, &[]);
        let find = |kind: &str| all.iter().find(|condition| condition.kind == kind);
        let synced = find("Synced");
        let failed =
            find("ProvisioningFailed").filter(|failed| failed.status == ConditionStatus::True);
        Self {
            generation: generation(object),
            deleting: metadata(object, "deletionTimestamp").is_some(),
            foreground: metadata(object, "deletionTimestamp").is_some()
                && has_finalizer(object, FOREGROUND),
            ready: find("Ready").map(|ready| ready.status),
            ready_generation: find("Ready").and_then(|ready| ready.observed_generation),
            synced: synced.map(|synced| synced.status),
            sync_failed: synced.is_some_and(|synced| {
                synced.status == ConditionStatus::False && synced.reason != PAUSED_REASON
            }),
            provisioning_failed: failed.map(|_| {
                let hidden = injected(object);
                let scrubbed = conditions(object, &hidden).into_iter();
                let mut failures =
                    scrubbed.filter(|condition| condition.kind == "ProvisioningFailed");
                failures.next().map(|condition| condition.message).unwrap_or_default()
            }),
        }
    }
}

impl Arming {
    /// Reads the arming annotation of a composite resource.
    pub fn of(object: &Value) -> Self {
        let standalone = Armed::Standalone.to_string();
        match armed(object) {
            None => Self::Shell,
            Some(text) if text == standalone => Self::Armed(Armed::Standalone),
            Some(text) => {
                text.parse().map_or(Self::Unreadable, |token| Self::Armed(Armed::Token(token)))
            }
        }
    }
}

impl LiveXr {
    /// Reads a composite resource that the API server sent.
    ///
    /// # Errors
    ///
    /// As [`ObjectVersion::of`].
    pub fn from_json(json: Value, scope: XrdScope) -> Result<Self, PortError> {
        let references = references(&json, scope);
        Ok(Self {
            status: XrStatus::of(&json),
            armed: Arming::of(&json),
            references_digest: references_digest(&references),
            references,
            object: LiveObject::from_json(json)?,
        })
    }
}

impl CachedXr {
    /// Reduces a composite resource to the fields that a cache keeps.
    ///
    /// # Errors
    ///
    /// As [`ObjectVersion::of`].
    pub fn of(object: &Value, scope: XrdScope) -> Result<Self, PortError> {
        let version = ObjectVersion::of(object)?;
        // No rendered manifest has the zero digest, so an object without fields of the broker never matches one.
        let owned = owned_digest(object).unwrap_or(Digest::new([0; 32]));
        let references = references_digest(&references(object, scope));
        let drifted = is_drifted(object, Some(owned));
        let spec = if drifted { SpecState::Drifted } else { SpecState::AsApplied };
        let cached =
            Self::present(version, XrStatus::of(object), Arming::of(object), owned, references);
        Ok(cached.with_spec(spec))
    }
}

impl ObjectReport {
    /// Reports a composite resource, without injected values.
    ///
    /// # Errors
    ///
    /// As [`ObjectVersion::of`].
    pub fn of_composite(
        object: &Value,
        scope: XrdScope,
        injected: &[SecretString],
    ) -> Result<Self, PortError> {
        let composition = composition_ref(object, scope).map(str::to_owned);
        Ok(Self { composition, ..Self::of(object, injected)? })
    }

    /// Reports an object, without injected values.
    ///
    /// # Errors
    ///
    /// As [`ObjectVersion::of`].
    pub fn of(object: &Value, injected: &[SecretString]) -> Result<Self, PortError> {
        let annotation = |key: &str| {
            metadata(object, "annotations").and_then(|annotations| annotations.get(key)?.as_str())
        };
        let finalizers = metadata(object, "finalizers").and_then(Value::as_array);
        let owned = owned_digest(object);
        Ok(Self {
            uid: ObjectVersion::of(object)?.uid,
            generation: generation(object),
            conditions: conditions(object, injected),
            finalizers: finalizers.into_iter().flatten().filter_map(text).collect(),
            deleting_since: metadata(object, "deletionTimestamp").and_then(timestamp),
            paused: annotation(PAUSED_ANNOTATION) == Some("true"),
            armed: annotation(ARMED_ANNOTATION).map(str::to_owned),
            composition: None,
            rival_managers: rival_managers(object),
            owned,
            drifted: is_drifted(object, owned),
        })
    }
}

fn metadata<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(key)
}

fn generation(object: &Value) -> i64 {
    metadata(object, "generation").and_then(Value::as_i64).unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn timestamp(value: &Value) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(value.as_str()?, &Rfc3339).ok()
}

fn conditions(object: &Value, injected: &[SecretString]) -> Vec<Condition> {
    let hidden: Vec<_> = injected.iter().map(ExposeSecret::expose_secret).collect();
    let condition = |entry: &Value| {
        let field = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        Some(Condition {
            kind: entry.get("type").and_then(text)?,
            status: match field("status") {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            },
            // Other writers set conditions: a reason, like a message, may quote an injected value.
            reason: scrub(field("reason"), &hidden),
            message: scrub(field("message"), &hidden),
            since: entry.get("lastTransitionTime").and_then(timestamp),
            observed_generation: entry.get("observedGeneration").and_then(Value::as_i64),
        })
    };
    let entries = object.get("status").and_then(|status| status.get("conditions")?.as_array());
    entries.into_iter().flatten().filter_map(condition).collect()
}

/// Other managers of fields that the broker sends: `spec` except Crossplane's own part, and the broker's labels and
/// annotations. A pause does not count, because people may set it.
fn rival_managers(object: &Value) -> Vec<String> {
    let ours = OWN_LABELS.into_iter().map(|label| ("f:labels", label));
    let ours =
        ours.chain([("f:annotations", ARMED_ANNOTATION), ("f:annotations", EPOCH_ANNOTATION)]);
    let ours: Vec<_> = ours.map(|(map, key)| (map, format!("f:{key}"))).collect();
    let rivals = |fields: &Value| {
        let spec = fields.get("f:spec").and_then(Value::as_object);
        let field_name = |name: &String| name.strip_prefix("f:").map(str::to_owned);
        let names = spec.into_iter().flat_map(Map::keys).filter_map(field_name);
        let metadata = fields.get("f:metadata");
        let owns = |(map, key): &(&str, String)| metadata?.get(map)?.get(key);
        names.into_iter().any(|name| !CROSSPLANE_FIELDS.contains(&name.as_str()))
            || ours.iter().any(|field| owns(field).is_some())
    };
    let managers = metadata(object, "managedFields").and_then(Value::as_array);
    let mut names: Vec<_> = managers
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("fieldsV1").is_some_and(rivals))
        .filter_map(|entry| entry.get("manager").and_then(text))
        .filter(|manager| manager != FIELD_MANAGER)
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object() -> Value {
        json!({
            "metadata": {
                "uid": "u", "resourceVersion": "7", "generation": 3,
                "deletionTimestamp": "2026-01-02T03:04:05Z",
                "finalizers": ["a", "b"],
                "annotations": {"crossplane.io/paused": "true"},
                "managedFields": [
                    {"manager": FIELD_MANAGER, "fieldsV1": {"f:spec": {"f:parameters": {}}}},
                    {"manager": "crossplane", "fieldsV1": {"f:spec": {"f:crossplane": {}}}},
                    {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:parameters": {}}}},
                    {"manager": "pausing", "fieldsV1": {"f:metadata": {"f:annotations": {"f:crossplane.io/paused": {}}}}},
                    {"manager": "relabel", "fieldsV1": {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}}}}},
                ],
            },
            "spec": {"userData": "canary-token-text"},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "observedGeneration": 2, "reason": "Available-canary-token-text"},
                {"type": "ProvisioningFailed", "status": "True", "message": "refused canary-token-text"},
                {"type": "Custom", "status": "Perhaps", "lastTransitionTime": "yesterday"},
                "nonsense",
            ]},
        })
    }

    #[test]
    fn report_of_an_object_copies_its_metadata() {
        let report = ObjectReport::of(&object(), &injected(&object())).unwrap();
        assert_eq!((report.uid.as_str(), report.generation), ("u", 3));
        assert_eq!(report.finalizers, ["a", "b"]);
        assert!(report.paused && report.deleting_since.is_some() && report.armed.is_none());
        assert_eq!(report.rival_managers, ["kubectl", "relabel"]);
        assert_eq!(report.conditions[0].reason, "Available-█");
        let custom = &report.conditions[2];
        assert_eq!((custom.status, custom.since), (ConditionStatus::Unknown, None));
        assert!(!format!("{report:?}").contains("canary"));
    }

    #[test]
    fn status_of_an_object_repeats_no_secret() {
        let status = XrStatus::of(&object());
        assert_eq!((status.generation, status.ready_generation), (3, Some(2)));
        assert!(status.deleting && status.ready == Some(ConditionStatus::True));
        assert_eq!(status.provisioning_failed.as_deref(), Some("refused █"));
    }

    #[test]
    fn false_synced_is_a_failure_unless_paused() {
        for (status, reason, fails, why) in [
            ("False", "ReconcileError", true, "Crossplane cannot compose"),
            ("False", "ReconcilePaused", false, "the object is paused"),
            ("True", "ReconcileSuccess", false, "Crossplane composes"),
            ("Unknown", "ReconcileError", false, "unknown is not False"),
        ] {
            let synced = json!({"type": "Synced", "status": status, "reason": reason});
            let read = XrStatus::of(&json!({"status": {"conditions": [synced]}}));
            assert_eq!(read.sync_failed, fails, "{why}");
        }
        assert!(!XrStatus::of(&json!({})).sync_failed, "nothing is reported yet");
    }

    #[test]
    fn unreadable_arming_annotation_is_not_a_shell() {
        let annotated = |text: &str| json!({"metadata": {"annotations": {ARMED_ANNOTATION: text}}});
        let token = "00000000-0000-0000-0000-000000000007";
        assert_eq!(Arming::of(&json!({})), Arming::Shell);
        assert_eq!(Arming::of(&annotated("standalone")), Arming::Armed(Armed::Standalone));
        assert_eq!(
            Arming::of(&annotated(token)),
            Arming::Armed(Armed::Token(token.parse().unwrap()))
        );
        assert_eq!(Arming::of(&annotated("by hand")), Arming::Unreadable);
        assert_eq!(Arming::of(&annotated("")), Arming::Unreadable);
    }

    #[test]
    fn object_without_version_is_rejected() {
        let error = LiveObject::from_json(json!({"metadata": {"uid": "u"}})).unwrap_err();
        assert_eq!(error.to_string(), "the object has no metadata.resourceVersion");
    }
}
