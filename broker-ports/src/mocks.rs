//! Feature `mocks`: a mockall mock of every port and of the three seams of the mesh, for tests that have to
//! say which calls they expect.
//!
//! A mock knows nothing of a port's promises. Where a test needs a collaborator that keeps them, the adapters
//! of the feature `memory` do.
//!
//! ```
//! use broker_ports::TokenIssuer;
//! use broker_ports::mocks::MockTokenIssuer;
//! use uuid::Uuid;
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let resource = broker_domain::ProvisionedResourceId::new(Uuid::from_u128(1))?;
//! let mut issuer = MockTokenIssuer::new();
//! issuer.expect_close().withf(move |closed| *closed == resource).times(1).returning(|_| Ok(()));
//! issuer.close(resource).await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![expect(
    missing_docs,
    reason = "mockall generates what would have to be documented, and its own signatures"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, CloudId, ClusterId, EventId,
    ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId, ResourceId, Version,
};
use mockall::mock;
use time::OffsetDateTime;

use crate::{
    Acknowledged, Admitted, Applied, ApplyRequest, AssignmentReader, Attribution, AuditEntry,
    AuditRecord, AuditSink, Backlog, BlueprintResolver, BlueprintVersionView, Brake, BrakeRelease,
    CachedXr, ClaimEvents, ClaimRequest, ClaimedEvent, Clock, CloudResolver, CloudView, Cluster,
    Consumer, Created, CredentialResolver, CredentialView, DeleteRequest, Deleted, DeliveryFailure,
    DryRun, Due, Envelope, EventClaim, EventSink, EventsOf, Hints, IdSource, Inspection, Issue,
    IssueRequest, LabelTagResolver, Lease, ListPage, ListQuery, Loss, NamespaceObservation,
    NodeDeregistrar, NodeId, Outbox, OwnedPage, OwnedQuery, PageSize, PassOutcome, PeerCommander,
    PeerId, PeerResolver, Permit, PermitRequest, PortError, PurgeRequest, Reading, Released,
    Replaced, Replacement, Repository, ResourceView, Resume, Retired, Schedule, ScheduleEntry,
    SetAside, SetAsideOf, StoredRequest, SweepPage, SweepQuery, Target, TokenIssuer, TokenReader,
    TokenState, TtlWindow, Wakeups, Write, Written, XrTarget,
};

type Answer<T> = Result<T, PortError>;

/// The port, by the methods of its mock. Only where an argument has a lifetime of its own, which mockall
/// cannot follow through `async_trait`.
macro_rules! delegate {
    ($port:ident for $mock:ident {
        $($method:ident($($arg:ident: $ty:ty),*) -> $answer:ty;)+
    }) => {
        #[async_trait]
        impl $port for $mock {
            $(async fn $method(&self, $($arg: $ty),*) -> Answer<$answer> {
                // The mock's own method, which goes before the trait's.
                self.$method($($arg),*)
            })+
        }
    };
}

mock! {
    pub Repository {
        pub fn create(&self, admitted: &Admitted) -> Answer<Created>;
        pub fn get_by_id(&self, id: ProvisionedResourceId) -> Answer<Option<ProvisionedResource>>;
        pub fn get_in_project(
            &self,
            project: ProjectId,
            id: ProvisionedResourceId,
        ) -> Answer<Option<ProvisionedResource>>;
        pub fn get_by_request(
            &self,
            project: ProjectId,
            request: &RequestId,
        ) -> Answer<Option<StoredRequest>>;
        pub fn list(&self, query: &ListQuery) -> Answer<ListPage>;
        pub fn sweep_page(&self, query: &SweepQuery) -> Answer<SweepPage>;
        pub fn update_phase<'a>(&self, write: &Write<'a>) -> Answer<Written>;
        pub fn record_token<'a>(&self, write: &Write<'a>) -> Answer<Written>;
        pub fn record_closed<'a>(&self, write: &Write<'a>) -> Answer<Written>;
        pub fn record_substrate<'a>(&self, write: &Write<'a>) -> Answer<Written>;
        pub fn record_deletion_intent<'a>(&self, write: &Write<'a>) -> Answer<Written>;
        pub fn record_retry<'a>(&self, write: &Write<'a>) -> Answer<Written>;
        pub fn replace(&self, replacement: &Replacement) -> Answer<Replaced>;
        pub fn history(&self, id: ProvisionedResourceId) -> Answer<Vec<AuditRecord>>;
        pub fn scrub_audit(&self, id: ProvisionedResourceId, by: &Attribution) -> Answer<u64>;
        pub fn purge_deleted(&self, request: &PurgeRequest) -> Answer<Vec<ProvisionedResourceId>>;
    }
}

delegate!(Repository for MockRepository {
    create(admitted: &Admitted) -> Created;
    get_by_id(id: ProvisionedResourceId) -> Option<ProvisionedResource>;
    get_in_project(
        project: ProjectId,
        id: ProvisionedResourceId
    ) -> Option<ProvisionedResource>;
    get_by_request(project: ProjectId, request: &RequestId) -> Option<StoredRequest>;
    list(query: &ListQuery) -> ListPage;
    sweep_page(query: &SweepQuery) -> SweepPage;
    update_phase(write: &Write<'_>) -> Written;
    record_token(write: &Write<'_>) -> Written;
    record_closed(write: &Write<'_>) -> Written;
    record_substrate(write: &Write<'_>) -> Written;
    record_deletion_intent(write: &Write<'_>) -> Written;
    record_retry(write: &Write<'_>) -> Written;
    replace(replacement: &Replacement) -> Replaced;
    history(id: ProvisionedResourceId) -> Vec<AuditRecord>;
    scrub_audit(id: ProvisionedResourceId, by: &Attribution) -> u64;
    purge_deleted(request: &PurgeRequest) -> Vec<ProvisionedResourceId>;
});

mock! {
    pub Schedule {
        pub fn claim(&self, request: &ClaimRequest) -> Answer<Vec<Lease>>;
        pub fn release(
            &self,
            lease: &Lease,
            seen: Version,
            outcome: &PassOutcome,
        ) -> Answer<Released>;
        pub fn schedule(&self, id: ProvisionedResourceId, due: Due) -> Answer<bool>;
        pub fn entry(&self, id: ProvisionedResourceId) -> Answer<Option<ScheduleEntry>>;
        pub fn set_paused(
            &self,
            id: ProvisionedResourceId,
            paused: bool,
            by: &Attribution,
        ) -> Answer<bool>;
        pub fn brakes(&self, cluster: &ClusterId) -> Answer<Vec<Brake>>;
        pub fn set_brake(
            &self,
            cluster: &ClusterId,
            brake: &Brake,
            by: &Attribution,
        ) -> Answer<()>;
        pub fn release_brake(&self, release: &BrakeRelease) -> Answer<bool>;
        pub fn permit(&self, request: &PermitRequest) -> Answer<Permit>;
        pub fn accepted_losses(&self, cluster: &ClusterId) -> Answer<BTreeSet<Loss>>;
        pub fn wakeups(&self) -> Answer<Wakeups>;
    }
}

delegate!(Schedule for MockSchedule {
    claim(request: &ClaimRequest) -> Vec<Lease>;
    release(lease: &Lease, seen: Version, outcome: &PassOutcome) -> Released;
    schedule(id: ProvisionedResourceId, due: Due) -> bool;
    entry(id: ProvisionedResourceId) -> Option<ScheduleEntry>;
    set_paused(id: ProvisionedResourceId, paused: bool, by: &Attribution) -> bool;
    brakes(cluster: &ClusterId) -> Vec<Brake>;
    set_brake(cluster: &ClusterId, brake: &Brake, by: &Attribution) -> ();
    release_brake(release: &BrakeRelease) -> bool;
    permit(request: &PermitRequest) -> Permit;
    accepted_losses(cluster: &ClusterId) -> BTreeSet<Loss>;
    wakeups() -> Wakeups;
});

mock! {
    pub Outbox {}

    #[async_trait]
    impl Outbox for Outbox {
        async fn claim_events(&self, request: &ClaimEvents) -> Answer<Vec<ClaimedEvent>>;
        async fn acknowledge_event(&self, claim: &EventClaim) -> Answer<Acknowledged>;
        async fn delay_event(
            &self,
            claim: &EventClaim,
            wait: Duration,
            failure: DeliveryFailure,
        ) -> Answer<Acknowledged>;
        async fn set_aside_event(&self, claim: &EventClaim, reason: &str) -> Answer<Acknowledged>;
        async fn resume_events(
            &self,
            id: ProvisionedResourceId,
            how: Resume,
            by: &Attribution,
        ) -> Answer<Option<SetAside>>;
        async fn purge_events(&self, retention: Duration, limit: PageSize) -> Answer<u64>;
        async fn backlog(&self) -> Answer<Backlog>;
        async fn set_aside_events(
            &self,
            of: EventsOf,
            limit: PageSize,
        ) -> Answer<Vec<SetAsideOf>>;
    }
}

mock! {
    pub Cluster {
        pub fn identity(&self) -> Answer<ClusterId>;
        pub fn observe_many(&self, targets: &[XrTarget]) -> Answer<Vec<Answer<CachedXr>>>;
        pub fn read(&self, target: &Target) -> Answer<Reading>;
        pub fn inspect(&self, target: &Target) -> Answer<Inspection>;
        pub fn apply(&self, request: &ApplyRequest) -> Answer<Applied>;
        pub fn dry_run(&self, request: &ApplyRequest) -> Answer<DryRun>;
        pub fn delete<'a>(&self, request: &DeleteRequest<'a>) -> Answer<Deleted>;
        pub fn list_owned(&self, query: &OwnedQuery) -> Answer<OwnedPage>;
        pub fn hints(&self) -> Answer<Hints>;
    }
}

delegate!(Cluster for MockCluster {
    identity() -> ClusterId;
    observe_many(targets: &[XrTarget]) -> Vec<Answer<CachedXr>>;
    read(target: &Target) -> Reading;
    inspect(target: &Target) -> Inspection;
    apply(request: &ApplyRequest) -> Applied;
    dry_run(request: &ApplyRequest) -> DryRun;
    delete(request: &DeleteRequest<'_>) -> Deleted;
    list_owned(query: &OwnedQuery) -> OwnedPage;
    hints() -> Hints;
});

mock! {
    pub TokenIssuer {}

    #[async_trait]
    impl TokenIssuer for TokenIssuer {
        async fn issue(&self, request: &IssueRequest) -> Answer<Issue>;
        async fn close(&self, resource: ProvisionedResourceId) -> Answer<()>;
        async fn state(&self, token: BootstrapTokenId) -> Answer<Option<TokenState>>;
        async fn ttl_window(&self) -> Answer<TtlWindow>;
    }
}

mock! {
    pub NodeDeregistrar {}

    #[async_trait]
    impl NodeDeregistrar for NodeDeregistrar {
        async fn deregister(&self, token: BootstrapTokenId) -> Answer<()>;
        async fn node_registered(&self, token: BootstrapTokenId) -> Answer<bool>;
        async fn nodes_registered(&self, tokens: &[BootstrapTokenId]) -> Answer<Vec<Answer<bool>>>;
    }
}

mock! {
    pub TokenReader {}

    #[async_trait]
    impl TokenReader for TokenReader {
        async fn consumers(&self, tokens: &[BootstrapTokenId]) -> Answer<Vec<Option<Consumer>>>;
    }
}

mock! {
    pub PeerResolver {}

    #[async_trait]
    impl PeerResolver for PeerResolver {
        async fn live_peer(&self, node: NodeId) -> Answer<Option<PeerId>>;
    }
}

mock! {
    pub PeerCommander {}

    #[async_trait]
    impl PeerCommander for PeerCommander {
        async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Answer<Retired>;
    }
}

mock! {
    pub BlueprintResolver {}

    #[async_trait]
    impl BlueprintResolver for BlueprintResolver {
        async fn resolve(&self, id: BlueprintVersionId) -> Answer<Option<Arc<BlueprintVersionView>>>;
    }
}

mock! {
    pub CloudResolver {}

    #[async_trait]
    impl CloudResolver for CloudResolver {
        async fn resolve(&self, id: CloudId) -> Answer<Option<CloudView>>;
    }
}

mock! {
    pub CredentialResolver {}

    #[async_trait]
    impl CredentialResolver for CredentialResolver {
        async fn resolve(
            &self,
            project: ProjectId,
            id: CloudCredentialId,
        ) -> Answer<Option<CredentialView>>;
    }
}

mock! {
    pub AssignmentReader {}

    #[async_trait]
    impl AssignmentReader for AssignmentReader {
        async fn read(&self, project: ProjectId) -> Answer<Option<NamespaceObservation>>;
    }
}

mock! {
    pub LabelTagResolver {}

    #[async_trait]
    impl LabelTagResolver for LabelTagResolver {
        async fn resolve(
            &self,
            project: ProjectId,
            resource: ResourceId,
        ) -> Answer<Option<ResourceView>>;
        async fn resolve_many(
            &self,
            resources: &[(ProjectId, ResourceId)],
        ) -> Answer<Vec<Answer<Option<ResourceView>>>>;
    }
}

mock! {
    pub AuditSink {}

    #[async_trait]
    impl AuditSink for AuditSink {
        async fn record(&self, entry: &AuditEntry) -> Answer<()>;
    }
}

mock! {
    pub EventSink {}

    #[async_trait]
    impl EventSink for EventSink {
        async fn deliver(&self, envelope: &Envelope) -> Answer<()>;
    }
}

mock! {
    pub Clock {}

    impl Clock for Clock {
        fn now(&self) -> OffsetDateTime;
    }
}

mock! {
    pub IdSource {}

    impl IdSource for IdSource {
        fn provisioned_resource_id(&self) -> ProvisionedResourceId;
        fn event_id(&self) -> EventId;
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ChainedNodeDeregistrar;

    /// What a mock is for: the order of calls between the seams, and that none is left out or made twice.
    #[tokio::test]
    async fn the_chain_asks_each_seam_once_and_in_order() {
        let token = BootstrapTokenId::new(Uuid::from_u128(1)).unwrap();
        let (node, peer) =
            (NodeId::new(Uuid::from_u128(2)).unwrap(), PeerId::new(Uuid::from_u128(3)).unwrap());
        let mut order = mockall::Sequence::new();
        let mut tokens = MockTokenReader::new();
        let consumer = Consumer::registered(node);
        tokens
            .expect_consumers()
            .withf(move |asked| asked == [token])
            .once()
            .in_sequence(&mut order)
            .returning(move |_| Ok(vec![Some(consumer)]));
        let mut peers = MockPeerResolver::new();
        peers.expect_live_peer().once().in_sequence(&mut order).returning(move |_| Ok(Some(peer)));
        let mut commander = MockPeerCommander::new();
        commander
            .expect_retire()
            .withf(move |named, live| (*named, *live) == (node, Some(peer)))
            .once()
            .in_sequence(&mut order)
            .returning(|_, _| Ok(Retired::Done));
        let chain =
            ChainedNodeDeregistrar::new(Arc::new(tokens), Arc::new(peers), Arc::new(commander));
        chain.deregister(token).await.unwrap();
    }

    /// The mocks that delegate reach their own expectations.
    #[tokio::test]
    async fn a_brake_is_set_as_expected() {
        let cluster = ClusterId::new("c0").unwrap();
        let by = Attribution {
            actor: crate::Actor::system(),
            correlation_id: crate::CorrelationId::new("c1").unwrap(),
        };
        let mut schedule = MockSchedule::new();
        schedule
            .expect_set_brake()
            .withf(|_, brake, _| brake.absent == 6)
            .once()
            .returning(|_, _, _| Ok(()));
        let port: &dyn Schedule = &schedule;
        let brake = Brake::new(6, 8, OffsetDateTime::UNIX_EPOCH);
        port.set_brake(&cluster, &brake, &by).await.unwrap();
    }
}
