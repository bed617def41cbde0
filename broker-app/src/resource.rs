//! A resource as JSON. `docs/cli.md` lists the keys; keys are added, never changed or removed.

use broker_domain::{ClusterId, ProvisionedResource};
use broker_ports::wire;
use serde_json::{Value, json};

use crate::explain::reference;

/// Conversion to a JSON object. [`Explanation`](crate::explain::Explanation) and [`Plan`](crate::plan::Plan) have the same
/// method.
pub trait ToJson {
    /// As a JSON object.
    fn to_json(&self) -> Value;
}

impl ToJson for ProvisionedResource {
    fn to_json(&self) -> Value {
        let failure = self.failure().map(
            |failure| json!({"step": failure.step().as_str(), "reason": failure.reason().as_str()}),
        );
        let substrate = self.substrate();
        // Always valid: reading a row refuses parameters that are not canonical JSON.
        let parameters: Value =
            serde_json::from_str(self.parameters().as_json()).unwrap_or_default();
        json!({
            "id": self.id().to_string(),
            "project_id": self.project_id().to_string(),
            "resource_id": self.resource_id().to_string(),
            "blueprint_version_id": self.blueprint_version_id().to_string(),
            "cloud_credential_id": self.cloud_credential_id().to_string(),
            "phase": self.phase().as_str(),
            "phase_entered_at": wire::rfc3339(self.phase_entered_at()),
            "terminal": self.is_terminal(),
            "failure": failure,
            "mesh_role": self.mesh_role().as_str(),
            "on_failure": self.on_failure().as_str(),
            "parameters": parameters,
            "bootstrap_token_id": self.bootstrap_token_id().map(|token| token.to_string()),
            "xr_name": self.xr_name().as_str(),
            "cluster_id": substrate.cluster().map(ClusterId::as_str),
            "provider_config": substrate.provider_config().map(reference),
            "composed": substrate.composed().iter().map(reference).collect::<Vec<_>>(),
            "created_at": wire::rfc3339(self.created_at()),
            "updated_at": wire::rfc3339(self.updated_at()),
            "first_ready_at": self.first_ready_at().map(wire::rfc3339),
            "deletion_requested_at": self.deletion_requested_at().map(wire::rfc3339),
            "abandoned": self.abandoned(),
            "version": self.version().get(),
        })
    }
}
