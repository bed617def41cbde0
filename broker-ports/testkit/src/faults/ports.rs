//! Delegation for every port: one line per method, marked as writing or read-only.
//!
//! - `write` may change state. An argument that is not `Copy` needs `= owned => borrowed`, to outlive the call.
//! - `kinds` is a `write` whose first argument is the kind; each kind counts as a method.
//! - `read` is read-only, and its response can be replayed by `Clone` or by a function of this crate.
//! - `query` is read-only, and its response cannot be replayed.
//! - `without faults` contains methods that do not return a `Result`.
//!
//! `about` names the subject of a call, by which a test can count calls of one method separately.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, CloudId, ClusterId, ProjectId,
    ProvisionedResource, ProvisionedResourceId, RequestId, ResourceId, Version,
};

use super::Faults;
use super::copies::{self, OwnedDelete, OwnedWrite};
use super::mechanism::{Faulty, FaultyPort, Method};
use broker_ports::{
    Acknowledged, Admitted, Applied, ApplyRequest, AssignmentReader, Attribution, AuditEntry,
    AuditRecord, AuditSink, Backlog, BlueprintResolver, BlueprintState, BlueprintVersionView,
    Brake, BrakeRelease, CachedXr, ClaimEvents, ClaimRequest, ClaimedEvent, CloudResolver,
    CloudView, Cluster, Created, CredentialResolver, CredentialView, DeadLetter, DeleteRequest,
    Deleted, DeletionMark, DeliveryFailure, DryRun, Due, Envelope, EventClaim, EventSink, EventsOf,
    Hints, Inspection, Issue, IssueRequest, Lease, ListPage, ListQuery, Loss, NamespaceObservation,
    NodeDeregistrar, Outbox, OwnedPage, OwnedQuery, PageSize, PassOutcome, Permit, PermitRequest,
    PortError, PortName, PurgeRequest, Reading, Redrive, Released, Replaced, Replacement,
    Repository, ResourceDeadLetter, ResourceReader, ResourceView, Schedule, ScheduleEntry,
    SharedConfig, SharedConfigRef, StoredRequest, SweepPage, SweepQuery, Target, TokenIssuer,
    TokenState, TtlWindow, Wakeups, Write, WriteKind, Written, XrTarget,
};

/// The methods of a port.
pub(super) fn methods_of(port: PortName) -> Vec<Method> {
    let methods: &[&[Method]] = match port {
        PortName::Repository => &[<dyn Repository>::METHODS, &WRITES],
        PortName::Schedule => &[<dyn Schedule>::METHODS],
        PortName::Outbox => &[<dyn Outbox>::METHODS],
        PortName::Cluster => &[<dyn Cluster>::METHODS],
        PortName::TokenIssuer => &[<dyn TokenIssuer>::METHODS],
        PortName::NodeDeregistrar => &[<dyn NodeDeregistrar>::METHODS],
        PortName::BlueprintResolver => &[<dyn BlueprintResolver>::METHODS],
        PortName::CloudResolver => &[<dyn CloudResolver>::METHODS],
        PortName::CredentialResolver => &[<dyn CredentialResolver>::METHODS],
        PortName::AssignmentReader => &[<dyn AssignmentReader>::METHODS],
        PortName::ResourceReader => &[<dyn ResourceReader>::METHODS],
        PortName::AuditSink => &[<dyn AuditSink>::METHODS],
        PortName::EventSink => &[<dyn EventSink>::METHODS],
    };
    let mut methods = methods.concat();
    methods.retain(|method| method.name != "write");
    methods
}

/// The kinds of [`Repository::write`], which count as methods.
const WRITES: [Method; 6] = [
    changing(WriteKind::Phase.as_str()),
    changing(WriteKind::Token.as_str()),
    changing(WriteKind::Closed.as_str()),
    changing(WriteKind::Substrate.as_str()),
    changing(WriteKind::DeletionIntent.as_str()),
    changing(WriteKind::Retry.as_str()),
];

/// A method that may change state.
const fn changing(name: &'static str) -> Method {
    Method { name, may_be_stale: false, may_change: true }
}

macro_rules! faulty_port {
    ($trait:ident as $name:ident {
        $($kind:ident $method:ident(
            $($arg:ident: $ty:ty $(= $owned:expr => $borrowed:expr)?),*
        ) -> $response:ty $(, copied by $copy:path)? $(, about $about:expr)?;)+
    } $(without faults { $($forwarded:tt)+ })?) => {

        impl FaultyPort for dyn $trait {
            const PORT: PortName = PortName::$name;
            const METHODS: &'static [Method] = &[$(method!($kind $method)),+];

            fn decorate(port: Arc<Self>, faults: Faults) -> Arc<Self> {
                Arc::new(Faulty::new(port, faults))
            }
        }

        #[async_trait]
        impl $trait for Faulty<dyn $trait> {
            $(async fn $method(&self, $($arg: $ty),*) -> Result<$response, PortError> {
                let port = self;
                let about: Option<String> = [$($about)?].into_iter().next();
                call!($kind port, about, $method($($arg $(= $owned => $borrowed)?),*) $(copied by $copy)?)
            })+
            $($($forwarded)+)?
        }
    };
}

macro_rules! method {
    (write $method:ident) => {
        changing(stringify!($method))
    };
    (kinds $method:ident) => {
        changing(stringify!($method))
    };
    (read $method:ident) => {
        Method { name: stringify!($method), may_be_stale: true, may_change: false }
    };
    (query $method:ident) => {
        Method { name: stringify!($method), may_be_stale: false, may_change: false }
    };
}

macro_rules! call {
    (write $port:ident, $about:ident, $method:ident($($arg:ident $(= $owned:expr => $borrowed:expr)?),*)) => {
        call!(changing changing(stringify!($method)), $port, $about, $method($($arg $(= $owned => $borrowed)?),*))
    };
    (kinds $port:ident, $about:ident, $method:ident($kind:ident, $($arg:ident $(= $owned:expr => $borrowed:expr)?),*)) => {
        call!(changing changing($kind.as_str()), $port, $about, $method($kind, $($arg $(= $owned => $borrowed)?),*))
    };
    (changing $called:expr, $port:ident, $about:ident, $method:ident($($arg:ident $(= $owned:expr => $borrowed:expr)?),*)) => {
        $port
            .call(
                $called,
                $about,
                || $port.inner().$method($($arg),*),
                || {
                    let inner = Arc::clone($port.inner());
                    $(let $arg = expression_or_argument!($arg $(, $owned)?);)*
                    Some(Box::pin(async move { inner.$method($(expression_or_argument!($arg $(, $borrowed)?)),*).await }))
                },
            )
            .await
    };
    (read $port:ident, $about:ident, $method:ident($($arg:ident),*)) => {
        call!(read $port, $about, $method($($arg),*) copied by Clone::clone)
    };
    (read $port:ident, $about:ident, $method:ident($($arg:ident),*) copied by $copy:path) => {{
        let (arguments, send) = (|| format!("{:?}", ($($arg,)*)), || $port.inner().$method($($arg),*));
        $port.read(method!(read $method), $about, arguments, $copy, send).await
    }};
    (query $port:ident, $about:ident, $method:ident($($arg:ident),*)) => {
        $port.call(method!(query $method), $about, || $port.inner().$method($($arg),*), || None).await
    };
}

macro_rules! expression_or_argument {
    ($arg:ident) => {
        $arg
    };
    ($arg:ident, $expression:expr) => {
        $expression
    };
}

faulty_port!(Repository as Repository {
    write create(admitted: &Admitted = admitted.clone() => &admitted) -> Created;
    read get_by_id(id: ProvisionedResourceId) -> Option<ProvisionedResource>;
    read get_in_project(
        project: ProjectId,
        id: ProvisionedResourceId
    ) -> Option<ProvisionedResource>;
    read get_by_request(project: ProjectId, request: &RequestId) -> Option<StoredRequest>;
    read get_by_token(token: BootstrapTokenId) -> Option<ProvisionedResource>;
    read list(query: &ListQuery) -> ListPage, copied by copies::list_page;
    read sweep_page(query: &SweepQuery) -> SweepPage, copied by copies::sweep_page;
    kinds write(kind: WriteKind, write: &Write<'_> = OwnedWrite::of(write) => &write.as_borrowed()) -> Written;
    write replace(replacement: &Replacement = replacement.clone() => &replacement) -> Replaced;
    read shared_config(user: ProvisionedResourceId) -> Option<SharedConfig>;
    read shared_configs(names: &[SharedConfigRef]) -> Vec<SharedConfig>;
    write mark_shared_config(
        name: &SharedConfigRef = name.clone() => &name,
        current: Option<DeletionMark>
    ) -> Option<DeletionMark>;
    write clear_shared_config(
        name: &SharedConfigRef = name.clone() => &name,
        mark: DeletionMark
    ) -> ();
    read history(id: ProvisionedResourceId) -> Vec<AuditRecord>;
    write scrub_audit(id: ProvisionedResourceId, by: &Attribution = by.clone() => &by) -> u64;
    write purge_deleted(
        request: &PurgeRequest = *request => &request
    ) -> Vec<ProvisionedResourceId>;
});

faulty_port!(Schedule as Schedule {
    write claim(request: &ClaimRequest = request.clone() => &request) -> Vec<Lease>;
    write release(
        lease: &Lease = lease.clone() => &lease,
        seen: Version,
        outcome: &PassOutcome = outcome.clone() => &outcome
    ) -> Released;
    write schedule(id: ProvisionedResourceId, due: Due) -> bool;
    read entry(id: ProvisionedResourceId) -> Option<ScheduleEntry>;
    write set_paused(
        id: ProvisionedResourceId,
        paused: bool,
        by: &Attribution = by.clone() => &by
    ) -> bool;
    read brakes(cluster: &ClusterId) -> Vec<Brake>;
    write set_brake(
        cluster: &ClusterId = cluster.clone() => &cluster,
        brake: &Brake = brake.clone() => &brake,
        by: &Attribution = by.clone() => &by
    ) -> ();
    write release_brake(release: &BrakeRelease = release.clone() => &release) -> bool;
    write permit(request: &PermitRequest = request.clone() => &request) -> Permit;
    read accepted_losses(cluster: &ClusterId) -> BTreeSet<Loss>;
    query wakeups() -> Wakeups;
});

faulty_port!(Outbox as Outbox {
    write claim_events(request: &ClaimEvents = request.clone() => &request) -> Vec<ClaimedEvent>;
    write acknowledge_event(claim: &EventClaim = claim.clone() => &claim) -> Acknowledged;
    write delay_event(
        claim: &EventClaim = claim.clone() => &claim,
        wait: Duration,
        failure: DeliveryFailure
    ) -> Acknowledged;
    write dead_letter_event(
        claim: &EventClaim = claim.clone() => &claim,
        reason: &str = reason.to_owned() => &reason
    ) -> Acknowledged;
    write redrive_events(
        id: ProvisionedResourceId,
        how: Redrive,
        by: &Attribution = by.clone() => &by
    ) -> Option<DeadLetter>;
    write purge_events(retention: Duration, limit: PageSize) -> u64;
    read backlog() -> Backlog;
    read dead_letter_events(of: EventsOf, limit: PageSize) -> Vec<ResourceDeadLetter>;
});

faulty_port!(Cluster as Cluster {
    read identity() -> ClusterId;
    read observe_many(
        targets: &[XrTarget]
    ) -> Vec<Result<CachedXr, PortError>>, copied by copies::batch;
    read read(target: &Target) -> Reading, copied by copies::reading;
    query inspect(target: &Target) -> Inspection;
    write apply(
        request: &ApplyRequest = request.handle() => &request
    ) -> Applied, about request.target().kind().to_owned();
    query dry_run(request: &ApplyRequest) -> DryRun;
    write delete(
        request: &DeleteRequest<'_> = OwnedDelete::of(request) => &request.as_borrowed()
    ) -> Deleted, about request.target.kind().to_owned();
    read list_owned(query: &OwnedQuery) -> OwnedPage;
    query hints() -> Hints;
} without faults {
    async fn watch(&self) {
        self.inner().watch().await;
    }
});

faulty_port!(TokenIssuer as TokenIssuer {
    write issue(request: &IssueRequest = *request => &request) -> Issue;
    write close(resource: ProvisionedResourceId) -> ();
    read state(token: BootstrapTokenId) -> Option<TokenState>;
    read ttl_window() -> TtlWindow;
});

faulty_port!(NodeDeregistrar as NodeDeregistrar {
    write deregister(token: BootstrapTokenId) -> ();
    read node_registered(token: BootstrapTokenId) -> bool;
    read nodes_registered(
        tokens: &[BootstrapTokenId]
    ) -> Vec<Result<bool, PortError>>, copied by copies::batch;
});

faulty_port!(BlueprintResolver as BlueprintResolver {
    read resolve(id: BlueprintVersionId) -> Option<Arc<BlueprintVersionView>>;
    read state(id: BlueprintVersionId) -> Option<BlueprintState>;
});

faulty_port!(CloudResolver as CloudResolver {
    read resolve(id: CloudId) -> Option<CloudView>;
});

faulty_port!(CredentialResolver as CredentialResolver {
    read resolve(project: ProjectId, id: CloudCredentialId) -> Option<CredentialView>;
});

faulty_port!(AssignmentReader as AssignmentReader {
    read read(project: ProjectId) -> Option<NamespaceObservation>;
});

faulty_port!(ResourceReader as ResourceReader {
    read read(project: ProjectId, resource: ResourceId) -> Option<ResourceView>;
    read read_many(
        resources: &[(ProjectId, ResourceId)]
    ) -> Vec<Result<Option<ResourceView>, PortError>>, copied by copies::batch;
});

faulty_port!(AuditSink as AuditSink {
    write record(entry: &AuditEntry = entry.clone() => &entry) -> ();
});

faulty_port!(EventSink as EventSink {
    write deliver(envelope: &Envelope = envelope.clone() => &envelope) -> ();
});
