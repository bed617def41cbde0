//! Tokens and Nodes, in real tables.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_app::Reconciler;
use broker_app::explain::{Budgets, Party, Verdict};
use broker_domain::{BootstrapTokenId, Phase};
use broker_ports::{NodeDeregistrar, PortError, PortName, ReconcilerPorts};
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::real::{RealWorld, reconciler_config};
use broker_tests::world::{NODE, operator};

use super::{assert_goes_on, assert_told};

#[tokio::test]
async fn a_node_that_does_not_come_is_told() {
    let world = RealWorld::new().await;
    let resource = world.brought_to(Phase::Enrolling, &world.declaration(NODE)).await;
    let id = resource.id();
    assert_told(&world.explain(id).await, Verdict::Enrolling, Party::Nobody, "wait");
    let mut impatient = Budgets::default();
    impatient.enrolling = Duration::ZERO;
    let silent = world.explain_within(id, impatient).await;
    assert_told(&silent, Verdict::NodeNeverCalled, Party::Caller, "look_at_agent");
    world.let_tokens_expire().await;
    let expired = world.explain(id).await;
    assert_told(&expired, Verdict::TokenExpired, Party::Caller, "replace");
    world.ports.tokens.close(id).await.unwrap();
    let invalid = world.explain(id).await;
    assert_told(&invalid, Verdict::TokenInvalid, Party::Caller, "replace");

    // The replacement that the action names.
    world.service.deprovision(&operator(), id).await.unwrap();
    world.until(id, Phase::Deleted).await;
    let replacement = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    assert_goes_on(&world.explain(replacement.id()).await);

    let token = replacement.bootstrap_token_id().unwrap();
    world.ports.nodes.deregister(token).await.unwrap();
    let lost = world.explain(replacement.id()).await;
    assert_told(&lost, Verdict::NodeLost, Party::Caller, "replace");
}

/// Says that it drained, and did not.
struct Liar;

#[async_trait]
impl NodeDeregistrar for Liar {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        Ok(())
    }

    async fn node_registered(&self, _: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(true)
    }
}

#[tokio::test]
async fn a_node_that_does_not_go_is_told() {
    let world = RealWorld::new().await;
    let resource = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    let id = resource.id();
    world.service.deprovision(&operator(), id).await.unwrap();
    assert_told(&world.explain(id).await, Verdict::Draining, Party::Nobody, "wait");

    let dead = |method| {
        let plan = FaultPlan::none();
        Faults::new(plan.from_call(PortName::NodeDeregistrar, method, 1, Fault::BeforeEffect))
    };
    let faults = dead("node_registered");
    let unheard = world.service_with(
        |ports| ports.nodes = faults.around::<dyn NodeDeregistrar>(Arc::clone(&ports.nodes)),
        |_| {},
    );
    let explained = unheard.explain(&operator(), id).await.unwrap();
    assert_told(&explained, Verdict::MeshUnreachable, Party::Platform, "reach_mesh");

    let faults = dead("deregister");
    let mut ports = ReconcilerPorts::from(&world.ports);
    ports.nodes = faults.around::<dyn NodeDeregistrar>(Arc::clone(&ports.nodes));
    let replica = Reconciler::new(ports, reconciler_config("undrained"));
    replica.reconcile(id).await.unwrap_err();
    let failed = world.explain(id).await;
    assert_told(&failed, Verdict::DeregistrationFailed, Party::Platform, "mend_draining");

    let mut ports = ReconcilerPorts::from(&world.ports);
    ports.nodes = Arc::new(Liar);
    let replica = Reconciler::new(ports, reconciler_config("lied-to"));
    replica.reconcile(id).await.unwrap();
    let lied_to = world.service_with(
        |ports| ports.nodes = Arc::new(Liar),
        |config| config.budgets.deregistering = Duration::ZERO,
    );
    let explained = lied_to.explain(&operator(), id).await.unwrap();
    assert_told(&explained, Verdict::PeerWillNotDrain, Party::Platform, "drain_peer");
    world.until(id, Phase::Deleted).await;
}
