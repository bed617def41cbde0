//! The status of an XR, and the token that a booting machine reads from it.

use broker_render::token_in;
use kube::api::{DynamicObject, Patch};
use kube::{Api, ResourceExt};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Crossplane, parameters};

impl Crossplane {
    /// The status of a healthy composite resource.
    #[must_use]
    pub fn ready_status(xr: &DynamicObject) -> Value {
        json!({"conditions": [
            condition(xr, "Synced", "True", "ReconcileSuccess", ""),
            condition(xr, "Ready", "True", "Available", ""),
        ]})
    }
}

/// A condition of the XR for its current generation.
pub(super) fn condition(
    xr: &DynamicObject,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": xr.metadata.generation,
    })
}

/// Writes the conditions of this XR.
pub(super) async fn write_conditions(
    api: &Api<DynamicObject>,
    xr: &DynamicObject,
    conditions: &Value,
) -> Result<(), kube::Error> {
    let status = json!({"metadata": {"uid": xr.uid()}, "status": {"conditions": conditions}});
    api.patch_status(&xr.name_any(), &parameters(), &Patch::Merge(status)).await.map(drop)
}

pub(super) fn has_ready_condition(conditions: &Value) -> bool {
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.as_array().is_some_and(|conditions| conditions.iter().any(ready))
}

/// Whether the XR already has these conditions.
pub(super) fn has_conditions(xr: &DynamicObject, conditions: &Value) -> bool {
    xr.data.pointer("/status/conditions") == Some(conditions)
}

/// The token in the document of a running machine: its XR is ready for its generation and not being
/// deleted.
pub(super) fn token(xr: &DynamicObject) -> Option<SecretString> {
    if xr.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = xr.data.pointer("/status/conditions")?;
    let observed = conditions.pointer("/0/observedGeneration")?.as_i64();
    if !has_ready_condition(conditions) || observed != xr.metadata.generation {
        return None;
    }
    token_in(xr.data.pointer("/spec/userData")?.as_str()?)
}
