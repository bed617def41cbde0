//! Every path of a resource's lifetime in memory, and properties that only an in-memory world
//! shows.

mod teardown;
mod converge;
mod waiting;

use std::collections::BTreeSet;
use std::time::Duration;

use broker_app::PassResult;
use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_memory::{Behaviour, Verb};
use broker_ports::Repository as _;
use broker_tests::world::{NODE, World, declaration, operator, project};

async fn request_deletion(world: &World, id: ProvisionedResourceId) -> ProvisionedResource {
    world.service.deprovision(&operator(), id).await.unwrap()
}

fn delete_xr_as_another_party(world: &World, resource: &ProvisionedResource) {
    world.cluster.delete_in_background(&world.xr(resource));
    world.cluster.settle(5);
}

/// Runs passes until the resource is in the phase.
async fn rounds_until(world: &World, id: ProvisionedResourceId, phase: Phase) {
    while world.get(id).await.phase() != phase {
        world.round(id).await.unwrap();
    }
}

async fn audited_actions(world: &World, id: ProvisionedResourceId) -> Vec<&'static str> {
    let records = world.ports.repository.history(id).await.unwrap();
    records.into_iter().map(|record| record.entry.action.as_str()).collect()
}

async fn count_audited(world: &World, id: ProvisionedResourceId, action: &str) -> usize {
    audited_actions(world, id).await.into_iter().filter(|audited| *audited == action).count()
}

#[tokio::test]
async fn sweep_of_a_settled_or_waiting_world_is_a_no_op() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let waiting = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(waiting.id(), Behaviour::never_ready());
    for _ in 0..4 {
        world.round(waiting.id()).await.unwrap();
    }
    assert_eq!(world.get(waiting.id()).await.phase(), Phase::Provisioning);
    world.clock.advance(Duration::from_mins(10));
    let writes = world.cluster.writes();
    let lines = world.store.audit_trail().len();
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{report:?}");
    assert_eq!((report.looked_at, report.settled), (2, 2));
    assert_eq!((world.cluster.writes(), world.store.audit_trail().len()), (writes, lines));

    world.cluster.delete_in_background(&world.xr(&ready));
    let (work, report) = world.sweep().await;
    assert_eq!(
        work.iter().map(|work| work.resource).collect::<Vec<_>>(),
        [ready.id()],
        "{report:?}"
    );
}

#[tokio::test]
async fn mass_disappearance_sets_the_brake() {
    let world = World::new();
    let mut resources = Vec::new();
    for _ in 0..8 {
        resources.push(world.declare_until(Phase::Ready, &declaration(NODE)).await);
    }
    for resource in &resources {
        world.cluster.delete_in_background(&world.xr(resource));
    }
    world.cluster.settle(5);
    let (work, report) = world.sweep().await;
    assert_eq!(work, [], "{report:?}");
    let brakes: Vec<_> = report.brakes.iter().map(|it| (it.project, it.absent)).collect();
    assert_eq!(brakes, [(Some(project()), 8)]);

    // A requested pass obeys the brake too.
    let first = &resources[0];
    let passed = world.round(first.id()).await.unwrap();
    assert!(matches!(passed, PassResult::Completed { .. }), "{passed:?}");
    assert_eq!(world.get(first.id()).await.phase(), Phase::Ready);
    assert!(!world.cluster.exists(&world.xr(first)));

    let cluster = first.substrate().cluster().unwrap().clone();
    let released = world.service.release_brake(&operator(), &cluster, Some(project())).await;
    assert_eq!(released.unwrap().absent.len(), 8, "every loss is accepted");
    world.round(first.id()).await.unwrap();
    world.until(first.id(), Phase::Ready).await;
    assert!(world.cluster.exists(&world.xr(first)));
}

#[tokio::test]
async fn another_cluster_proves_nothing() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.cluster.swap_identity(broker_domain::ClusterId::new("another").unwrap());
    let error = world.round(ready.id()).await.unwrap_err();
    assert!(error.is_infrastructure(), "{error}");
    assert_eq!(world.get(ready.id()).await.phase(), Phase::Ready);
}

/// A forbidden read proves nothing: objects are neither recreated nor given up, in convergence or
/// teardown.
#[tokio::test]
async fn forbidden_read_proves_nothing() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let leaving = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.service.deprovision(&operator(), leaving.id()).await.unwrap();
    let before = (world.existing_objects(), world.cluster.writes());

    world.cluster.forbid(Verb::Get, "Machine");
    for (resource, phase) in [(&ready, Phase::Ready), (&leaving, Phase::Deregistering)] {
        let error = world.round(resource.id()).await.unwrap_err();
        assert_eq!(error.reason(), "cluster_rejected", "{error}");
        assert_eq!(world.get(resource.id()).await.phase(), phase);
        let node = world.mesh.consumer(resource.bootstrap_token_id().unwrap()).unwrap();
        assert!(!node.deregistered, "a Node was deregistered in {phase}");
    }
    assert_eq!((world.existing_objects(), world.cluster.writes()), before);

    world.cluster.allow_everything();
    world.until(ready.id(), Phase::Ready).await;
    world.until(leaving.id(), Phase::Deleted).await;
}

/// A phase is stored after the act that it depends on: a failed act leaves the phase unchanged.
#[tokio::test]
async fn phase_is_stored_after_its_act() {
    let world = World::new();
    world.cluster.forbid(Verb::Create, "Machine");
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    let error = world.round(declared.id()).await.unwrap_err();
    assert_eq!(error.reason(), "cluster_rejected", "{error}");
    assert_eq!(world.get(declared.id()).await.phase(), Phase::Pending);
    world.cluster.allow_everything();
    world.until(declared.id(), Phase::Ready).await;

    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    world.cluster.forbid(Verb::Delete, "Machine");
    let error = loop {
        if let Err(error) = world.round(declared.id()).await {
            break error;
        }
    };
    assert_eq!(error.reason(), "cluster_rejected", "{error}");
    assert_eq!(world.get(declared.id()).await.phase(), Phase::Deregistering);
    world.cluster.allow_everything();
    world.until(declared.id(), Phase::Deleted).await;
}

#[tokio::test(start_paused = true)]
async fn each_pass_has_its_own_correlation_id_in_the_audit() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    let history = world.store.history(ready.id()).await.unwrap();
    let ids = history.iter().map(|line| line.entry.attribution.correlation_id.as_str());
    let passes: Vec<_> = ids.filter_map(|id| id.strip_prefix("pass:")).collect();
    let epochs = passes.iter().filter_map(|id| id.strip_prefix(&format!("{}:", ready.id())));
    let epochs: BTreeSet<u64> = epochs.map(|epoch| epoch.parse().unwrap()).collect();
    assert!(passes.iter().all(|id| id.starts_with(&ready.id().to_string())), "{passes:?}");
    assert!(epochs.len() >= 3, "a Node needs several passes: {passes:?}");
}
