//! When the world seems to have vanished because the API server's store was emptied, nothing is made again.

use broker_domain::{Phase, ProvisionedResource};
use broker_tests::cluster::AuditedRequest;
use broker_tests::real::RealWorld;
use broker_tests::world::{NODE, operator};
use broker_tests::{TestCluster, until};

/// More than the brake lets go.
const MANY: usize = 8;

/// What was ever sent for, and what stands of it: tokens issued, Nodes told to leave, objects applied.
async fn sent(world: &RealWorld) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM plexsphere.provisioned_resource_audit
        WHERE action IN ('token_issue', 'node_deregister', 'substrate_apply', 'substrate_delete')",
    )
    .fetch_one(world.pool())
    .await
    .unwrap()
}

/// With the world as it was, everything is found as it was, without a release, and work goes on.
async fn assert_goes_on(world: &RealWorld, rows: &[ProvisionedResource]) {
    world.let_leases_end().await;
    let runner = world.runner();
    // An API server that has just started again may refuse a list for a moment.
    until("the replica to be on its feet", || async {
        runner.boot().await.ok()?;
        runner.probe().check().ok()
    })
    .await;
    let ids: Vec<_> = rows.iter().map(ProvisionedResource::id).collect();
    world.assert_still(&ids).await;
    world.assert_all_sound(&ids).await;
    world.service.deprovision(&operator(), ids[0]).await.unwrap();
    world.until(ids[0], Phase::Deleted).await;
    let another = world.brought_to(Phase::Ready, &world.declaration(NODE)).await.id();
    world.assert_all_sound(&[ids[0], another]).await;
}

#[tokio::test]
async fn an_emptied_store_behind_the_same_address_makes_nothing_new() {
    let dedicated = TestCluster::dedicated().await;
    let world = RealWorld::alone(&dedicated).await;
    let mut rows = Vec::new();
    for _ in 0..MANY {
        rows.push(world.brought_to(Phase::Ready, &world.declaration(NODE)).await);
    }
    let before = sent(&world).await;
    dedicated.lose_everything().await;
    world.kinds.install(&dedicated).await;
    // The platform furnishes it again: the broker lacks no right, and still makes nothing.
    let _namespace = dedicated.namespace_named(&world.home()).await;
    world.kinds.broker(&dedicated, &world.user, &world.home()).await;
    let mark = dedicated.audit_log().mark();
    // The sweep of a new replica, and every pass, may fail as a whole.
    let _ = world.runner().boot().await;
    for row in &rows {
        let _ = world.reconciler.reconcile(row.id()).await;
    }
    let requests = dedicated.audit_log().since(mark, &world.user).await;
    assert!(!requests.is_empty() && !requests.iter().any(AuditedRequest::is_write), "{requests:?}");
    for row in &rows {
        let now = world.get(row.id()).await;
        assert_eq!((now.phase(), now.version()), (row.phase(), row.version()));
    }
    assert_eq!(sent(&world).await, before, "something was sent");
    assert_eq!(world.crossplane.standing().await, Vec::<String>::new());

    dedicated.restore_everything().await;
    assert_goes_on(&world, &rows).await;
}
