//! What can be asked of the store, and what it answers: pages, compact rows, the audit.

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

/// How many rows a page holds at the most: 1 to 1,000.
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

/// How many bytes of parameters a page holds at the most: 1 to 8 MiB.
///
/// Rows are as large as their parameters, which a tenant chooses. A page ends before the row that would bring the sum
/// of the parameters' texts above this, so it may be shorter than its [`PageSize`] and still have a next one. Its
/// first row is in it however large it is.
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

/// A moment below which a listing is complete. Opaque to callers: they hand it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watermark(OffsetDateTime);

impl Watermark {
    /// Takes a moment of the store's clock.
    pub const fn new(at: OffsetDateTime) -> Self {
        Self(at)
    }

    /// The moment.
    pub const fn at(self) -> OffsetDateTime {
        self.0
    }
}

/// Which resources to list.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListQuery {
    /// Only this Project's.
    pub project: Option<ProjectId>,
    /// Only those in this phase.
    pub phase: Option<Phase>,
    /// Only those that changed at or after this moment.
    pub updated_since: Option<Watermark>,
    /// Only those after this one: the last id of the page before.
    pub after: Option<ProvisionedResourceId>,
    /// How many at the most.
    pub limit: PageSize,
    /// How many bytes of parameters at the most.
    pub bytes: PageBytes,
}

impl ListQuery {
    /// Everything, from the beginning.
    pub const fn new(limit: PageSize) -> Self {
        let bytes = PageBytes::MAX;
        Self { project: None, phase: None, updated_since: None, after: None, limit, bytes }
    }

    /// With pages of fewer bytes.
    #[must_use]
    pub const fn within(mut self, bytes: PageBytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// Only a Project's.
    #[must_use]
    pub const fn in_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Only those in a phase.
    #[must_use]
    pub const fn in_phase(mut self, phase: Phase) -> Self {
        self.phase = Some(phase);
        self
    }

    /// Only those that changed since.
    #[must_use]
    pub const fn updated_since(mut self, watermark: Watermark) -> Self {
        self.updated_since = Some(watermark);
        self
    }

    /// Only those after one.
    #[must_use]
    pub const fn after(mut self, id: ProvisionedResourceId) -> Self {
        self.after = Some(id);
        self
    }
}

/// A row that breaks the domain's rules, so that nothing else can be said of its resource.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnreadableRow {
    /// Whose row it is.
    pub id: ProvisionedResourceId,
    /// What is wrong with it: what [`get_by_id`](crate::Repository::get_by_id) would answer.
    pub error: PortError,
}

impl UnreadableRow {
    /// The row of a resource, and what is wrong with it.
    pub const fn new(id: ProvisionedResourceId, error: PortError) -> Self {
        Self { id, error }
    }
}

/// A page of resources.
#[derive(Debug)]
#[non_exhaustive]
pub struct ListPage {
    /// The resources, in the order of their ids.
    pub resources: Vec<ProvisionedResource>,
    /// What belongs between them and cannot be read, in the order of the ids. It counts towards the limit.
    pub unreadable: Vec<UnreadableRow>,
    /// Where the next page begins; `None` when this was the last.
    pub next: Option<ProvisionedResourceId>,
    /// The moment below which nothing was missed.
    pub watermark: Watermark,
}

impl ListPage {
    /// A page, where the next one begins, and below which moment nothing was missed.
    pub const fn new(
        resources: Vec<ProvisionedResource>,
        next: Option<ProvisionedResourceId>,
        watermark: Watermark,
    ) -> Self {
        Self { resources, unreadable: Vec::new(), next, watermark }
    }

    /// With rows that cannot be read.
    #[must_use]
    pub fn with_unreadable(mut self, unreadable: Vec<UnreadableRow>) -> Self {
        self.unreadable = unreadable;
        self
    }
}

/// Which part of everything that is not at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepQuery {
    /// Only this Project's; `next` then names one of this Project, too.
    pub project: Option<ProjectId>,
    /// Only those after this one.
    pub after: Option<ProvisionedResourceId>,
    /// How many at the most.
    pub limit: PageSize,
    /// How many bytes of parameters at the most; a row without parameters counts as none.
    pub bytes: PageBytes,
}

impl SweepQuery {
    /// From the beginning.
    pub const fn new(limit: PageSize) -> Self {
        Self { project: None, after: None, limit, bytes: PageBytes::MAX }
    }

    /// With pages of fewer bytes.
    #[must_use]
    pub const fn within(mut self, bytes: PageBytes) -> Self {
        self.bytes = bytes;
        self
    }

    /// Only a Project's.
    #[must_use]
    pub const fn in_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Only those after one.
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
    /// The rows, in the order of their ids.
    pub rows: Vec<CompactRow>,
    /// What belongs between them and cannot be read, in the order of the ids. It counts towards the limit.
    pub unreadable: Vec<UnreadableRow>,
    /// Where the next page begins; `None` when this was the last.
    pub next: Option<ProvisionedResourceId>,
    /// The store's clock when the page was read: what `due_at` and `lease_until` are compared with.
    pub now: OffsetDateTime,
}

impl SweepPage {
    /// A page, where the next one begins, and the store's clock when it was read.
    pub const fn new(
        rows: Vec<CompactRow>,
        next: Option<ProvisionedResourceId>,
        now: OffsetDateTime,
    ) -> Self {
        Self { rows, unreadable: Vec::new(), next, now }
    }

    /// With rows that cannot be read.
    #[must_use]
    pub fn with_unreadable(mut self, unreadable: Vec<UnreadableRow>) -> Self {
        self.unreadable = unreadable;
        self
    }
}

/// As much of a resource as a sweep needs to see that nothing has to be done.
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
    /// Only in Pending, Provisioning and Enrolling, where a manifest may have to be compared.
    pub parameters: Option<Parameters>,
    /// When the resource is due by itself; `None` leaves it to the sweep.
    pub due_at: Option<OffsetDateTime>,
    /// Somebody holds its lease until then; it may be over.
    pub lease_until: Option<OffsetDateTime>,
    /// Somebody paused it.
    pub paused: bool,
}

impl CompactRow {
    /// The row of a resource as it was declared, in a phase: at its first version, without token, substrate
    /// or parameters, retained if it fails, and neither due, leased nor paused. A store sets what it knows
    /// beyond that.
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

    /// The row of a resource, with everything that the aggregate knows. Due time, lease and pause are the
    /// schedule's.
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

/// One line of the audit, as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditRecord {
    /// Its place in the whole audit; grows.
    pub sequence: u64,
    /// When it was stored, by the store's clock.
    pub at: OffsetDateTime,
    /// The version that the change led to, where it was one of a row.
    pub version: Option<Version>,
    /// The epoch that a worker's write carried.
    pub epoch: Option<LeaseEpoch>,
    /// What was done.
    pub entry: AuditEntry,
}

impl AuditRecord {
    /// A line, its place and time, and what a write of a row carried.
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

/// Which resources to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeRequest {
    /// How long a resource must have been Deleted, by the store's clock.
    pub retention: Duration,
    /// How many at the most, so that no transaction grows without bound.
    pub limit: PageSize,
}

impl PurgeRequest {
    /// Those that were Deleted for longer than the retention, up to a number.
    pub const fn new(retention: Duration, limit: PageSize) -> Self {
        Self { retention, limit }
    }
}
