//! Persist stage: an unchecked row of a resource.

use time::OffsetDateTime;
use uuid::Uuid;

use crate::parameters::Parameters;
use crate::substrate::Substrate;

/// Every stored field of a resource, in plain types.
///
/// An adapter fills it from a row and calls
/// [`ProvisionedResource::hydrate`](crate::ProvisionedResource::hydrate), which checks every field and
/// combination. To write, the adapter destructures
/// [`ProvisionedResource::snapshot`](crate::ProvisionedResource::snapshot). The struct is exhaustive, so that
/// a new field breaks every adapter at compile time.
///
/// ```
/// use broker_domain::{Error, ProvisionedResource, Snapshot};
///
/// fn resource_of(row: Snapshot) -> Result<ProvisionedResource, Error> {
///     ProvisionedResource::hydrate(row)
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented at the aggregate's accessor of its name")]
pub struct Snapshot {
    pub id: Uuid,
    pub resource_id: Uuid,
    pub project_id: Uuid,
    pub blueprint_version_id: Uuid,
    pub cloud_credential_id: Uuid,
    pub phase: String,
    pub xr_name: String,
    pub bootstrap_token_id: Option<Uuid>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub parameters: Parameters,
    pub mesh_role: String,
    pub on_failure: String,
    pub failure_step: Option<String>,
    pub failure_reason: Option<String>,
    pub token_ordinal: u32,
    pub token_closed: bool,
    pub substrate: Substrate,
    pub deletion_requested_at: Option<OffsetDateTime>,
    pub phase_entered_at: OffsetDateTime,
    pub first_ready_at: Option<OffsetDateTime>,
    pub abandoned: bool,
    pub event_sequence: u64,
    pub version: u64,
}
