//! Persist: the aggregate in its store.
//!
//! One adapter implements [`Repository`], [`Schedule`](crate::Schedule) and [`Outbox`](crate::Outbox) over
//! one store, because every write of the aggregate commits phase, event, audit line and schedule together.

mod query;
mod replace;
mod write;

use async_trait::async_trait;
use broker_domain::{ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId};

pub use query::{
    AuditRecord, CompactRow, ListPage, ListQuery, PageBytes, PageSize, PurgeRequest, SweepPage,
    SweepQuery, UnreadableRow, Watermark,
};
pub use replace::{Replaced, Replacement};
pub use write::{Created, StoredRequest, Write, WriteKind, Written};

use crate::admitted::Admitted;
use crate::context::Attribution;
use crate::error::PortError;

/// The store of resources.
///
/// One adapter implements this, [`Schedule`](crate::Schedule), [`Outbox`](crate::Outbox) and
/// [`AuditSink`](crate::AuditSink) over one store, because every write commits to all of them together.
///
/// **Every write** is one transaction: the row, the event of the change if it carries one, one audit line,
/// and the schedule. It commits only if the stored version is the one that the change was made from and,
/// where the write carries an epoch, the stored epoch is that one. Otherwise it changes nothing and says
/// why in its answer ([`Written::Stale`], [`Written::LeaseLost`]); a lost race is no error. It is looked at in
/// this order: a row that is gone is `Stale`, another epoch is `LeaseLost`, another version is `Stale`; only
/// then is the change itself looked at. The epoch alone decides about a lease: one that is over, and that
/// nobody has taken since, still writes.
///
/// **Every write** along an edge that the state machine does not have is `Rejected` with
/// [`IllegalTransition`](broker_domain::Error::IllegalTransition), even if the caller made the change by
/// honest means: the stored phase counts. A change that does not belong to its kind (a phase that changes
/// under [`WriteKind::Token`]) is `Rejected` with `invalid_input`; [`WriteKind::check`] holds
/// both rules.
///
/// **Every write** leaves the one audit line that [`WriteKind::audit`] makes of it.
///
/// **Every change of phase** sets the resource due at once and forgets failed attempts and the last error;
/// any other write leaves the schedule as it was.
///
/// **`updated_at`** is the store's: the moment of the commit by its own clock, never before `created_at`.
/// Everything else reads back as it was written, times to the microsecond.
///
/// # Errors
///
/// All methods: `Transient` when the store could not be reached or gave up before anything was committed,
/// `Unknown` when a commit was sent and its answer was lost, `Rejected` when a stored row breaks the
/// domain's rules (the message names the row, and the domain's error behind it what is wrong) and when an id that
/// has to be new, of a resource or of an event, is taken (`invalid_input` naming the field). A row that cannot be
/// read keeps nobody from reading, writing and claiming others: a page names it beside those that can be read
/// ([`UnreadableRow`]) and does not fail because of it. Absence is never concluded from a failure.
#[async_trait]
pub trait Repository: Send + Sync {
    /// Stores a new resource.
    ///
    /// **Guarantees**: of any number of calls with one request id in one Project, one stores; the others
    /// answer [`Created::Replayed`] with the first resource if their declaration is equal, else
    /// [`Created::Conflict`]. Neither of these, nor a refusal, leaves anything behind. A request id is free
    /// again once its resource was purged.
    ///
    /// **Caller**: only admission calls this.
    ///
    /// # Errors
    ///
    /// `Rejected` with the matching domain error when a referenced thing does not exist
    /// (`blueprint_not_found`, `credential_not_found`, or `invalid_input` naming the field).
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError>;

    /// The resource of that id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError>;

    /// The resource of that id in a Project; `None` if that Project has none, whatever other Projects have.
    ///
    /// **Guarantees**: the row of another Project is not read, so that it cannot fail this call either. A caller who sees
    /// one Project learns nothing of it.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError>;

    /// The resource that a request id stands for in a Project, with the digest of what was asked for.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError>;

    /// A page of resources, in the order of their ids.
    ///
    /// **Guarantees**: a page holds at most [`ListQuery::limit`] rows and [`ListQuery::bytes`] of parameters, and ends
    /// only where one of them is reached. Following [`ListPage::next`] visits every resource that matched throughout, once, as itself
    /// or as an [`UnreadableRow`]. The watermark is complete: no transaction that is still open can add or change a row that a later call
    /// with `updated_since` set to it would miss. **Caller**: for a backstop, remembers the watermark of the
    /// first page and passes it as `updated_since` the next time; a row may then be seen twice, never not at
    /// all.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn list(&self, query: &ListQuery) -> Result<ListPage, PortError>;

    /// A page of everything that is not at rest, in the order of ids, as compact rows.
    ///
    /// **Guarantees**: as [`list`](Self::list). A row that is broken where a sweep does not look may be a row like
    /// any other. **Implementer**: no query per row; a sweep reads 100,000 of these. What exceeds the bytes of a page is
    /// not fetched: it would be in memory all the same.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError>;

    /// Stores a change of a resource; [`WriteKind`] says what each kind of write is for.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn write(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError>;

    /// Stores the deletion request of a resource together with the new one that takes its place.
    ///
    /// **Guarantees**: one transaction. The deletion request is stored as by
    /// [`WriteKind::DeletionIntent`] and the new resource as by [`create`](Self::create),
    /// each with its event, audit line and schedule, and with them the line that [`Replacement::audit`] makes. Any
    /// answer but `Stored` leaves nothing behind. The request id goes first: one that was used before answers
    /// [`Created::Replayed`] or [`Created::Conflict`], whatever became of the old resource since. Then come the
    /// references of the new resource, and last the version of the old one. An old resource in teardown is not compared:
    /// its row may have changed or be gone.
    ///
    /// **Caller**: only admission calls this.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and as the trait.
    async fn replace(&self, replacement: &Replacement) -> Result<Replaced, PortError>;

    /// The audit of a resource, oldest first; empty if there never was one of that id. It outlives the
    /// resource.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn history(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError>;

    /// Blanks `event_data` in the audit of a resource: the one column that may hold personal data. Answers
    /// how many lines it blanked; itself leaves a line, unless the resource has none. No line is removed and
    /// nothing else is changed.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn scrub_audit(
        &self,
        id: ProvisionedResourceId,
        by: &Attribution,
    ) -> Result<u64, PortError>;

    /// Removes resources that were Deleted for long, and answers which.
    ///
    /// **Guarantees**: only those whose events were all acknowledged or skipped (one that was set aside is
    /// neither), each with its own audit line, attributed to the broker itself; their request ids are free
    /// again. The store's clock says how long a resource has been Deleted. **Caller**: chooses a retention that exceeds the longest time a request
    /// to the cluster can be under way.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError>;
}
