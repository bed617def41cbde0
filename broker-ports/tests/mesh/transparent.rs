//! The fault decorator changes nothing by itself: whatever is wrapped without a fault that fires passes its
//! contract suites as before.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, Declaration, ProvisionedResourceId};
use broker_ports::memory::{ManualClock, MemoryStore};
use broker_ports::testing::faults::{FaultPlan, Faults};
use broker_ports::testing::node_deregistrar::{
    self, MeshAgents, NodeDeregistrarUnderTest, SeamsUnderTest,
};
use broker_ports::testing::store::{self, StoreUnderTest};
use broker_ports::testing::token_issuer::{self, TokenIssuerUnderTest};
use broker_ports::{
    AuditRecord, AuditSink, Backoff, BootstrapToken, NodeDeregistrar, Outbox, PeerCommander,
    PeerResolver, PortError, Repository, Schedule, TokenIssuer, TokenReader,
};

use super::worlds::{MeshWorld, start};

/// Every answer is kept for a stale read that never comes.
fn faults() -> Faults {
    Faults::new(FaultPlan::none().remembering())
}

struct WrappedMesh {
    world: MeshWorld,
    issuer: Arc<dyn TokenIssuer>,
    deregistrar: Arc<dyn NodeDeregistrar>,
    tokens: Arc<dyn TokenReader>,
    peers: Arc<dyn PeerResolver>,
    commander: Arc<dyn PeerCommander>,
}

impl WrappedMesh {
    fn fresh() -> Self {
        let (world, faults) = (MeshWorld::fresh(), faults());
        let mesh = Arc::new(world.mesh.clone());
        Self {
            issuer: faults.around::<dyn TokenIssuer>(Arc::new(world.tokens.clone())),
            deregistrar: faults.around::<dyn NodeDeregistrar>(Arc::new(mesh.deregistrar())),
            tokens: faults.around::<dyn TokenReader>(mesh.clone()),
            peers: faults.around::<dyn PeerResolver>(mesh.clone()),
            commander: faults.around::<dyn PeerCommander>(mesh),
            world,
        }
    }
}

#[async_trait]
impl TokenIssuerUnderTest for WrappedMesh {
    fn issuer(&self) -> &dyn TokenIssuer {
        &*self.issuer
    }

    async fn resource(&self) -> Result<ProvisionedResourceId, PortError> {
        self.world.resource().await
    }

    async fn consume(&self, plaintext: &BootstrapToken) -> Result<bool, PortError> {
        self.world.consume(plaintext).await
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        TokenIssuerUnderTest::advance(&self.world, by).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        TokenIssuerUnderTest::cut_off(&self.world).await
    }
}

#[async_trait]
impl MeshAgents for WrappedMesh {
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError> {
        self.world.issued_token().await
    }

    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError> {
        self.world.enrolled_token().await
    }

    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        self.world.join(token).await
    }

    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        self.world.leave(token).await
    }

    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        self.world.has_peer(token).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        MeshAgents::cut_off(&self.world).await
    }
}

impl NodeDeregistrarUnderTest for WrappedMesh {
    fn deregistrar(&self) -> &dyn NodeDeregistrar {
        &*self.deregistrar
    }
}

impl SeamsUnderTest for WrappedMesh {
    fn tokens(&self) -> &dyn TokenReader {
        &*self.tokens
    }

    fn peers(&self) -> &dyn PeerResolver {
        &*self.peers
    }

    fn commander(&self) -> &dyn PeerCommander {
        &*self.commander
    }
}

struct WrappedStore {
    store: MemoryStore,
    clock: ManualClock,
    repository: Arc<dyn Repository>,
    schedule: Arc<dyn Schedule>,
    outbox: Arc<dyn Outbox>,
    audit: Arc<dyn AuditSink>,
}

impl WrappedStore {
    fn fresh() -> Self {
        let (clock, faults) = (ManualClock::at(start()), faults());
        let store = MemoryStore::new(Arc::new(clock.clone())).checking_references();
        let shared = Arc::new(store.clone());
        Self {
            repository: faults.around::<dyn Repository>(shared.clone()),
            schedule: faults.around::<dyn Schedule>(shared.clone()),
            outbox: faults.around::<dyn Outbox>(shared.clone()),
            audit: faults.around::<dyn AuditSink>(shared),
            store,
            clock,
        }
    }
}

#[async_trait]
impl StoreUnderTest for WrappedStore {
    fn repository(&self) -> &dyn Repository {
        &*self.repository
    }

    fn schedule(&self) -> &dyn Schedule {
        &*self.schedule
    }

    fn outbox(&self) -> &dyn Outbox {
        &*self.outbox
    }

    fn audit(&self) -> &dyn AuditSink {
        &*self.audit
    }

    fn backoff(&self) -> Backoff {
        self.store.backoff()
    }

    async fn know(&self, declaration: &Declaration) -> Result<(), PortError> {
        self.store.know(declaration);
        Ok(())
    }

    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
        Ok(self.store.audit_trail())
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.clock.advance(by);
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.store.set_reachable(false);
        Ok(())
    }
}

#[tokio::test]
async fn a_wrapped_mesh_passes() {
    let fresh = async || WrappedMesh::fresh();
    token_issuer::suite().run(fresh).await.assert_passed();
    node_deregistrar::suite().run(fresh).await.assert_passed();
    node_deregistrar::seams_suite().run(fresh).await.assert_passed();
}

#[tokio::test]
async fn a_wrapped_store_passes() {
    let fresh = async || WrappedStore::fresh();
    store::repository_suite().run(fresh).await.assert_passed();
    store::schedule_suite().run(fresh).await.assert_passed();
    store::outbox_suite().run(fresh).await.assert_passed();
    store::audit_suite().run(fresh).await.assert_passed();
}
