//! Persist: queries of the store and their results: pages, compact rows, audit records.

use std::time::Duration;

use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, ClusterId, Error, MeshRole, OnFailure,
    Parameters, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId, ReferencesDigest,
    ResourceId, Version, XrUid,
};
use time::OffsetDateTime;

use crate::audit::AuditEntry;
use crate::error::PortError;
use crate::lease::LeaseEpoch;

/// The maximum number of rows of a page: 1 to 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u16);

impl PageSize {
    /// The largest page.
    pub const MAX: Self = Self(1_000);

    /// Takes a size.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for zero and for more than a thousand.
    pub fn new(rows: u16) -> Result<Self, Error> {
        if rows == 0 || rows > Self::MAX.0 {
            return Err(Error::invalid("limit", format!("is {rows}; use 1 to {}", Self::MAX.0)));
        }
        Ok(Self(rows))
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The maximum bytes of parameters in a page: 1 to 8 MiB.
///
/// The size of a row depends on its parameters, which a tenant chooses. A page ends before the row that would exceed
/// this sum, so it may hold fewer rows than its [`PageSize`] and still have a next page. The first row is always
/// included, whatever its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageBytes(u32);

impl PageBytes {
    /// The largest page.
    pub const MAX: Self = Self(8 << 20);

    /// Takes a number of bytes.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for zero and for more than 8 MiB.
    pub fn new(bytes: u32) -> Result<Self, Error> {
        if bytes == 0 || bytes > Self::MAX.0 {
            return Err(Error::invalid("bytes", format!("is {bytes}; use 1 to {}", Self::MAX.0)));
        }
        Ok(Self(bytes))
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A time before which a listing is complete. Opaque: callers only pass it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watermark(OffsetDateTime);

impl Watermark {
    /// Wraps a time of the store's clock.
    pub const fn new(at: OffsetDateTime) -> Self {
        Self(at)
    }

    /// The time.
    pub const fn at(self) -> OffsetDateTime {
        self.0
    }
}

/// Filters and limits of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// Only this Project's resources.
    pub project: Option<ProjectId>,
    /// Only resources in this phase.
    pub phase: Option<Phase>,
    /// Only resources that use this credential.
    pub credential: Option<CloudCredentialId>,
    /// Only resources that changed at or after this time.
    pub updated_since: Option<Watermark>,
    /// Only resources after this id, the last one of the previous page.
    pub after: Option<ProvisionedResourceId>,
    /// The maximum number of rows.
    pub limit: PageSize,
    /// The maximum bytes of parameters.
    pub bytes: PageBytes,
}

impl ListQuery {
    /// All resources, from the first page.
    pub const fn new(limit: PageSize) -> Self {
        Self {
            project: None,
            phase: None,
            credential: None,
            updated_since: None,
            after: None,
            limit,
            bytes: PageBytes::MAX,
        }
    }

    /// Limits the bytes of a page.
    #[must_use]
    pub const fn within(mut self, bytes: PageBytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// Only one Project's resources.
    #[must_use]
    pub const fn in_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Only resources in a phase.
    #[must_use]
    pub const fn in_phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Only resources that use a credential.
    #[must_use]
    pub const fn with_credential(mut self, credential: CloudCredentialId) -> Self {
        self.credential = Some(credential);
        self
    }

    /// Only resources that changed at or after the watermark.
    #[must_use]
    pub const fn updated_since(mut self, watermark: Watermark) -> Self {
        self.updated_since = Some(watermark);
        self
    }

    /// Only resources after an id.
    #[must_use]
    pub const fn after(mut self, id: ProvisionedResourceId) -> Self {
        self.after = Some(id);
        self
    }
}

/// A row that breaks a domain rule. Only its id is known.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnreadableRow {
    /// The row's id.
    pub id: ProvisionedResourceId,
    /// The error that [`get_by_id`](crate::Repository::get_by_id) would return.
    pub error: PortError,
}

impl UnreadableRow {
    /// An unreadable row and its error.
    pub const fn new(id: ProvisionedResourceId, error: PortError) -> Self {
        Self { id, error }
    }
}

/// A page of resources.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListPage {
    /// The resources, ordered by id.
    pub resources: Vec<ProvisionedResource>,
    /// Unreadable rows in the range of this page, ordered by id. They count towards the limit.
    pub unreadable: Vec<UnreadableRow>,
    /// The start of the next page; `None` after the last page.
    pub next: Option<ProvisionedResourceId>,
    /// The time before which the listing is complete.
    pub watermark: Watermark,
}

impl ListPage {
    /// A page without unreadable rows.
    pub const fn new(
        resources: Vec<ProvisionedResource>,
        next: Option<ProvisionedResourceId>,
        watermark: Watermark,
    ) -> Self {
        Self { resources, unreadable: Vec::new(), next, watermark }
    }

    /// Sets the unreadable rows.
    #[must_use]
    pub fn with_unreadable(mut self, unreadable: Vec<UnreadableRow>) -> Self {
        self.unreadable = unreadable;
        self
    }
}

/// Filters and limits of a sweep's page of resources that are not terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepQuery {
    /// Only this Project's resources; the page's `next` is then one of them too.
    pub project: Option<ProjectId>,
    /// Only resources after this id.
    pub after: Option<ProvisionedResourceId>,
    /// The maximum number of rows.
    pub limit: PageSize,
    /// The maximum bytes of parameters; a row without parameters counts as zero.
    pub bytes: PageBytes,
}

impl SweepQuery {
    /// All resources that are not terminal, from the first page.
    pub const fn new(limit: PageSize) -> Self {
        Self { project: None, after: None, limit, bytes: PageBytes::MAX }
    }

    /// Limits the bytes of a page.
    #[must_use]
    pub const fn within(mut self, bytes: PageBytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// Only one Project's resources.
    #[must_use]
    pub const fn in_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Only resources after an id.
    #[must_use]
    pub const fn after(mut self, id: ProvisionedResourceId) -> Self {
        self.after = Some(id);
        self
    }
}

/// A page of compact rows.
#[derive(Debug)]
#[non_exhaustive]
pub struct SweepPage {
    /// The rows, ordered by id.
    pub rows: Vec<CompactRow>,
    /// Unreadable rows in the range of this page, ordered by id. They count towards the limit.
    pub unreadable: Vec<UnreadableRow>,
    /// The start of the next page; `None` after the last page.
    pub next: Option<ProvisionedResourceId>,
    /// The store's clock at the read; compare `due_at` and `lease_until` with it.
    pub now: OffsetDateTime,
}

impl SweepPage {
    /// A page without unreadable rows.
    pub const fn new(
        rows: Vec<CompactRow>,
        next: Option<ProvisionedResourceId>,
        now: OffsetDateTime,
    ) -> Self {
        Self { rows, unreadable: Vec::new(), next, now }
    }

    /// Sets the unreadable rows.
    #[must_use]
    pub fn with_unreadable(mut self, unreadable: Vec<UnreadableRow>) -> Self {
        self.unreadable = unreadable;
        self
    }
}

/// The part of a row that a sweep needs for triage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented at the aggregate's accessor of its name")]
#[non_exhaustive]
pub struct CompactRow {
    pub id: ProvisionedResourceId,
    pub project_id: ProjectId,
    pub resource_id: ResourceId,
    pub blueprint_version_id: BlueprintVersionId,
    pub cloud_credential_id: CloudCredentialId,
    pub phase: Phase,
    pub version: Version,
    pub mesh_role: MeshRole,
    pub on_failure: OnFailure,
    pub bootstrap_token_id: Option<BootstrapTokenId>,
    pub token_closed: bool,
    pub cluster: Option<ClusterId>,
    pub references_digest: Option<ReferencesDigest>,
    pub applied: Option<XrUid>,
    /// Only in Pending, Provisioning and Enrolling, where a sweep may compare a manifest.
    pub parameters: Option<Parameters>,
    /// When the resource is due; `None` leaves it to the sweep.
    pub due_at: Option<OffsetDateTime>,
    /// When its last lease ends; may be in the past.
    pub lease_until: Option<OffsetDateTime>,
    /// Whether it is paused.
    pub paused: bool,
}

impl CompactRow {
    /// The row of a newly declared resource in a phase: first version, without token, substrate or parameters, retained
    /// on failure, neither due, leased nor paused. The store then sets the other fields.
    pub const fn new(
        id: ProvisionedResourceId,
        project_id: ProjectId,
        resource_id: ResourceId,
        blueprint_version_id: BlueprintVersionId,
        cloud_credential_id: CloudCredentialId,
        mesh_role: MeshRole,
        phase: Phase,
    ) -> Self {
        Self {
            id,
            project_id,
            resource_id,
            blueprint_version_id,
            cloud_credential_id,
            phase,
            version: Version::FIRST,
            mesh_role,
            on_failure: OnFailure::Retain,
            bootstrap_token_id: None,
            token_closed: false,
            cluster: None,
            references_digest: None,
            applied: None,
            parameters: None,
            due_at: None,
            lease_until: None,
            paused: false,
        }
    }

    /// The row of a resource with all values of the aggregate. The schedule adds due time, lease and pause.
    pub fn of(resource: &ProvisionedResource) -> Self {
        let renders =
            matches!(resource.phase(), Phase::Pending | Phase::Provisioning | Phase::Enrolling);
        Self {
            id: resource.id(),
            project_id: resource.project_id(),
            resource_id: resource.resource_id(),
            blueprint_version_id: resource.blueprint_version_id(),
            cloud_credential_id: resource.cloud_credential_id(),
            phase: resource.phase(),
            version: resource.version(),
            mesh_role: resource.mesh_role(),
            on_failure: resource.on_failure(),
            bootstrap_token_id: resource.bootstrap_token_id(),
            token_closed: resource.token_closed(),
            cluster: resource.substrate().cluster().cloned(),
            references_digest: resource.substrate().references_digest().copied(),
            applied: resource.substrate().applied().cloned(),
            parameters: renders.then(|| resource.parameters().clone()),
            due_at: None,
            lease_until: None,
            paused: false,
        }
    }
}

/// A stored audit line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Its position in the whole audit; increasing.
    pub sequence: u64,
    /// When it was stored, by the store's clock.
    pub at: OffsetDateTime,
    /// The version after the change, if it changed a row.
    pub version: Option<Version>,
    /// The epoch of a worker's write.
    pub epoch: Option<LeaseEpoch>,
    /// The line.
    pub entry: AuditEntry,
}

impl AuditRecord {
    /// A stored line, with the version and epoch of its write.
    pub const fn new(
        sequence: u64,
        at: OffsetDateTime,
        version: Option<Version>,
        epoch: Option<LeaseEpoch>,
        entry: AuditEntry,
    ) -> Self {
        Self { sequence, at, version, epoch, entry }
    }
}

/// The filters of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeRequest {
    /// The minimum time since the deletion, by the store's clock.
    pub retention: Duration,
    /// The maximum number of rows, which bounds the transaction.
    pub limit: PageSize,
}

impl PurgeRequest {
    /// Up to `limit` resources that were deleted longer ago than the retention.
    pub const fn new(retention: Duration, limit: PageSize) -> Self {
        Self { retention, limit }
    }
}
