//! Orphans: late objects of a Deleted resource, and objects without any resource.

use std::time::Duration;

use broker_app::{OrphanState, SweepReport};
use broker_domain::{ObjectReference, Phase, ProvisionedResource};
use broker_memory::Verb;
use broker_ports::{AuditAction, AuditRecord, PortName};
use broker_testkit::builders::id;
use broker_testkit::faults::{Fault, FaultPlan, LateArrival};
use broker_tests::world::{NODE, STANDALONE, World, background, declaration, operator, project};
use serde_json::json;
use tokio::time::timeout;

const HANGS: Fault = Fault::Delay { by: Duration::from_hours(1), late: LateArrival::Completes };

/// Cuts off a pass with a request in flight, and deletes the resource before the request arrives.
async fn delete_with_a_request_in_flight(world: &World) -> ProvisionedResource {
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    timeout(Duration::from_secs(1), world.reconciler.reconcile(declared.id())).await.unwrap_err();
    assert_eq!(world.faults.pending_requests(), 1, "{}", world.faults.log());
    world.expire_leases();
    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    world.until(declared.id(), Phase::Deleted).await
}

/// The number of each apply in a first pass, and its kind.
const APPLIES: [(u64, &str); 2] = [(1, "ProviderConfig"), (2, "Machine")];

fn world_with_a_late_apply(nth: u64) -> World {
    World::with_faults(FaultPlan::none().on(PortName::Cluster, "apply", nth, HANGS))
}

fn orphan_states(report: &SweepReport) -> Vec<(&str, OrphanState)> {
    report.orphans.iter().map(|orphan| (orphan.reference.kind(), orphan.state)).collect()
}

/// Creates an object with the broker's label.
fn create_as_another_party(world: &World, like: &ObjectReference, name: &str) -> ObjectReference {
    let (api_version, kind) = (like.api_version(), like.kind());
    let object = ObjectReference::new(api_version, kind, name, like.namespace()).unwrap();
    let labels = json!({"app.kubernetes.io/managed-by": "plexsphere-provisioning-broker"});
    world.cluster.create_as("another-party", &object, &json!({"metadata": {"labels": labels}}));
    assert!(world.cluster.exists(&object));
    object
}

#[tokio::test(start_paused = true)]
async fn late_shell_is_removed_by_the_next_sweep() {
    for (nth, kind) in APPLIES {
        let world = world_with_a_late_apply(nth);
        let deleted = delete_with_a_request_in_flight(&world).await;
        assert_eq!(world.faults.complete_pending().await, 1);
        let existing: Vec<_> =
            world.existing_objects().iter().map(|object| object.kind().to_owned()).collect();
        assert_eq!(existing, [kind], "the late object exists");

        let (work, report) = world.sweep().await;
        assert_eq!((work.len(), orphan_states(&report)), (0, vec![(kind, OrphanState::Deleting)]));
        world.cluster.settle(5);
        assert_eq!(world.existing_objects(), []);
        let trail = world.store.audit_trail();
        let removal = trail.last().unwrap();
        assert_eq!(removal.entry.action, AuditAction::SubstrateDelete);
        assert_eq!(removal.entry.resource, Some(deleted.id()));

        let (_, report) = world.sweep().await;
        assert_eq!(report.orphans, []);
        assert_eq!(world.get(deleted.id()).await, deleted, "the row stays as it was");
    }
}

/// The credential is withdrawn: the removal of a late object does not need it.
#[tokio::test(start_paused = true)]
async fn late_object_is_removed_at_once_on_a_hint() {
    for (nth, kind) in APPLIES {
        let world = world_with_a_late_apply(nth);
        let deleted = delete_with_a_request_in_flight(&world).await;
        world.platform.withdraw(project(), id(4));
        background(world.runner(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(world.faults.complete_pending().await, 1);
            // Long before the next sweep.
            for _ in 0..8 {
                world.let_time_pass().await;
            }
            assert_eq!(world.existing_objects(), [], "{kind}");
        })
        .await;
        assert_eq!(world.get(deleted.id()).await, deleted, "the row stays as it was");
    }
}

#[tokio::test(start_paused = true)]
async fn orphaned_provider_config_is_removed_when_unneeded() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    let xr = world.xr(&ready);
    let config = ready.substrate().provider_config().unwrap().clone();
    let composed = ready.substrate().composed().first().unwrap().clone();
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let deleted = world.until(ready.id(), Phase::Deleted).await;

    create_as_another_party(&world, &xr, deleted.xr_name().as_str());
    create_as_another_party(&world, &config, deleted.xr_name().as_str());
    world.cluster.add_finalizer(&xr, "example.org/held");
    let label = json!({"crossplane.io/composite": deleted.xr_name().as_str()});
    world.cluster.create_as("Crossplane", &composed, &json!({"metadata": {"labels": label}}));

    let both = vec![("Bucket", OrphanState::Deleting), ("ProviderConfig", OrphanState::Deferred)];
    for _ in 0..2 {
        let (_, report) = world.sweep().await;
        assert_eq!(orphan_states(&report), both, "the composite resource is deleted first");
    }
    let deletions = world.cluster.requests(Verb::Delete);
    let (_, report) = world.sweep().await;
    assert_eq!(orphan_states(&report), both);
    assert_eq!(world.cluster.requests(Verb::Delete), deletions, "no second deletion");

    world.cluster.remove_finalizer(&xr, "example.org/held");
    world.cluster.settle(5);
    assert!(!world.cluster.exists(&xr));
    let (_, report) = world.sweep().await;
    assert_eq!(
        orphan_states(&report),
        [("ProviderConfig", OrphanState::Deferred)],
        "a composed object is left"
    );
    world.cluster.delete_in_background(&composed);
    let (_, report) = world.sweep().await;
    assert_eq!(orphan_states(&report), [("ProviderConfig", OrphanState::Deleting)]);
    world.cluster.settle(5);
    assert_eq!(world.existing_objects(), []);

    let orphan_correlation = |line: &AuditRecord| {
        let correlation = line.entry.attribution.correlation_id.as_str();
        correlation.starts_with("orphan:").then(|| correlation.to_owned())
    };
    let trail = world.store.audit_trail();
    let correlations: Vec<_> = trail.iter().filter_map(orphan_correlation).collect();
    assert_eq!(correlations.len(), 2, "one line for each object");
    assert_ne!(correlations[0], correlations[1]);
}

#[tokio::test]
async fn abandoned_resource_keeps_its_xr_and_its_node() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(NODE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    world.service.abandon(&operator(), ready.id(), "the cloud is deleted").await.unwrap();
    let (existing, writes) = (world.existing_objects(), world.cluster.writes());
    for _ in 0..3 {
        let (work, report) = world.sweep().await;
        assert_eq!(work, []);
        let expected =
            [("Machine", OrphanState::Abandoned), ("ProviderConfig", OrphanState::Abandoned)];
        let mut found = orphan_states(&report);
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    assert_eq!((world.existing_objects(), world.cluster.writes()), (existing, writes));
    let node = world.mesh.consumer(ready.bootstrap_token_id().unwrap()).unwrap();
    assert!(!node.deregistered);
}

#[tokio::test]
async fn unlistable_kind_hides_no_other_orphan() {
    let world = World::new();
    let ready = world.declare_until(Phase::Ready, &declaration(STANDALONE)).await;
    world.service.deprovision(&operator(), ready.id()).await.unwrap();
    let deleted = world.until(ready.id(), Phase::Deleted).await;
    world.declare_until(Phase::Ready, &declaration(NODE)).await;
    create_as_another_party(&world, &world.xr(&deleted), deleted.xr_name().as_str());
    world.cluster.forbid(Verb::List, "ProviderConfig");
    let (_, report) = world.sweep().await;
    let unlisted: Vec<_> = report.unlisted_kinds.keys().collect();
    assert_eq!(unlisted, ["ProviderConfig (hetzner.crossplane.io/v1beta1)"]);
    assert_eq!(orphan_states(&report), [("Bucket", OrphanState::Deleting)]);
}

#[tokio::test]
async fn sweep_whose_orphan_scan_fails_keeps_its_work() {
    let plan = FaultPlan::none().on(PortName::Repository, "list", 1, Fault::BeforeEffect);
    let world = World::with_faults(plan);
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    let (work, report) = world.sweep().await;
    let resources: Vec<_> = work.iter().map(|work| work.resource).collect();
    assert_eq!(resources, [declared.id()], "{report:?}");
    let unlisted: Vec<_> = report.unlisted_kinds.keys().map(String::as_str).collect();
    assert_eq!((report.complete, unlisted), (false, vec!["every kind"]), "{report:?}");

    let (_, report) = world.sweep().await;
    assert!(report.complete && report.unlisted_kinds.is_empty(), "{report:?}");
}
