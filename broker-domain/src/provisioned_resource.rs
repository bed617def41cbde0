//! Persist stage: the aggregate of one declared piece of substrate, through its whole lifecycle.

mod build;
mod change;

use time::OffsetDateTime;

pub use change::Change;

use crate::declaration::Declaration;
use crate::error::Error;
use crate::event::Stamp;
use crate::failure::Failure;
use crate::ids::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, ProjectId, ProvisionedResourceId,
    ResourceId, XrName,
};
use crate::parameters::Parameters;
use crate::phase::Phase;
use crate::roles::{MeshRole, OnFailure};
use crate::snapshot::Snapshot;
use crate::substrate::{ObjectReference, Substrate};
use crate::token::TokenOrdinal;
use crate::version::Version;

/// One declared piece of substrate that the broker converges to Ready and later tears down.
///
/// Every value satisfies every invariant: [`new`](Self::new) and [`hydrate`](Self::hydrate) share one private
/// builder, so reading rejects a corrupt row. Values are immutable. Each legal change is a method that
/// returns a [`Change`]: the new state, the event if any, and the expected version.
///
/// ```
/// use broker_domain::{
///     BlueprintVersionId, CloudCredentialId, Declaration, EventId, EventType, MeshRole, Parameters,
///     Phase, ProjectId, ProvisionedResource, ProvisionedResourceId, ResourceId, Stamp,
/// };
/// use time::OffsetDateTime;
/// use uuid::Uuid;
///
/// let stamp = |id, second: i64| -> Result<Stamp, Box<dyn std::error::Error>> {
///     let at = OffsetDateTime::from_unix_timestamp(1_790_000_000 + second)?;
///     Ok(Stamp::new(EventId::new(Uuid::from_u128(id))?, at))
/// };
/// let declaration = Declaration::new(
///     ProjectId::new(Uuid::from_u128(1))?,
///     ResourceId::new(Uuid::from_u128(2))?,
///     BlueprintVersionId::new(Uuid::from_u128(3))?,
///     CloudCredentialId::new(Uuid::from_u128(4))?,
/// );
///
/// let id = ProvisionedResourceId::new(Uuid::from_u128(5))?;
/// let requested = ProvisionedResource::new(
///     id, &declaration, MeshRole::Standalone, Parameters::default(), stamp(6, 0)?)?;
/// assert_eq!(requested.event().unwrap().event_type(), EventType::Requested);
///
/// let ready = requested.resource().advance(Phase::Ready, stamp(7, 60)?)?.unwrap();
/// assert_eq!(ready.event().unwrap().sequence(), 2);
/// assert_eq!(ready.expected_version().get(), 1);
/// assert_eq!(ready.resource().version().get(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A phase cannot be set from outside:
///
/// ```compile_fail,E0616
/// # use broker_domain::{Phase, ProvisionedResource};
/// fn set_phase(resource: &mut ProvisionedResource) {
///     resource.phase = Phase::Ready;
/// }
/// ```
///
/// It can only be read:
///
/// ```
/// # use broker_domain::{Phase, ProvisionedResource};
/// fn read_phase(resource: &mut ProvisionedResource) {
///     let _: Phase = resource.phase();
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ProvisionedResource {
    id: ProvisionedResourceId,
    resource_id: ResourceId,
    project_id: ProjectId,
    blueprint_version_id: BlueprintVersionId,
    cloud_credential_id: CloudCredentialId,
    phase: Phase,
    bootstrap_token_id: Option<BootstrapTokenId>,
    created_at: OffsetDateTime,
    updated_at: OffsetDateTime,
    parameters: Parameters,
    mesh_role: MeshRole,
    on_failure: OnFailure,
    failure: Option<Failure>,
    token_ordinal: TokenOrdinal,
    token_closed: bool,
    substrate: Substrate,
    deletion_requested_at: Option<OffsetDateTime>,
    phase_entered_at: OffsetDateTime,
    first_ready_at: Option<OffsetDateTime>,
    abandoned: bool,
    event_sequence: u64,
    version: Version,
}

impl ProvisionedResource {
    /// Accepts a declaration: returns the resource in [`Phase::Pending`] with its `Requested` event.
    ///
    /// `parameters` are the declaration's after validation, defaults included. The blueprint determines
    /// `mesh_role`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the stamp's time is not after 1970: the caller's clock is not set.
    #[expect(
        clippy::new_ret_no_self,
        reason = "a new resource comes with its event, as one change"
    )]
    pub fn new(
        id: ProvisionedResourceId,
        declaration: &Declaration,
        mesh_role: MeshRole,
        parameters: Parameters,
        stamp: Stamp,
    ) -> Result<Change, Error> {
        let Declaration {
            project_id,
            resource_id,
            blueprint_version_id,
            cloud_credential_id,
            parameters: _, // unvalidated; the argument `parameters` replaces them
            on_failure,
            request_id: _, // identifies the request, not the resource
        } = declaration;
        let resource = Self {
            id,
            resource_id: *resource_id,
            project_id: *project_id,
            blueprint_version_id: *blueprint_version_id,
            cloud_credential_id: *cloud_credential_id,
            phase: Phase::Pending,
            bootstrap_token_id: None,
            created_at: stamp.at,
            updated_at: stamp.at,
            parameters,
            mesh_role,
            on_failure: *on_failure,
            failure: None,
            token_ordinal: TokenOrdinal::FIRST,
            token_closed: false,
            substrate: Substrate::default(),
            deletion_requested_at: None,
            phase_entered_at: stamp.at,
            first_ready_at: None,
            abandoned: false,
            event_sequence: 1,
            version: Version::FIRST,
        }
        .build()?;
        Ok(Change::created(resource, stamp))
    }

    /// Builds a resource from a stored row, with the checks of [`new`](Self::new).
    ///
    /// ```
    #[doc = include_str!("provisioned_resource/doctest_setup.md")]
    /// let row: Snapshot = pending.snapshot();
    /// assert_eq!(ProvisionedResource::hydrate(row.clone())?, pending);
    ///
    /// let corrupt = Snapshot { xr_name: "web-1".to_owned(), ..row };
    /// assert_eq!(
    ///     ProvisionedResource::hydrate(corrupt).unwrap_err().to_string(),
    ///     "xr_name: \"web-1\" belongs to another resource; it is pr-00000000-0000-0000-0000-000000000005",
    /// );
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] that names the first field that breaks a rule, alone or combined with others.
    pub fn hydrate(snapshot: Snapshot) -> Result<Self, Error> {
        Self::try_from(snapshot)?.build()
    }

    /// The id.
    pub const fn id(&self) -> ProvisionedResourceId {
        self.id
    }

    /// The tenancy Resource that it backs.
    pub const fn resource_id(&self) -> ResourceId {
        self.resource_id
    }

    /// The Project that owns it.
    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    /// The blueprint version that it is rendered from; immutable.
    pub const fn blueprint_version_id(&self) -> BlueprintVersionId {
        self.blueprint_version_id
    }

    /// The cloud credential that it uses.
    pub const fn cloud_credential_id(&self) -> CloudCredentialId {
        self.cloud_credential_id
    }

    /// The current phase.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// The name of its objects on the cluster.
    pub fn xr_name(&self) -> XrName {
        self.id.xr_name()
    }

    /// The token issued last; `None` before the first one, and always for a standalone resource.
    pub const fn bootstrap_token_id(&self) -> Option<BootstrapTokenId> {
        self.bootstrap_token_id
    }

    /// The time of the declaration.
    pub const fn created_at(&self) -> OffsetDateTime {
        self.created_at
    }

    /// The time of the last change.
    pub const fn updated_at(&self) -> OffsetDateTime {
        self.updated_at
    }

    /// The validated parameter values.
    pub const fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Whether a Node enrols from it.
    pub const fn mesh_role(&self) -> MeshRole {
        self.mesh_role
    }

    /// The policy after a terminal failure.
    pub const fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// The terminal failure; kept through a rollback.
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The ordinal of the current token.
    pub const fn token_ordinal(&self) -> TokenOrdinal {
        self.token_ordinal
    }

    /// Whether the issuer confirmed that no token is live and that it will never issue another.
    pub const fn token_closed(&self) -> bool {
        self.token_closed
    }

    /// The record of its objects on the cluster.
    pub const fn substrate(&self) -> &Substrate {
        &self.substrate
    }

    /// The ProviderConfig on record, if it is the resource's own and not shared: it has the resource's name.
    pub fn own_provider_config(&self) -> Option<&ObjectReference> {
        self.substrate.provider_config().filter(|it| it.name() == self.xr_name().as_str())
    }

    /// The time at which its deletion was accepted.
    pub const fn deletion_requested_at(&self) -> Option<OffsetDateTime> {
        self.deletion_requested_at
    }

    /// The time at which it entered its phase.
    pub const fn phase_entered_at(&self) -> OffsetDateTime {
        self.phase_entered_at
    }

    /// The time at which it first became Ready.
    pub const fn first_ready_at(&self) -> Option<OffsetDateTime> {
        self.first_ready_at
    }

    /// Whether an operator abandoned its teardown: Deleted without proof that everything is gone.
    pub const fn abandoned(&self) -> bool {
        self.abandoned
    }

    /// The sequence number of its last event.
    pub const fn event_sequence(&self) -> u64 {
        self.event_sequence
    }

    /// The number of committed changes.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Whether it is terminal: Deleted, or Failed and retained. No pass changes a terminal resource.
    ///
    /// ```
    #[doc = include_str!("provisioned_resource/doctest_setup.md")]
    /// assert!(!pending.is_terminal());
    /// let failed = pending.fail(FailureReason::from_message("quota"), stamp)?.unwrap();
    /// assert!(failed.resource().is_terminal(), "a retained failure is terminal");
    /// # Ok::<(), Error>(())
    /// ```
    pub const fn is_terminal(&self) -> bool {
        match self.phase {
            Phase::Deleted => true,
            Phase::Failed => matches!(self.on_failure, OnFailure::Retain),
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Deregistering
            | Phase::Deprovisioning => false,
        }
    }
}

#[cfg(test)]
mod tests;
