//! A pass resolves only the references that its decision needs: credential, cloud and labels for an
//! apply.

use broker_app::explain::Verdict;
use broker_domain::{OnFailure, Phase};
use broker_memory::Behaviour;
use broker_ports::PortName;
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, Faults};
use broker_tests::world::{NODE, STANDALONE, World, declaration, operator, project};

fn remove_references(world: &mut World) {
    world.platform.withdraw(project(), id(4));
    world.platform.remove_cloud(id(0xc0));
    world.platform.displace(project());
    let (port, fault) = (PortName::LabelTagResolver, Fault::BeforeEffect);
    let faults = Faults::new(FaultPlan::none().from_call(port, "resolve", 1, fault));
    world.rewire(|ports| ports.labels = faults.wrap(ports.labels.clone()));
}

#[tokio::test]
async fn teardown_before_the_first_apply_needs_no_references() {
    let mut world = World::new();
    world.place(false);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.round(declared.id()).await.unwrap();
    assert!(world.get(declared.id()).await.substrate().provider_config().is_none());
    remove_references(&mut world);
    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    world.until(declared.id(), Phase::Deleted).await;
}

#[tokio::test]
async fn ready_resource_that_fails_needs_no_references() {
    let mut world = World::new();
    let declared = declaration(STANDALONE).on_failure(OnFailure::Retain);
    let ready = world.declare_until(Phase::Ready, &declared).await;
    remove_references(&mut world);
    world
        .cluster
        .behave_for(ready.id(), Behaviour::failing_after(0, "the cloud closed the account"));
    world.until(ready.id(), Phase::Failed).await;
}

#[tokio::test]
async fn enrolled_node_becomes_ready_without_references() {
    let mut world = World::new();
    let enrolling = world.declare_until(Phase::Enrolling, &declaration(NODE)).await;
    remove_references(&mut world);
    world.boot_agents();
    world.until(enrolling.id(), Phase::Ready).await;
    assert_eq!(world.explain(enrolling.id()).await.verdict, Verdict::Ready);
}
