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
    Applied, ApplyRequest, DeleteRequest, Deleted, DryRun, ObjectVersion, refuse_foreign_write,
};

use crate::error::PortError;

/// Ids of resources whose objects changed on the cluster. A hint and nothing more: it wakes a pass, it never
/// informs one. It may be late, doubled or lost, and it may end.
pub type Hints = Pin<Box<dyn Stream<Item = ProvisionedResourceId> + Send>>;

/// The management cluster.
///
/// **No information is not absence.** An object is absent only where a direct read of it answered that it
/// does not exist. Forbidden, a failed discovery and a timeout are errors.
///
/// **Writes stay at home**: every write goes to an object named `pr-<id>`, a namespaced one to the Project's
/// own namespace. Anything else is `Rejected` before a request is made ([`refuse_foreign_write`]). Namespaces
/// are never created or deleted; composed objects, whose names are longer, are never deleted.
///
/// **Nothing is retried** by the adapter that could happen twice.
///
/// **Secrets stay in**: what was injected appears in no error. The adapter scrubs every message while the
/// value is at hand.
///
/// # Errors
///
/// All methods: `Rejected` when the API server refuses (forbidden, invalid, a field that the schema does not
/// declare; the message holds verb, kind, name, namespace and the server's own words), `Transient` when it
/// did not happen (connection refused, throttled), `Unknown` when a write's answer was lost.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// Which cluster this is: the uid of its `kube-system` namespace.
    ///
    /// **Implementer**: may answer what it read when its watches began, as long as all of them go on; whoever
    /// watches anew reads it anew. [`read`](Self::read) tells it as it is now. **Caller**: acts on none but that.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn identity(&self) -> Result<ClusterId, PortError>;

    /// What is known of many composite resources, one answer each, in their order.
    ///
    /// **Implementer**: from a cache or from paged lists, never one request per resource. **Caller**: takes
    /// it as a hint of what needs attention and acts on none of it; [`CachedXr::Absent`] least of all. A kind
    /// that does not exist has no objects.
    ///
    /// # Errors
    ///
    /// See the trait. What is unknown of one kind is the error of that kind's items only.
    async fn observe_many(
        &self,
        targets: &[XrTarget],
    ) -> Result<Vec<Result<CachedXr, PortError>>, PortError>;

    /// Reads everything of one resource directly, each object by its name: composite resource,
    /// ProviderConfig, the recorded objects that the target names, and whatever carries its composite label
    /// among the target's composed kinds. Nothing of it comes from a cache. A kind that does not exist
    /// has no objects; only for the composite resource itself the reading tells the two apart.
    ///
    /// # Errors
    ///
    /// See the trait. Any part that could not be learnt fails the whole: half a reading decides nothing.
    async fn read(&self, target: &Target) -> Result<Reading, PortError>;

    /// Reads whatever helps to explain one resource: conditions, composed objects, events. Each fact by
    /// itself: what could not be learnt says so.
    ///
    /// # Errors
    ///
    /// See the trait; only when nothing at all could be asked.
    async fn inspect(&self, target: &Target) -> Result<Inspection, PortError>;

    /// Inspects many: one answer each, in their order, as [`inspect`](Self::inspect) would give it.
    ///
    /// **Implementer**: what several of them need is asked for once, composite resources and ProviderConfigs by the
    /// page; whoever cannot do that may leave it at asking for one after the other.
    async fn inspect_many(&self, targets: &[Target]) -> Vec<Result<Inspection, PortError>> {
        let mut answers = Vec::with_capacity(targets.len());
        for target in targets {
            answers.push(self.inspect(target).await);
        }
        answers
    }

    /// Server-side-applies an object under our field manager, forced, on a precondition.
    ///
    /// **Guarantees**: [`Precondition::Absent`](broker_render::Precondition::Absent) creates onto a free name and never touches what stands
    /// there; [`Precondition::Unchanged`](broker_render::Precondition::Unchanged) changes that object at that version and never creates, revives or
    /// overwrites another. Fields of other managers stay as they were. An apply that changes nothing keeps the
    /// object's version.
    ///
    /// **Caller**: sends none to an object that is being deleted: it would be accepted. A conflict ends the pass;
    /// after `Unknown` the object is read before anything else is concluded.
    ///
    /// # Errors
    ///
    /// See the trait. A server error that answers an apply is `Rejected` (it is how an undeclared field is
    /// refused) unless the server itself is unwell.
    async fn apply(&self, request: &ApplyRequest) -> Result<Applied, PortError>;

    /// Asks the API server what an apply would do: defaults, schema and admission. Nothing is stored.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn dry_run(&self, request: &ApplyRequest) -> Result<DryRun, PortError>;

    /// Asks for the deletion of an object, in the foreground: it stays visible until what it composed is
    /// gone. Only the object of that uid. An object, a kind or a namespace that does not exist is
    /// [`Deleted::Gone`]; one that is being deleted already is [`Deleted::Accepted`], and from then on in the
    /// foreground.
    ///
    /// **Caller**: sends none to what it saw being deleted in the foreground, and one for the ProviderConfig only when
    /// nothing that was composed is left: a provider needs it to finalise what it made.
    ///
    /// # Errors
    ///
    /// See the trait. Forbidden is an error, not absence.
    async fn delete(&self, request: &DeleteRequest<'_>) -> Result<Deleted, PortError>;

    /// A page of the objects that carry our label, to find those that nobody wants any more. Following
    /// [`OwnedPage::next`] visits each object that stood throughout once; a kind that does not exist has none.
    ///
    /// **Implementer**: from a cache or from paged lists. Objects of resources that the query excepts may be left out,
    /// and no others. A cache may be behind, so that something that came or
    /// went a moment ago is not as it is; it has to be bounded how long, whatever becomes of the watch that feeds
    /// it, and what a page shows is an object that stood, under its own uid. **Caller**: deletes by uid, reads
    /// directly what a deletion depends on, and takes what is missing as a matter for a later listing.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn list_owned(&self, query: &OwnedQuery) -> Result<OwnedPage, PortError>;

    /// Hints that objects of a resource changed: its composite resource or its ProviderConfig, including that
    /// they came or went. **Implementer**: the stream ends when whatever feeds it does; **caller**: asks again.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn hints(&self) -> Result<Hints, PortError>;

    /// Follows the cluster, so that [`observe_many`](Self::observe_many), [`list_owned`](Self::list_owned) and
    /// [`hints`](Self::hints) can be answered from a cache. It does not return, and ends when it is dropped.
    ///
    /// **Implementer**: without it every other method works, at a higher price. An adapter without a cache keeps the
    /// default. **Caller**: the runner runs it for as long as it runs itself.
    async fn watch(&self) {
        std::future::pending::<()>().await;
    }
}
