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
use broker_testkit::faults::{Fault, FaultPlan, Faults, LateArrival};
use broker_tests::world::{NODE, STANDALONE, World, background, config, declaration, operator};
use serde_json::json;

/// The permits per ten minutes of a fleet with fewer than 600 resources.
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

fn ids_of(resources: &[ProvisionedResource]) -> Vec<ProvisionedResourceId> {
    resources.iter().map(ProvisionedResource::id).collect()
}

fn delete_xrs(world: &World, resources: &[ProvisionedResource]) {
    for resource in resources {
        world.cluster.delete_in_background(&world.xr(resource));
    }
    world.cluster.settle(5);
}

fn count_audited(world: &World, action: AuditAction) -> usize {
    world.store.audit_trail().iter().filter(|line| line.entry.action == action).count()
}

fn permits_taken(world: &World) -> usize {
    count_audited(world, AuditAction::PermitTaken)
}

fn count_deregistered(world: &World, resources: &[ProvisionedResource]) -> usize {
    let is_deregistered = |resource: &&ProvisionedResource| {
        let token = resource.bootstrap_token_id().expect("a Node's token");
        world.mesh.consumer(token).is_none_or(|consumer| consumer.deregistered)
    };
    resources.iter().filter(is_deregistered).count()
}

/// The uids of the composite resources; a recreated one has a new uid.
fn xr_uids(world: &World, resources: &[ProvisionedResource]) -> BTreeSet<String> {
    let uid =
        |resource| Some(world.cluster.object(&world.xr(resource))?["metadata"]["uid"].to_string());
    resources.iter().filter_map(uid).collect()
}

async fn active_brakes(world: &World) -> Vec<Brake> {
    let cluster = Cluster::identity(&world.cluster).await.unwrap();
    world.store.brakes(&cluster).await.unwrap()
}

async fn count_in_phase(world: &World, resources: &[ProvisionedResource], phase: Phase) -> usize {
    let mut count = 0;
    for resource in resources {
        count += usize::from(world.get(resource.id()).await.phase() == phase);
    }
    count
}

#[tokio::test]
async fn passes_without_a_sweep_stay_within_the_allowance() {
    let world = World::new();
    let resources = fleet(&world, 8, &declaration(NODE)).await;
    delete_xrs(&world, &resources);
    for _ in 0..3 {
        for resource in &resources {
            world.round(resource.id()).await.unwrap();
        }
    }
    let exists = |resource: &&ProvisionedResource| world.cluster.exists(&world.xr(resource));
    assert_eq!(resources.iter().filter(exists).count(), ALLOWANCE);
    assert_eq!(count_deregistered(&world, &resources), ALLOWANCE);
    assert_eq!(permits_taken(&world), ALLOWANCE);
}

/// Three replicas get hints at once and do not sweep. An operator repeatedly requests a pass over
/// each lost resource.
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
        let original_uids = xr_uids(&world, lost);
        assert_eq!(original_uids.len(), losses);
        for resource in lost {
            world.cluster.delete_in_background(&world.xr(resource));
        }
        for _ in 0..60 {
            for resource in lost {
                world.service.reconcile_now(&operator(), resource.id()).await.unwrap();
            }
            for _ in 0..4 {
                world.let_time_pass().await;
                let recreated = xr_uids(&world, lost).difference(&original_uids).count();
                assert!(recreated <= ALLOWANCE, "{recreated} of {losses} lost ones were recreated");
            }
            let deregistered = count_deregistered(&world, &resources);
            assert!(
                deregistered <= ALLOWANCE,
                "{deregistered} of {losses} lost machines were deregistered"
            );
            assert!(permits_taken(&world) <= ALLOWANCE, "{losses} were lost");
        }
        let expected = losses.min(ALLOWANCE);
        assert_eq!(permits_taken(&world), expected, "{losses} were lost");
        // A refused permit makes a replica count the losses, and a count above the limit brakes.
        let braked = !active_brakes(&world).await.is_empty();
        assert_eq!(braked, losses > ALLOWANCE * 2, "{losses} were lost");
        let ready = count_in_phase(&world, &resources, Phase::Ready).await;
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
    delete_xrs(&world, &resources);
    background(world.runner(), async {
        for round in 1..=2 {
            for _ in 0..240 {
                world.let_time_pass().await;
            }
            let active = active_brakes(&world).await;
            assert_eq!(active.len(), 1, "loss {round} sets the brake");
            let cluster = resources[0].substrate().cluster().unwrap();
            let service = &world.service;
            let released = service.release_brake(&operator(), cluster, active[0].project).await;
            assert!(!released.unwrap().absent.is_empty(), "loss {round}");
            for _ in 0..480 {
                world.let_time_pass().await;
            }
            let ready = count_in_phase(&world, &resources, Phase::Ready).await;
            assert_eq!(ready, resources.len(), "after loss {round}");
            assert_eq!(active_brakes(&world).await, [], "accepted losses set no brake");
            if round == 1 {
                delete_xrs(&world, &resources);
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
    let ids = ids_of(&resources);
    for id in &ids {
        world.cluster.behave_for(*id, Behaviour::failing_after(0, "the function is broken"));
    }
    world.cluster.tick();
    for _ in 0..3 {
        world.round_of(&ids).await;
    }
    let failed = resources.len() - count_in_phase(&world, &resources, Phase::Ready).await;
    assert_eq!(failed, permits_taken(&world));
    assert!((9..=10).contains(&failed), "{failed}: 1 % of the resources that are still Ready");
}

#[tokio::test]
async fn two_losses_of_one_resource_need_two_permits() {
    let world = World::new();
    let resource = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    for losses in 1..=7 {
        delete_xrs(&world, std::slice::from_ref(&resource));
        for _ in 0..8 {
            world.round(resource.id()).await.unwrap();
        }
        assert_eq!(permits_taken(&world), losses.min(ALLOWANCE));
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
    delete_xrs(&world, &resources);
    let (_, report) = world.sweep().await;
    assert_eq!((report.missing, report.brakes), (8, vec![]));
    let epoch = world.store.entry(resources[0].id()).await.unwrap().unwrap().epoch;
    let passed = world.reconciler.reconcile(resources[0].id()).await.unwrap();
    assert!(matches!(passed, PassResult::Completed { to: Phase::Pending, .. }), "{passed:?}");
    let entry = world.store.entry(resources[0].id()).await.unwrap().unwrap();
    assert_eq!((entry.epoch, entry.lease), (epoch, None));
}

/// Stops Crossplane, and sets conditions in its name.
fn set_conditions(
    world: &World,
    resources: &[ProvisionedResource],
    conditions: &serde_json::Value,
) {
    world.cluster.stop(Part::Crossplane);
    for resource in resources {
        let status = json!({"status": {"conditions": conditions}});
        world.cluster.patch_as("crossplane", &world.xr(resource), &status);
    }
}

/// A function that first withdraws Ready and then declares the failure.
#[tokio::test]
async fn failures_after_leaving_ready_stay_within_the_allowance() {
    let world = World::new();
    let resources = fleet(&world, 12, &declaration(STANDALONE)).await;
    let ids = ids_of(&resources);
    let unready = json!({"type": "Ready", "status": "False", "reason": "Creating"});
    let failed = json!({"type": "ProvisioningFailed", "status": "True", "message": "broken"});
    set_conditions(&world, &resources, &json!([unready.clone()]));
    world.round_of(&ids).await;
    assert_eq!(
        count_in_phase(&world, &resources, Phase::Provisioning).await,
        12,
        "they left Ready"
    );
    set_conditions(&world, &resources, &json!([unready, failed]));
    for _ in 0..3 {
        world.round_of(&ids).await;
    }
    let failed = count_in_phase(&world, &resources, Phase::Failed).await;
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

/// A retry ends a failure. The next failure of that composite resource is another loss.
#[tokio::test]
async fn failures_after_retries_need_permits_again() {
    let world = World::new();
    let resources = fleet(&world, 12, &declaration(STANDALONE)).await;
    let ids = ids_of(&resources);
    // A few fail at a time, within the allowance, and are retried.
    for batch in resources.chunks(4) {
        declare_failure(&world, batch, true);
        world.round_of(&ids).await;
        assert_eq!(count_in_phase(&world, batch, Phase::Failed).await, batch.len());
        declare_failure(&world, batch, false);
        for resource in batch {
            world.service.retry(&operator(), resource.id()).await.unwrap();
            world.until(resource.id(), Phase::Ready).await;
            let refused = world.service.retry(&operator(), resource.id()).await.unwrap_err();
            assert_eq!(refused.reason(), "illegal_transition");
        }
        world.clock.advance(Duration::from_hours(24));
    }
    assert_eq!(count_in_phase(&world, &resources, Phase::Ready).await, 12);
    assert_eq!(count_audited(&world, AuditAction::RetryRequested), 12);
    declare_failure(&world, &resources, true);
    world.round_of(&ids).await;
    let failed = count_in_phase(&world, &resources, Phase::Failed).await;
    assert!(failed <= ALLOWANCE, "{failed} of 12 that were Ready were failed at once");
}

/// Objects come back when the API server's store is restored, and are lost again later.
#[tokio::test]
async fn restored_losses_count_when_lost_again() {
    let world = World::new();
    let resources = fleet(&world, 12, &declaration(NODE)).await;
    let ids = ids_of(&resources);
    let restore = world.cluster.back_up();
    delete_xrs(&world, &resources);
    assert_eq!(world.sweep().await.1.brakes.len(), 1);
    let cluster = resources[0].substrate().cluster().unwrap();
    let brake = active_brakes(&world).await[0].project;
    let accepted = world.service.release_brake(&operator(), cluster, brake).await.unwrap();
    assert_eq!(accepted.absent.len(), 12);
    restore();
    for _ in 0..6 {
        world.round_of(&ids).await;
    }
    assert_eq!(count_in_phase(&world, &resources, Phase::Ready).await, 12);
    assert_eq!(count_deregistered(&world, &resources), 0, "the objects are back");
    world.clock.advance(Duration::from_hours(24 * 30));

    delete_xrs(&world, &resources);
    let brake_count = world.sweep().await.1.brakes.len();
    for _ in 0..6 {
        world.round_of(&ids).await;
    }
    let deregistered = count_deregistered(&world, &resources);
    assert!(
        deregistered <= ALLOWANCE,
        "{deregistered} Nodes of 12 were deregistered, under {brake_count} brakes"
    );
    assert_eq!(brake_count, 1, "another mass loss sets the brake");
}

/// A permit is charged when it is taken; its effect happens when the API server accepts the
/// request.
#[tokio::test]
async fn accumulated_permits_are_used_within_the_allowance() {
    let world = World::new();
    let resources = fleet(&world, 120, &declaration(NODE)).await;
    // A tenth of the fleet: no sweep sets a brake for it.
    let (lost, _) = resources.split_at(12);
    delete_xrs(&world, lost);
    world.cluster.deny("Machine", "no more machines today");
    for _ in 0..3 {
        for resource in lost {
            let _ = world.reconciler.reconcile(resource.id()).await;
        }
        assert_eq!(world.sweep().await.1.brakes, []);
        world.clock.advance(Duration::from_mins(11));
    }
    assert_eq!(count_deregistered(&world, lost), 0);
    world.cluster.stop_denying("Machine");
    for resource in lost {
        let _ = world.reconciler.reconcile(resource.id()).await;
    }
    let deregistered = count_deregistered(&world, lost);
    assert!(deregistered <= ALLOWANCE, "{deregistered} Nodes were deregistered in the same moment");
}

/// A kind that the broker may not read does not block the release of a Project's brake.
#[tokio::test]
async fn forbidden_kind_does_not_block_a_projects_release() {
    let world = World::new();
    let other: ProjectId = id(9);
    world.add_project(other, id(0x92));
    let foreign = Declaration::new(other, id(0x92), id(STANDALONE), id(4));
    fleet(&world, 1, &foreign).await;
    world.declare_until(Phase::Ready, &declaration(NODE)).await;
    delete_xrs(&world, &[world.declare_until(Phase::Ready, &declaration(STANDALONE)).await]);
    let cluster = world.service.set_brake(&operator(), Some(other)).await.unwrap();
    world.cluster.forbid(Verb::Get, "Machine");
    let released = world.service.release_brake(&operator(), &cluster, Some(other)).await;
    assert!(released.is_ok(), "{}", broker_app::one_line(&released.unwrap_err()));
    assert_eq!(released.unwrap(), BrakeLosses::default(), "nothing of other Projects is read");
    assert_eq!(active_brakes(&world).await, []);
}

/// A release clears the brake. It names unreadable objects and does not accept them as lost.
#[tokio::test]
async fn release_names_unreadable_objects_and_accepts_the_rest() {
    let world = World::new();
    let lost = fleet(&world, 2, &declaration(STANDALONE)).await;
    let unreadable = fleet(&world, 1, &declaration(NODE)).await;
    let corrupt = world.declare(&declaration(STANDALONE)).await.unwrap();
    let (absent, _) = lost.split_at(1);
    delete_xrs(&world, absent);
    delete_xrs(&world, &unreadable);
    let cluster = world.service.set_brake(&operator(), None).await.unwrap();
    world.cluster.forbid(Verb::Get, "Machine");
    assert!(world.store.corrupt(corrupt.id()));
    let released = world.service.release_brake(&operator(), &cluster, None).await.unwrap();
    let accepted: Vec<_> = released.absent.iter().map(|absence| absence.resource).collect();
    assert_eq!(accepted, [absent[0].id()]);
    let unread: Vec<_> = released.unread.iter().map(|unread| unread.resource).collect();
    assert_eq!(unread, [unreadable[0].id(), corrupt.id()], "{:?}", released.unread);
    assert_eq!(world.store.accepted_losses(&cluster).await.unwrap().len(), 1);
    assert_eq!(active_brakes(&world).await, []);

    world.service.set_brake(&operator(), None).await.unwrap();
    let plan = FaultPlan::none().from_call(PortName::Cluster, "read", 1, Fault::BeforeEffect);
    let service = world.service_with(plan);
    let failed = service.release_brake(&operator(), &cluster, None).await.unwrap_err();
    assert_eq!(failed.reason(), "cluster_transient");
    assert_eq!(
        active_brakes(&world).await.len(),
        1,
        "a failed read of the cluster prevents the release"
    );
}

/// No pass recreates objects for a Project on another cluster.
#[tokio::test]
async fn losses_of_projects_that_moved_away_set_no_brake() {
    let world = World::new();
    let resources = fleet(&world, 8, &declaration(STANDALONE)).await;
    let namespace_name = namespace(broker_tests::world::project()).as_str().to_owned();
    let elsewhere = broker_domain::ClusterId::new("elsewhere").unwrap();
    let moved = NamespaceObservation::new(namespace_name, true).on_cluster(elsewhere);
    world.platform.place(broker_tests::world::project(), moved);
    delete_xrs(&world, &resources);
    let error = world.round(resources[0].id()).await.unwrap_err();
    assert_eq!(error.reason(), "cluster_mismatch");
    assert_eq!(world.sweep().await.1.brakes, []);
}

/// The release commits while the sweep directly reads the missing objects.
#[tokio::test(start_paused = true)]
async fn release_during_a_sweep_leaves_no_brake() {
    let mut world = World::new();
    let resources = fleet(&world, 8, &declaration(STANDALONE)).await;
    delete_xrs(&world, &resources);
    let second = Duration::from_secs(1);
    let slow_read = Fault::Delay { by: 2 * second, late: LateArrival::Completes };
    let faults = Faults::new(FaultPlan::none().on(PortName::Cluster, "read", 1, slow_read));
    world.rewire(|ports| ports.cluster = faults.wrap::<dyn Cluster>(Arc::clone(&ports.cluster)));
    let cluster = resources[0].substrate().cluster().unwrap();
    let project = Some(broker_tests::world::project());
    let release = async {
        tokio::time::sleep(second).await;
        world.service.release_brake(&operator(), cluster, project).await.unwrap()
    };
    let ((_, report), accepted) = tokio::join!(world.sweep(), release);
    assert_eq!(accepted.absent.len(), 8);
    assert_eq!(faults.log().entries().len(), 1, "the sweep reads the objects before it decides");
    assert_eq!((report.brakes, active_brakes(&world).await), (vec![], vec![]));
}
