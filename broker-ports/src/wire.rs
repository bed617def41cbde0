//! Emit: the only encoder of events. The store keeps these bytes and the receiver gets them unchanged.
//!
//! Keys are sorted, times are RFC 3339 in UTC. Fields are only added, never changed or removed.
//!
//! ```
//! use broker_domain::*;
//! use time::OffsetDateTime;
//! use uuid::Uuid;
//!
//! let declaration = Declaration::new(
//!     ProjectId::new(Uuid::from_u128(1))?,
//!     ResourceId::new(Uuid::from_u128(2))?,
//!     BlueprintVersionId::new(Uuid::from_u128(3))?,
//!     CloudCredentialId::new(Uuid::from_u128(4))?,
//! );
//! let at = OffsetDateTime::from_unix_timestamp(1_790_000_000)?;
//! let requested = ProvisionedResource::new(
//!     ProvisionedResourceId::new(Uuid::from_u128(5))?,
//!     &declaration,
//!     MeshRole::Node,
//!     Parameters::default(),
//!     Stamp::new(EventId::new(Uuid::from_u128(6))?, at),
//! )?;
//! let bytes = broker_ports::wire::encode(requested.event().unwrap());
//! assert!(bytes.starts_with(br#"{"blueprint_version_id":"00000000-0000-0000-0000-000000000003","#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::BTreeMap;

use broker_domain::{Event, EventDetail};
use serde_json::Value;
use time::UtcOffset;
use time::format_description::well_known::Rfc3339;

/// The event as JSON.
pub fn encode(event: &Event) -> Vec<u8> {
    // Sorted here, because a host may enable `serde_json/preserve_order`.
    let mut fields = BTreeMap::new();
    let mut put = |key: &str, value: Value| fields.insert(key.to_owned(), value);
    put("event_id", event.id().to_string().into());
    put("event_type", event.event_type().as_str().into());
    put("occurred_at", rfc3339(event.occurred_at()).into());
    put("sequence", event.sequence().into());
    put("provisioned_resource_id", event.provisioned_resource_id().to_string().into());
    put("project_id", event.project_id().to_string().into());
    put("xr_name", event.xr_name().as_str().into());
    match event.detail() {
        EventDetail::Requested {
            resource_id, blueprint_version_id, cloud_credential_id, ..
        } => {
            put("resource_id", resource_id.to_string().into());
            put("blueprint_version_id", blueprint_version_id.to_string().into());
            put("cloud_credential_id", cloud_credential_id.to_string().into());
        }
        EventDetail::Failed(failure) => {
            put("step", failure.step().as_str().into());
            put("reason", failure.reason().as_str().into());
        }
        EventDetail::Deleted { abandoned, left_to_garbage_collection, .. } => {
            put("abandoned", (*abandoned).into());
            put("left_to_garbage_collection", (*left_to_garbage_collection).into());
        }
        EventDetail::Deleting | EventDetail::Ready => {}
    }
    Value::Object(fields.into_iter().collect()).to_string().into_bytes()
}

/// Formats a time for the wire: UTC, RFC 3339.
pub fn rfc3339(at: time::OffsetDateTime) -> String {
    // Years above 9999 have no RFC 3339 form; they are written as seconds since the epoch.
    at.to_offset(UtcOffset::UTC)
        .format(&Rfc3339)
        .unwrap_or_else(|_| format!("@{}", at.unix_timestamp()))
}

#[cfg(test)]
mod tests;
