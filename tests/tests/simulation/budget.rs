//! The budget for automatic destruction: recreation stays within it, whatever triggers the passes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use broker_app::{BrakeLosses, PassResult};
use broker_domain::{
    Declaration, OnFailure, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId,
};
use broker_memory::{Behaviour, Part, Verb};
use broker_ports::{AuditAction, Brake, Cluster, NamespaceObservation, PortName, Schedule};
use broker_render::namespace;
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, Faults, Late};
use broker_tests::world::{NODE, STANDALONE, World, background, config, declaration, operator};
use serde_json::json;

/// The losses of a fleet of fewer than 600 in ten minutes.
const ALLOWANCE: usize = 5;

async fn fleet(world: &World, size: usize, declaration: &Declaration) -> Vec<ProvisionedResource> {
    let ids = world.declare_many(size, declaration).await;
    for _ in 0..6 {
        world.round_of(&ids).await;
    }
    let mut resources = Vec::new();
    for id in ids {
        resources.push(world.get(id).await);
        assert_eq!(resources.last().unwrap().phase(), Phase::Ready);
    }
    resources
}

fn ids(resources: &[ProvisionedResource]) -> Vec<ProvisionedResourceId> {
    resources.iter().map(ProvisionedResource::id).collect()
}

fn lose(world: &World, resources: &[ProvisionedResource]) {
    for resource in resources {
        world.cluster.delete_in_background(&world.xr(resource));
    }
    world.cluster.settle(5);
}

fn audited(world: &World, action: AuditAction) -> usize {
    world.store.audit_trail().iter().filter(|line| line.entry.action == action).count()
}

fn permits(world: &World) -> usize {
    audited(world, AuditAction::PermitTaken)
}

fn deregistered(world: &World, resources: &[ProvisionedResource]) -> usize {
    let told = |resource: &&ProvisionedResource| {
        let token = resource.bootstrap_token_id().expect("a Node's token");
        world.mesh.consumer(token).is_none_or(|consumer| consumer.deregistered)
    };
    resources.iter().filter(told).count()
}

/// The uids of the composite resources; a recreated one has a new uid.
fn uids(world: &World, resources: &[ProvisionedResource]) -> BTreeSet<String> {
    let uid = |it| Some(world.cluster.object(&world.xr(it))?["metadata"]["uid"].to_string());
    resources.iter().filter_map(uid).collect()
}

async fn brakes(world: &World) -> Vec<Brake> {
    let cluster = Cluster::identity(&world.cluster).await.unwrap();
    world.store.brakes(&cluster).await.unwrap()
}

async fn in_phase(world: &World, resources: &[ProvisionedResource], phase: Phase) -> usize {
    let mut there = 0;
    for resource in resources {
        there += usize::from(world.get(resource.id()).await.phase() == phase);
    }
    there
}

#[tokio::test]
async fn passes_without_a_sweep_stay_within_the_allowance() {
    let world = World::new();
    let resources = fleet(&world, 8, &declaration(NODE)).await;
    lose(&world, &resources);
    for _ in 0..3 {
        for resource in &resources {
            world.round(resource.id()).await.unwrap();
        }
    }
    let standing = |it: &&ProvisionedResource| world.cluster.exists(&world.xr(it));
    assert_eq!(resources.iter().filter(standing).count(), ALLOWANCE);
    assert_eq!(deregistered(&world, &resources), ALLOWANCE);
    assert_eq!(permits(&world), ALLOWANCE);
}

/// Three replicas with immediate hints, long before their next sweep. An operator repeatedly
/// requests a pass over each lost resource.
#[tokio::test(start_paused = true)]
async fn running_replicas_stay_within_the_allowance_at_every_moment() {
    for (size, losses) in [(12, 1), (12, 5), (12, 6), (12, 12)] {
        let world = World::new();
        let resources = fleet(&world, size, &declaration(NODE)).await;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut replicas = tokio::task::JoinSet::new();
        for name in ["a", "b", "c"] {
            let mut config = config(&format!("replica-{name}"));
            config.sweep_interval = Duration::from_hours(1);
            let runner = world.runner_maker(world.relay(), config)();
            let mut stopped = stopped.clone();
            replicas.spawn(async move {
                runner.run(async move { drop(stopped.wait_for(|stop| *stop).await) }).await
            });
        }
        for _ in 0..8 {
            world.let_time_pass().await;
        }
        let lost = &resources[..losses];
        let uids = uids(&world, lost);
        assert_eq!(uids.len(), losses);
        for resource in lost {
            world.cluster.delete_in_background(&world.xr(resource));
        }
        for _ in 0..60 {
            for resource in lost {
                world.service.reconcile_now(&operator(), resource.id()).await.unwrap();
            }
            for _ in 0..4 {
                world.let_time_pass().await;
                let again = self::uids(&world, lost).difference(&uids).count();
                assert!(again <= ALLOWANCE, "{again} of {losses} lost ones were recreated");
            }
            let gone = deregistered(&world, &resources);
            assert!(gone <= ALLOWANCE, "{gone} of {losses} lost machines were deregistered");
            assert!(permits(&world) <= ALLOWANCE, "{losses} were lost");
        }
        let expected = losses.min(ALLOWANCE);
        assert_eq!(permits(&world), expected, "{losses} were lost");
        // The refused permit made a replica count at once, and the count exceeds the brake's limit.
        let braked = !brakes(&world).await.is_empty();
        assert_eq!(braked, losses > ALLOWANCE * 2, "{losses} were lost");
        let ready = in_phase(&world, &resources, Phase::Ready).await;
        assert!(ready >= size - losses + expected, "{ready} of {size}, {losses} were lost");
        stop.send(true).unwrap();
        while let Some(ended) = replicas.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

/// The release accepts the losses; sweeps continue, and nothing else is required of the operator.
#[tokio::test(start_paused = true)]
async fn accepted_losses_recover_and_a_second_loss_brakes_again() {
    let world = World::new();
    let resources = fleet(&world, 8, &declaration(STANDALONE)).await;
    lose(&world, &resources);
    background(world.runner(), async {
        for round in 1..=2 {
            for _ in 0..240 {
                world.let_time_pass().await;
            }
            let set = brakes(&world).await;
            assert_eq!(set.len(), 1, "loss {round} sets the brake");
            let cluster = resources[0].substrate().cluster().unwrap();
            let service = &world.service;
            let accepted = service.release_brake(&operator(), cluster, set[0].project).await;
            assert!(!accepted.unwrap().absent.is_empty(), "loss {round}");
            for _ in 0..480 {
                world.let_time_pass().await;
            }
            let ready = in_phase(&world, &resources, Phase::Ready).await;
            assert_eq!(ready, resources.len(), "after loss {round}");
            assert_eq!(brakes(&world).await, [], "no sweep brakes for accepted losses");
            if round == 1 {
                lose(&world, &resources);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn failures_of_a_ready_fleet_stay_within_the_allowance() {
    let world = World::new();
    let rolling_back = declaration(STANDALONE).on_failure(OnFailure::Rollback);
    let resources = fleet(&world, 1_000, &rolling_back).await;
    let ids = ids(&resources);
    for id in &ids {
        world.cluster.behave_for(*id, Behaviour::failing_after(0, "the function is broken"));
    }
    world.cluster.tick();
    for _ in 0..3 {
        world.round_of(&ids).await;
    }
    let given_up = resources.len() - in_phase(&world, &resources, Phase::Ready).await;
    assert_eq!(given_up, permits(&world));
    assert!((9..=10).contains(&given_up), "{given_up}: one in a hundred of those that are left");
}

#[tokio::test]
async fn two_losses_of_one_resource_need_two_permits() {
    let world = World::new();
    let resource = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    for losses in 1..=7 {
        lose(&world, std::slice::from_ref(&resource));
        for _ in 0..8 {
            world.round(resource.id()).await.unwrap();
        }
        assert_eq!(permits(&world), losses.min(ALLOWANCE));
    }
    assert!(!world.cluster.exists(&world.xr(&resource)), "the sixth loss waits");
    world.clock.advance(Duration::from_mins(11));
    world.until(resource.id(), Phase::Ready).await;
}

#[tokio::test]
async fn a_dry_run_sets_no_brake_and_takes_no_lease() {
    let world = World::in_mode(broker_app::decide::Mode::DryRun);
    let live = world.replica_in_mode("live", broker_app::decide::Mode::Live);
    let mut resources = Vec::new();
    for id in world.declare_many(8, &declaration(STANDALONE)).await {
        for _ in 0..6 {
            live.reconcile(id).await.unwrap();
            world.cluster.tick();
        }
        resources.push(world.get(id).await);
    }
    lose(&world, &resources);
    let (_, report) = world.sweep().await;
    assert_eq!((report.missing, report.brakes), (8, vec![]));
    let epoch = world.store.entry(resources[0].id()).await.unwrap().unwrap().epoch;
    let passed = world.reconciler.reconcile(resources[0].id()).await.unwrap();
    assert!(matches!(passed, PassResult::Completed { to: Phase::Pending, .. }), "{passed:?}");
    let entry = world.store.entry(resources[0].id()).await.unwrap().unwrap();
    assert_eq!((entry.epoch, entry.lease), (epoch, None));
}

/// Sets conditions of composite resources as Crossplane; they stay as they are.
fn say(world: &World, resources: &[ProvisionedResource], conditions: &serde_json::Value) {
    world.cluster.stop(Part::Crossplane);
    for resource in resources {
        let status = json!({"status": {"conditions": conditions}});
        world.cluster.patch_as("crossplane", &world.xr(resource), &status);
    }
}

/// A function that first withdraws Ready and then declares the failure.
#[tokio::test]
async fn fleet_that_fell_back_before_it_failed_is_in_the_budget() {
    let world = World::new();
    let resources = fleet(&world, 12, &declaration(STANDALONE)).await;
    let ids = ids(&resources);
    let unready = json!({"type": "Ready", "status": "False", "reason": "Creating"});
    let failed = json!({"type": "ProvisioningFailed", "status": "True", "message": "broken"});
    say(&world, &resources, &json!([unready.clone()]));
    world.round_of(&ids).await;
    assert_eq!(in_phase(&world, &resources, Phase::Provisioning).await, 12, "they left Ready");
    say(&world, &resources, &json!([unready, failed]));
    for _ in 0..3 {
        world.round_of(&ids).await;
    }
    let failed = in_phase(&world, &resources, Phase::Failed).await;
    assert!(failed <= ALLOWANCE, "{failed} of 12 that were Ready were failed at once");
}

/// Sets or removes the failure condition of every composite resource.
fn declare_failure(world: &World, resources: &[ProvisionedResource], failed: bool) {
    for resource in resources {
        let behaviour = if failed {
            Behaviour::failing_after(0, "the function is broken")
        } else {
            let healthy = json!({"status": {"conditions": []}});
            world.cluster.patch_as("function", &world.xr(resource), &healthy);
            Behaviour::ready_after(0)
        };
        world.cluster.behave_for(resource.id(), behaviour);
    }
    world.cluster.settle(5);
}

/// A retried failure is over. The next failure of the same composite resource is another loss.
#[tokio::test]
async fn failures_after_retries_are_in_the_budget_again() {
    let world = World::new();
    let resources = fleet(&world, 12, &declaration(STANDALONE)).await;
    let ids = ids(&resources);
    // A few fail at a time, within the allowance, and are retried.
    for some in resources.chunks(4) {
        declare_failure(&world, some, true);
        world.round_of(&ids).await;
        assert_eq!(in_phase(&world, some, Phase::Failed).await, some.len());
        declare_failure(&world, some, false);
        for resource in some {
            world.service.retry(&operator(), resource.id()).await.unwrap();
            world.until(resource.id(), Phase::Ready).await;
            let refused = world.service.retry(&operator(), resource.id()).await.unwrap_err();
            assert_eq!(refused.reason(), "illegal_transition");
        }
        world.clock.advance(Duration::from_hours(24));
    }
    assert_eq!(in_phase(&world, &resources, Phase::Ready).await, 12);
    assert_eq!(audited(&world, AuditAction::RetryRequested), 12);
    declare_failure(&world, &resources, true);
    world.round_of(&ids).await;
    let failed = in_phase(&world, &resources, Phase::Failed).await;
    assert!(failed <= ALLOWANCE, "{failed} of 12 that were Ready were failed at once");
}

/// The API server's store is restored, and objects that came back are lost again later.
#[tokio::test]
async fn accepted_losses_that_came_back_count_when_lost_again() {
    let world = World::new();
    let resources = fleet(&world, 12, &declaration(NODE)).await;
    let ids = ids(&resources);
    let restore = world.cluster.back_up();
    lose(&world, &resources);
    assert_eq!(world.sweep().await.1.brakes.len(), 1);
    let cluster = resources[0].substrate().cluster().unwrap();
    let brake = brakes(&world).await[0].project;
    let accepted = world.service.release_brake(&operator(), cluster, brake).await.unwrap();
    assert_eq!(accepted.absent.len(), 12);
    restore();
    for _ in 0..6 {
        world.round_of(&ids).await;
    }
    assert_eq!(in_phase(&world, &resources, Phase::Ready).await, 12);
    assert_eq!(deregistered(&world, &resources), 0, "the objects are back");
    world.clock.advance(Duration::from_hours(24 * 30));

    lose(&world, &resources);
    let held = world.sweep().await.1.brakes.len();
    for _ in 0..6 {
        world.round_of(&ids).await;
    }
    let gone = deregistered(&world, &resources);
    assert!(gone <= ALLOWANCE, "{gone} Nodes of 12 were deregistered, under {held} brakes");
    assert_eq!(held, 1, "another mass loss sets the brake");
}

/// A permit is charged when it is taken; its effect happens when the API server accepts the
/// request.
#[tokio::test]
async fn accumulated_permits_are_used_within_the_allowance() {
    let world = World::new();
    let resources = fleet(&world, 120, &declaration(NODE)).await;
    // A tenth of the fleet: no sweep sets a brake for it.
    let (lost, _) = resources.split_at(12);
    lose(&world, lost);
    world.cluster.deny("Machine", "no more machines today");
    for _ in 0..3 {
        for resource in lost {
            let _ = world.reconciler.reconcile(resource.id()).await;
        }
        assert_eq!(world.sweep().await.1.brakes, []);
        world.clock.advance(Duration::from_mins(11));
    }
    assert_eq!(deregistered(&world, lost), 0);
    world.cluster.stop_denying("Machine");
    for resource in lost {
        let _ = world.reconciler.reconcile(resource.id()).await;
    }
    let gone = deregistered(&world, lost);
    assert!(gone <= ALLOWANCE, "{gone} Nodes were deregistered in the same moment");
}

/// A kind that the broker may not read does not block the release of a Project's brake.
#[tokio::test]
async fn forbidden_kind_does_not_block_a_projects_release() {
    let world = World::new();
    let other: ProjectId = id(9);
    world.add_project(other, id(0x92));
    let theirs = Declaration::new(other, id(0x92), id(STANDALONE), id(4));
    fleet(&world, 1, &theirs).await;
    world.declare_until(Phase::Ready, &declaration(NODE)).await;
    lose(&world, &[world.declare_until(Phase::Ready, &declaration(STANDALONE)).await]);
    let cluster = world.service.set_brake(&operator(), Some(other)).await.unwrap();
    world.cluster.forbid(Verb::Get, "Machine");
    let released = world.service.release_brake(&operator(), &cluster, Some(other)).await;
    assert!(released.is_ok(), "{}", broker_app::one_line(&released.unwrap_err()));
    assert_eq!(released.unwrap(), BrakeLosses::default(), "nothing of other Projects is read");
    assert_eq!(brakes(&world).await, []);
}

/// An unreadable object is not accepted as lost. The release names it, and it keeps no brake set.
#[tokio::test]
async fn release_names_unreadable_objects_and_accepts_the_rest() {
    let world = World::new();
    let lost = fleet(&world, 2, &declaration(STANDALONE)).await;
    let hidden = fleet(&world, 1, &declaration(NODE)).await;
    let spoilt = world.declare(&declaration(STANDALONE)).await.unwrap();
    let (gone, _) = lost.split_at(1);
    lose(&world, gone);
    lose(&world, &hidden);
    let cluster = world.service.set_brake(&operator(), None).await.unwrap();
    world.cluster.forbid(Verb::Get, "Machine");
    assert!(world.store.spoil(spoilt.id()));
    let released = world.service.release_brake(&operator(), &cluster, None).await.unwrap();
    let accepted: Vec<_> = released.absent.iter().map(|absence| absence.resource).collect();
    assert_eq!(accepted, [gone[0].id()]);
    let unread: Vec<_> = released.unread.iter().map(|unread| unread.resource).collect();
    assert_eq!(unread, [hidden[0].id(), spoilt.id()], "{:?}", released.unread);
    assert_eq!(world.store.accepted_losses(&cluster).await.unwrap().len(), 1);
    assert_eq!(brakes(&world).await, []);

    world.service.set_brake(&operator(), None).await.unwrap();
    let plan = FaultPlan::none().from_call(PortName::Cluster, "read", 1, Fault::BeforeEffect);
    let service = world.service_with(plan);
    let silent = service.release_brake(&operator(), &cluster, None).await.unwrap_err();
    assert_eq!(silent.reason(), "cluster_transient");
    assert_eq!(brakes(&world).await.len(), 1, "a cluster that does not answer releases nothing");
}

/// No pass recreates objects for a Project on another cluster.
#[tokio::test]
async fn losses_of_projects_that_moved_away_set_no_brake() {
    let world = World::new();
    let resources = fleet(&world, 8, &declaration(STANDALONE)).await;
    let home = namespace(broker_tests::world::project()).as_str().to_owned();
    let elsewhere = broker_domain::ClusterId::new("elsewhere").unwrap();
    let moved = NamespaceObservation::new(home, true).on_cluster(elsewhere);
    world.neighbours.place(broker_tests::world::project(), moved);
    lose(&world, &resources);
    let error = world.round(resources[0].id()).await.unwrap_err();
    assert_eq!(error.reason(), "cluster_mismatch");
    assert_eq!(world.sweep().await.1.brakes, []);
}

/// The release commits while the sweep directly reads the missing objects.
#[tokio::test(start_paused = true)]
async fn release_during_a_sweep_is_not_undone_by_it() {
    let mut world = World::new();
    let resources = fleet(&world, 8, &declaration(STANDALONE)).await;
    lose(&world, &resources);
    let second = Duration::from_secs(1);
    let late = Fault::Delay { by: 2 * second, late: Late::Completes };
    let faults = Faults::new(FaultPlan::none().on(PortName::Cluster, "read", 1, late));
    world.rewire(|ports| ports.cluster = faults.around::<dyn Cluster>(Arc::clone(&ports.cluster)));
    let cluster = resources[0].substrate().cluster().unwrap();
    let project = Some(broker_tests::world::project());
    let release = async {
        tokio::time::sleep(second).await;
        world.service.release_brake(&operator(), cluster, project).await.unwrap()
    };
    let ((_, report), accepted) = tokio::join!(world.sweep(), release);
    assert_eq!(accepted.absent.len(), 8);
    assert_eq!(faults.log().entries().len(), 1, "the sweep read before it braked");
    assert_eq!((report.brakes, brakes(&world).await), (vec![], vec![]));
}
