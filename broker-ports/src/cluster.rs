//! Observe and act: the management cluster.

mod inspection;
mod interpret;
mod live;
mod target;
mod write;

use std::pin::Pin;

use async_trait::async_trait;
use broker_domain::{ClusterId, ProvisionedResourceId};
use futures_core::Stream;

pub use inspection::{
    ClusterEvent, Condition, Inspected, Inspection, NamespaceState, ObjectReport,
};
pub use live::{
    Arming, CachedXr, ConditionStatus, ConfigPresence, FOREGROUND, LiveObject, LiveXr, Presence,
    Reading, SpecState, XrReading, XrStatus,
};
pub use target::{
    ConfigKind, OwnedKinds, OwnedObject, OwnedPage, OwnedQuery, OwnedRole, ResourceIds, Target,
    XrTarget,
};
pub use write::{
    Applied, ApplyRequest, DeleteRequest, Deleted, DryRun, ObjectOwner, ObjectVersion,
    refuse_foreign_write,
};

use crate::error::PortError;

/// Ids of resources whose objects changed on the cluster. A hint wakes a pass and carries no facts. It may be late,
/// duplicated or lost, and the stream may end.
pub type Hints = Pin<Box<dyn Stream<Item = ProvisionedResourceId> + Send>>;

/// The management cluster.
///
/// **No information is not absence.** An object is absent only if a direct read of it returned "not found". Forbidden,
/// a failed discovery and a timeout are errors.
///
/// **Confined writes.** A write targets only an object named `pr-<id>` or, by an explicit [`ObjectOwner::Project`], a shared
/// ProviderConfig; if namespaced, only in the Project's own namespace. The adapter rejects any other target before it sends a request ([`refuse_foreign_write`]). The broker
/// never creates or deletes a namespace. It never deletes a composed object.
///
/// **No unsafe retries.** The adapter retries no call that could then take effect twice.
///
/// **No leaked secrets.** No error contains an injected value. The adapter scrubs every message while it still has the
/// value.
///
/// # Errors
///
/// All methods:
///
/// - `Rejected`: the API server refused (forbidden, invalid, a field that the schema does not declare). The message
///   holds verb, kind, name, namespace and the server's own message.
/// - `Transient`: it did not happen (connection refused, throttled).
/// - `Unknown`: the response to a write was lost.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// The cluster's id: the uid of its `kube-system` namespace.
    ///
    /// **Implementer**: may cache the value while all of its watches continue; after a new watch it reads the value
    /// again. [`read`](Self::read) returns the current value. **Caller**: acts only on the value from
    /// [`read`](Self::read).
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn identity(&self) -> Result<ClusterId, PortError>;

    /// Observes many composite resources: one result each, in their order.
    ///
    /// **Implementer**: reads a cache or paged lists and never sends one request per resource. A kind that does
    /// not exist has no objects. **Caller**: uses the result only for triage. It never acts on it, in particular not on
    /// [`CachedXr::Absent`].
    ///
    /// # Errors
    ///
    /// See the trait. A failure for one kind is the error of that kind's items only.
    async fn observe_many(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError>;

    /// Reads all objects of one resource directly, each by its name: composite resource, ProviderConfig, and the
    /// recorded objects that the target names. It also lists the target's composed kinds by the composite label.
    /// Nothing comes from a cache. A kind that does not exist has no objects; only for the composite resource, the
    /// reading distinguishes an absent kind from an absent object.
    ///
    /// # Errors
    ///
    /// See the trait. If one part fails, the whole call fails: `next` needs complete facts.
    async fn read(&self, target: &Target) -> Result<Reading, PortError>;

    /// Reads conditions, composed objects and events of one resource, to explain its state. Each part is a separate
    /// `Result`.
    ///
    /// # Errors
    ///
    /// See the trait. Fails only if no part could be requested.
    async fn inspect(&self, target: &Target) -> Result<Inspection, PortError>;

    /// Inspects many targets: one result each, in their order, as [`inspect`](Self::inspect) would return it.
    ///
    /// **Implementer**: sends shared requests once and lists composite resources and ProviderConfigs in pages. The
    /// default calls [`inspect`](Self::inspect) once per target.
    async fn inspect_many(&self, targets: &[Target]) -> Vec<Result<Inspection, PortError>> {
        let mut results = Vec::with_capacity(targets.len());
        for target in targets {
            results.push(self.inspect(target).await);
        }
        results
    }

    /// Server-side-applies an object, forced, under the broker's field manager and a precondition.
    ///
    /// **Guarantees**: [`Precondition::Absent`](broker_render::Precondition::Absent) only creates, and never changes an
    /// existing object. [`Precondition::Unchanged`](broker_render::Precondition::Unchanged) changes that object at that
    /// version, and never creates, revives or overwrites another. Fields of other managers keep their values. A no-op
    /// apply keeps the object's version, so a repeated apply is safe.
    ///
    /// **Caller**: never applies to an object that is being deleted, because the server would accept it. A conflict
    /// ends the pass. After `Unknown`, the next pass reads the object before it decides.
    ///
    /// # Errors
    ///
    /// See the trait. A server error in response to an apply is `Rejected`, because the server reports an undeclared
    /// field that way, unless the server itself is unhealthy.
    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, PortError>;

    /// Sends an apply as a dry run, which runs defaults, schema and admission. The server stores nothing.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn dry_run(&self, request: &ApplyRequest) -> Result<DryRun, PortError>;

    /// Deletes the object of one uid, in the foreground: it stays visible until its composed objects are gone. An
    /// absent object, kind or namespace is [`Deleted::Gone`]. An object that is being deleted already is
    /// [`Deleted::Accepted`], and is deleted in the foreground from then on. So a repeated call is safe.
    ///
    /// **Caller**: sends no deletion to an object that is already being deleted in the foreground. It deletes the
    /// ProviderConfig only when no composed object is left, because a provider needs it to finalise them.
    ///
    /// # Errors
    ///
    /// See the trait. Forbidden is an error, not absence.
    async fn delete(&self, request: &DeleteRequest<'_>) -> Result<Deleted, PortError>;

    /// Lists a page of objects that carry the broker's label, to find orphans. Following [`OwnedPage::next`] visits
    /// every object that exists during the whole listing exactly once. A kind that does not exist has no objects.
    ///
    /// **Implementer**: reads a cache or paged lists. It may omit only objects of resources that the query
    /// excepts. A cache may lag behind the cluster, but the lag must be bounded even if its watch fails.
    /// Every listed object existed under the listed uid. **Caller**: deletes by uid, and reads directly every fact
    /// on which a deletion depends. An object that one listing misses appears in a later one.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn list_owned(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError>;

    /// Streams a hint when a composite resource or a ProviderConfig is created, changed or deleted. **Implementer**:
    /// ends the stream when its source ends. **Caller**: subscribes again.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn hints(&self) -> Result<Hints, PortError>;

    /// Feeds the cache behind [`observe_many`](Self::observe_many), [`list_owned`](Self::list_owned) and
    /// [`hints`](Self::hints). It never returns; the caller drops it to stop it.
    ///
    /// **Implementer**: every other method also works without it, at a higher cost. An adapter without a cache awaits
    /// [`pending`](std::future::pending); a decorator forwards the call. **Caller**: the runner polls it until it
    /// stops.
    async fn watch(&self);
}
