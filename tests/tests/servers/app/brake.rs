//! After a mass loss, the broker recreates nothing: after all labels were removed, and after the API
//! server's store was emptied.

use std::sync::Arc;

use broker_app::{Reconciler, Runner};
use broker_domain::{Phase, ProvisionedResource};
use broker_ports::Brake;
use broker_render::MANAGED_BY_LABEL;
use broker_tests::cluster::AuditedRequest;
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, operator};
use broker_tests::{TestCluster, until};
use serde_json::json;
use tokio::sync::watch;

/// The number of resources: losing them all sets a brake.
const MANY: usize = 8;

const BROKER: &str = "plexsphere-provisioning-broker";

async fn declare_many_ready(world: &RealWorld) -> Vec<ProvisionedResource> {
    let mut ready = Vec::new();
    for _ in 0..MANY {
        ready.push(world.declare_until(Phase::Ready, &world.declaration(NODE)).await);
    }
    ready
}

/// The number of tokens issued, Nodes deregistered and objects applied so far.
async fn action_count(world: &RealWorld) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM plexsphere.provisioned_resource_audit
        WHERE action IN ('token_issue', 'node_deregister', 'substrate_apply', 'substrate_delete')",
    )
    .fetch_one(world.pool())
    .await
    .unwrap()
}

/// Runs the boot sweep of a replica and one pass over each row. Returns the brakes that were set.
async fn boot_and_reconcile(
    runner: &Runner,
    reconciler: &Reconciler,
    rows: &[ProvisionedResource],
) -> Vec<Brake> {
    // A failed boot sweep sets no brake.
    let brakes = runner.boot().await.map_or_else(|_| Vec::new(), |(_, report)| report.brakes);
    for row in rows {
        let _ = reconciler.reconcile(row.id()).await;
    }
    brakes
}

async fn assert_untouched(world: &RealWorld, rows: &[ProvisionedResource]) {
    for row in rows {
        let now = world.get(row.id()).await;
        assert_eq!((now.phase(), now.version()), (row.phase(), row.version()));
    }
}

#[tokio::test]
async fn stripped_labels_recreate_nothing() {
    let world = RealWorld::with_exclusive_kinds(&TestCluster::shared().await).await;
    let rows = declare_many_ready(&world).await;
    let before = action_count(&world).await;
    for row in &rows {
        let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: null}}});
        world.crossplane.patch(row.id(), strip).await;
    }
    let brakes = boot_and_reconcile(&world.runner(), &world.reconciler, &rows).await;
    let held: Vec<_> = brakes.iter().map(|brake| (brake.project, brake.absent)).collect();
    assert_eq!(held, [(Some(world.project), 8)]);
    assert_untouched(&world, &rows).await;
    assert_eq!(action_count(&world).await, before, "a request was sent");

    for row in &rows {
        let label = json!({"metadata": {"labels": {MANAGED_BY_LABEL: BROKER}}});
        world.crossplane.patch(row.id(), label).await;
    }
    assert_recreates_after_release(&world, &rows[0]).await;
}

/// After an audited release, a lost resource is recreated.
async fn assert_recreates_after_release(world: &RealWorld, row: &ProvisionedResource) {
    let cluster = row.substrate().cluster().unwrap().clone();
    let released = world.service.release_brake(&operator(), &cluster, Some(row.project_id())).await;
    released.unwrap();
    let runner = world.runner();
    runner.boot().await.unwrap();
    assert_eq!(runner.probe().check(), Ok(()));
    world.crossplane.delete_by_hand(row.id()).await;
    world.round(row.id()).await.unwrap();
    world.until(row.id(), Phase::Ready).await;
    world.assert_invariants(row.id()).await;
}

/// In the restored world, convergence and teardown work without a release.
async fn assert_works_without_release(world: &RealWorld, rows: &[ProvisionedResource]) {
    world.expire_leases().await;
    let runner = world.runner();
    // A restarted API server may refuse a list for a moment.
    until("the replica to be ready", || async {
        runner.boot().await.ok()?;
        runner.probe().check().ok()
    })
    .await;
    let ids: Vec<_> = rows.iter().map(ProvisionedResource::id).collect();
    world.assert_no_work(&ids).await;
    world.assert_all_invariants(&ids).await;
    world.service.deprovision(&operator(), ids[0]).await.unwrap();
    world.until(ids[0], Phase::Deleted).await;
    let another = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    world.assert_all_invariants(&[ids[0], another]).await;
}

#[tokio::test]
async fn emptied_api_server_store_recreates_nothing() {
    let dedicated = TestCluster::dedicated().await;
    let world = RealWorld::with_exclusive_kinds(&dedicated).await;
    let rows = declare_many_ready(&world).await;
    let before = action_count(&world).await;
    dedicated.empty_store().await;
    world.kinds.install(&dedicated).await;
    // With the platform's fixtures restored, the broker has all rights and still creates nothing.
    let _namespace = dedicated.namespace_named(&world.namespace()).await;
    world.kinds.broker(&dedicated, &world.user, &world.namespace()).await;
    let mark = dedicated.audit_log().mark();
    boot_and_reconcile(&world.runner(), &world.reconciler, &rows).await;
    let requests = dedicated.audit_log().since(mark, &world.user).await;
    assert!(!requests.is_empty() && !requests.iter().any(AuditedRequest::is_write), "{requests:?}");
    assert_untouched(&world, &rows).await;
    assert_eq!(action_count(&world).await, before, "a request was sent");
    assert_eq!(world.crossplane.existing_objects().await, Vec::<String>::new());

    dedicated.undo_empty_store().await;
    assert_works_without_release(&world, &rows).await;
}

/// Three shipped runners with hints from real watches, long before their next sweep.
#[tokio::test]
async fn lost_fleet_under_shipped_runners_stays_within_the_allowance() {
    // The allowance is five permits. The sixth loss has to wait; the loss of all sets a brake.
    for lost in [1, 5, 6, 2 * MANY] {
        let world = Arc::new(RealWorld::with_exclusive_kinds(&TestCluster::shared().await).await);
        let mut rows = declare_many_ready(&world).await;
        rows.extend(declare_many_ready(&world).await);
        let (stop, stopped) = watch::channel(());
        let run = |replica: &str| {
            let (runner, mut stopped) = (world.runner_without_sweeps(replica), stopped.clone());
            async move { runner.run(async move { drop(stopped.changed().await) }).await.unwrap() }
        };
        let scenario = async {
            lose_and_wait(&world, &rows[..lost]).await;
            stop.send(()).unwrap();
        };
        tokio::join!(run("one"), run("two"), run("three"), scenario);
    }
}

/// Deletes composite resources and waits until the broker has recreated as many as its allowance permits.
async fn lose_and_wait(world: &Arc<RealWorld>, lost: &[ProvisionedResource]) {
    for row in lost {
        world.crossplane.delete_by_hand(row.id()).await;
    }
    let _simulation = world.keep_simulating();
    until("the losses to be repaired or braked", || async {
        let recreated = recreated_count(world, lost).await;
        let permits = audit_line_count(world, "permit_taken").await;
        for done in [recreated, permits, audit_line_count(world, "node_deregister").await] {
            assert!(done <= 5, "{done} of {} lost", lost.len());
        }
        let held = count_with_reason(world, "over_budget").await + brake_count(world).await;
        match lost.len() {
            few @ 0..=5 => (recreated == i64::try_from(few).unwrap()).then_some(()),
            6 => (recreated == 5 && held > 0).then_some(()),
            _ => (brake_count(world).await == 1).then_some(()),
        }
    })
    .await;
    if lost.len() > 6 {
        let cluster = lost[0].substrate().cluster().unwrap();
        world.service.release_brake(&operator(), cluster, Some(world.project)).await.unwrap();
        until("every accepted resource to be Ready", || async {
            let ready =
                "SELECT count(*) FROM plexsphere.provisioned_resources WHERE status = 'Ready'";
            let ready: i64 = sqlx::query_scalar(ready).fetch_one(world.pool()).await.unwrap();
            (ready == 2 * i64::try_from(MANY).unwrap()).then_some(())
        })
        .await;
    }
}

/// The number of these resources with a new composite resource, which is recorded before it is armed.
async fn recreated_count(world: &RealWorld, lost: &[ProvisionedResource]) -> i64 {
    let ids: Vec<_> = lost.iter().map(|row| row.id().as_uuid()).collect();
    let uids = lost.iter().map(|row| row.substrate().applied().unwrap().as_str().to_owned());
    let uids: Vec<_> = uids.collect();
    let changed = "SELECT count(*) FROM plexsphere.provisioned_resources AS r
        JOIN unnest($1::uuid[], $2::text[]) AS lost (id, uid) ON lost.id = r.id AND lost.uid <> r.xr_uid";
    sqlx::query_scalar(changed).bind(ids).bind(uids).fetch_one(world.pool()).await.unwrap()
}

async fn count_with_reason(world: &RealWorld, reason: &str) -> i64 {
    let waiting =
        "SELECT count(*) FROM plexsphere.provisioned_resource_schedule WHERE last_reason = $1";
    sqlx::query_scalar(waiting).bind(reason).fetch_one(world.pool()).await.unwrap()
}

async fn brake_count(world: &RealWorld) -> i64 {
    let brakes = "SELECT count(*) FROM plexsphere.provisioning_brake";
    sqlx::query_scalar(brakes).fetch_one(world.pool()).await.unwrap()
}

async fn audit_line_count(world: &RealWorld, action: &str) -> i64 {
    let lines = "SELECT count(*) FROM plexsphere.provisioned_resource_audit WHERE action = $1";
    sqlx::query_scalar(lines).bind(action).fetch_one(world.pool()).await.unwrap()
}
