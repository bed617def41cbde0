//! Persist: the aggregate in its store.
//!
//! One adapter implements [`Repository`], [`Schedule`](crate::Schedule) and [`Outbox`](crate::Outbox) over one store,
//! because every write commits phase, event, audit line and schedule together.

mod query;
mod replace;
mod shared_config;
mod write;

use async_trait::async_trait;
use broker_domain::{
    BootstrapTokenId, ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId,
};

pub use query::{
    AuditRecord, CompactRow, ListPage, ListQuery, PageBytes, PageSize, PurgeRequest, SweepPage,
    SweepQuery, UnreadableRow, Watermark,
};
pub use replace::{Replaced, Replacement};
pub use shared_config::{DeletionMark, SharedConfig, SharedConfigRef};
pub use write::{Created, StoredRequest, Write, WriteKind, Written};

use crate::admitted::Admitted;
use crate::context::Attribution;
use crate::error::PortError;

/// The store of resources.
///
/// One adapter implements this, [`Schedule`](crate::Schedule), [`Outbox`](crate::Outbox) and
/// [`AuditSink`](crate::AuditSink) over one store, because every write commits to all of them together.
///
/// **Transaction**: every write is one transaction of the row, its event if there is one, one audit line, and the
/// schedule. The audit line is that of [`WriteKind::audit`].
///
/// **Version and epoch**: a write commits only if the stored version is the one that the change started from and the
/// stored epoch is the one that the write carries. Otherwise it changes nothing and returns [`Written::Stale`] or
/// [`Written::LeaseLost`]; a lost race is not an error. The checks run in this order: a missing row is `Stale`, another
/// epoch is `LeaseLost`, another version is `Stale`, and last the change itself. Only the epoch decides about a lease: a
/// write under an expired lease succeeds until another worker claims the resource.
///
/// **Retries**: a repeated write is `Stale`, so it never happens twice. After `Unknown` the caller reads the row to
/// learn the outcome.
///
/// **Legal changes**: a write along an edge that the state machine does not have is `Rejected` with
/// [`IllegalTransition`](broker_domain::Error::IllegalTransition). The stored phase counts, not the phase that the
/// caller saw. A change of the wrong kind (such as a phase change under [`WriteKind::Token`]) is `Rejected` with
/// `invalid_input`. [`WriteKind::check`] implements both rules.
///
/// **Schedule**: a phase change makes the resource due at once and clears failed attempts and the last error. Other
/// writes do not change the schedule, unless their [`WriteKind`] says so.
///
/// **`updated_at`** is the time of the write by the store's own clock, never before `created_at`. All other values read
/// back as written, times to the microsecond.
///
/// # Errors
///
/// All methods:
///
/// - `Transient`: the store was unreachable or failed before a commit.
/// - `Unknown`: a commit was sent and its response was lost.
/// - `Rejected`: a stored row breaks a domain rule (the message names the row), or an id that must be new is taken. The
///   source has the domain error (`invalid_input` naming the field). Neither is a
///   [refusal](PortError::is_refusal) of a caller, who gave no such value.
///
/// An unreadable row never blocks the reading, writing or claiming of other rows. A page lists it separately
/// ([`UnreadableRow`]) and does not fail. The caller never concludes absence from an error.
#[async_trait]
pub trait Repository: Send + Sync {
    /// Stores a new resource.
    ///
    /// **Guarantees**: of concurrent or repeated calls with one request id in one Project, one stores. The others
    /// return [`Created::Replayed`] with the first resource if their declaration is equal, else [`Created::Conflict`].
    /// Only `Stored` changes anything. A purge frees the request id.
    ///
    /// **Shared ProviderConfig**: the same transaction registers the resource as a user of
    /// [`Admitted::shared_config`](Admitted::shared_config). All users have one credential. Concurrent calls with different
    /// credentials store one of them. The write that stores Deleted removes the user, under a lock on the ProviderConfig;
    /// the last user to leave sets the mark ([`SharedConfig::deleting`]), or, if it was abandoned, the flag
    /// [`SharedConfig::abandoned`]. A new user clears that flag, but never the mark.
    ///
    /// **Caller**: only admission calls this. After `Unknown` it may retry with the same request id.
    ///
    /// # Errors
    ///
    /// `Rejected` with the matching domain error when a referenced entity does not exist (`blueprint_not_found`,
    /// `credential_not_found`, or `invalid_input` naming the field), and with `shared_config_held` when another resource uses
    /// the ProviderConfig with another credential.
    async fn create(&self, admitted: &Admitted) -> Result<Created, PortError>;

    /// Reads the resource of an id; `None` if there is none.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_by_id(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError>;

    /// Reads the resource of an id in a Project; `None` if that Project has none.
    ///
    /// **Guarantees**: does not read the row of another Project, so that row cannot make the call fail. A caller with
    /// one Project learns nothing about that row.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_in_project(
        &self,
        project: ProjectId,
        id: ProvisionedResourceId,
    ) -> Result<Option<ProvisionedResource>, PortError>;

    /// Reads the resource of a request id in a Project, with the digest of its declaration.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_by_request(
        &self,
        project: ProjectId,
        request: &RequestId,
    ) -> Result<Option<StoredRequest>, PortError>;

    /// Reads the resource that records this token as its current one; `None` if there is none.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn get_by_token(
        &self,
        token: BootstrapTokenId,
    ) -> Result<Option<ProvisionedResource>, PortError>;

    /// A page of resources, ordered by id.
    ///
    /// **Guarantees**: a page ends only when it reaches [`ListQuery::limit`] rows or [`ListQuery::bytes`] of
    /// parameters, or when no row is left. Following [`ListPage::next`] visits every resource that matches during the
    /// whole listing exactly once, as a resource or as an [`UnreadableRow`]. The watermark is complete: a later call with
    /// `updated_since` set to it misses no row, including those of transactions that are still open. **Caller**: as a
    /// backstop, passes the watermark of the first page as `updated_since` next time. It may then see a row twice, but
    /// misses none.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn list(&self, query: &ListQuery) -> Result<ListPage, PortError>;

    /// A page of all resources that are not terminal, ordered by id, as compact rows.
    ///
    /// **Guarantees**: as [`list`](Self::list). If only columns that a sweep does not read are invalid, the row may
    /// appear as a normal one. **Implementer**: runs no query per row, because a sweep reads 100,000 rows. It does not
    /// fetch rows beyond the page's bytes, because they would use memory.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn sweep_page(&self, query: &SweepQuery) -> Result<SweepPage, PortError>;

    /// Stores a change of a resource. [`WriteKind`] states the purpose of each kind of write.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn write(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError>;

    /// Stores the deletion request of a resource and the new resource that replaces it.
    ///
    /// **Guarantees**: one transaction. It stores the deletion request as [`WriteKind::DeletionIntent`] does and the
    /// new resource as [`create`](Self::create) does, each with event, audit line and schedule, plus the line of
    /// [`Replacement::audit`]. Any result but `Stored` changes nothing. The checks run in this order: the request id
    /// ([`Created::Replayed`] or [`Created::Conflict`], whatever the state of the old resource), the references of the
    /// new resource, the version of the old resource. The version of an old resource in teardown is not checked: its
    /// row may have changed or be gone.
    ///
    /// **Caller**: only admission calls this. After `Unknown` it may retry with the same request id.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create) and the trait.
    async fn replace(&self, replacement: &Replacement) -> Result<Replaced, PortError>;

    /// Reads the shared ProviderConfig that a resource uses; `None` if it uses none.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn shared_config(
        &self,
        user: ProvisionedResourceId,
    ) -> Result<Option<SharedConfig>, PortError>;

    /// Reads every marked shared ProviderConfig, and those of these names that are known. In no particular order.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn shared_configs(
        &self,
        names: &[SharedConfigRef],
    ) -> Result<Vec<SharedConfig>, PortError>;

    /// Sets a new mark on a shared ProviderConfig whose mark is `current`, and returns it; `None` if it changed nothing.
    ///
    /// **Guarantees**: without a current mark, it sets one only if no resource uses the ProviderConfig and the last user was
    /// not abandoned. A current mark is renewed also while new users wait. **Caller**: renews the mark before each deletion,
    /// so that an absence that was read earlier cannot clear it.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn mark_shared_config(
        &self,
        name: &SharedConfigRef,
        current: Option<DeletionMark>,
    ) -> Result<Option<DeletionMark>, PortError>;

    /// Clears a mark. **Caller**: read the mark first, then found the object absent by a direct read. A later mark stays.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn clear_shared_config(
        &self,
        name: &SharedConfigRef,
        mark: DeletionMark,
    ) -> Result<(), PortError>;

    /// Reads the audit of a resource, oldest first; empty for an unknown id. The audit outlives the resource.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn history(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError>;

    /// Blanks `event_data`, the only column that may hold personal data, in the audit of a resource. Returns the number
    /// of blanked lines. Writes one audit line of the scrub, unless the resource has no audit. It removes no line and
    /// changes no other column. Safe to repeat.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn scrub_audit(
        &self,
        id: ProvisionedResourceId,
        attribution: &Attribution,
    ) -> Result<u64, PortError>;

    /// Removes resources that have been Deleted for longer than the retention, and returns their ids.
    ///
    /// **Guarantees**: removes only resources whose events were all acknowledged or skipped; a dead-lettered event
    /// keeps its resource. Each removal has its own audit line, attributed to the broker, and frees the request id. The
    /// store's clock decides the age. Safe to repeat. **Caller**: chooses a retention that is longer than any request to
    /// the cluster can be in flight.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn purge_deleted(
        &self,
        request: &PurgeRequest,
    ) -> Result<Vec<ProvisionedResourceId>, PortError>;
}
