//! Every path of a resource's life, walked from end to end on real servers: those of the simulation.

use broker_app::Passed;
use broker_domain::{Action, MeshRole, OnFailure, Phase};
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::world::{NODE, SIZED, STANDALONE, operator};
use serde_json::json;

/// The phases on the way up, and the blueprints that come through them.
const WAYS_UP: [(u128, Phase); 7] = [
    (NODE, Phase::Pending),
    (NODE, Phase::Provisioning),
    (NODE, Phase::Enrolling),
    (NODE, Phase::Ready),
    (STANDALONE, Phase::Pending),
    (STANDALONE, Phase::Provisioning),
    (STANDALONE, Phase::Ready),
];

fn quota() -> Behaviour {
    Behaviour::Failing("quota exceeded".to_owned())
}

#[tokio::test]
async fn a_node_comes_up_and_enrols() {
    let world = RealWorld::new().await;
    let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    assert!(ready.bootstrap_token_id().is_some());
    assert!(ready.first_ready_at().is_some());
    assert_eq!(ready.substrate().composed().len(), 1);
    assert_eq!(world.crossplane.standing().await.len(), 3);

    let settled = world.round(ready.id()).await.unwrap();
    let stays = Passed::Through { action: Action::Noop, from: Phase::Ready, to: Phase::Ready };
    assert_eq!(settled, stays);
    assert_eq!(world.get(ready.id()).await.version(), ready.version(), "and writes nothing");
    world.assert_sound(ready.id()).await;
}

#[tokio::test]
async fn a_standalone_resource_comes_up_without_a_token() {
    let world = RealWorld::new().await;
    let ready = world.brought_to(Phase::Ready, &world.declaration(STANDALONE)).await;
    assert_eq!(ready.mesh_role(), MeshRole::Standalone);
    assert_eq!(ready.bootstrap_token_id(), None);
    let xr = world.crossplane.composite(ready.id()).await.unwrap();
    assert_eq!(xr.data.pointer("/spec/userData"), None);
    world.assert_sound(ready.id()).await;
}

#[tokio::test]
async fn required_parameters_are_kept_and_rendered() {
    let world = RealWorld::new().await;
    let refused = world.declare(&world.declaration(SIZED)).await.unwrap_err();
    assert_eq!(refused.reason(), "parameter_values_invalid");

    let sized = world.declaration(SIZED).with_parameters(r#"{"size": "large"}"#);
    let ready = world.brought_to(Phase::Ready, &sized).await;
    assert_eq!(ready.parameters().as_json(), r#"{"count":1,"size":"large"}"#);
    let xr = world.crossplane.composite(ready.id()).await.unwrap();
    assert_eq!(xr.data["spec"]["parameters"], json!({"count": 1, "size": "large"}));
}

#[tokio::test]
async fn a_namespace_that_is_not_ready_is_waited_for() {
    let world = RealWorld::new().await;
    world.place(false).await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    for _ in 0..3 {
        world.round(declared.id()).await.unwrap();
    }
    assert_eq!(world.get(declared.id()).await.phase(), Phase::Pending);
    assert!(world.crossplane.standing().await.is_empty());

    world.place(true).await;
    world.until(declared.id(), Phase::Ready).await;
    world.assert_sound(declared.id()).await;
}

#[tokio::test]
async fn a_terminal_failure_is_retained_and_can_be_deleted() {
    let world = RealWorld::new().await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    world.crossplane.behave_for(declared.id(), quota());
    let failed = world.until(declared.id(), Phase::Failed).await;
    let failure = failed.failure().unwrap();
    assert_eq!(
        (failure.reason().as_str(), failure.step()),
        ("quota exceeded", Phase::Provisioning)
    );
    assert_eq!(world.round(failed.id()).await.unwrap(), Passed::NotClaimed, "it is at rest");
    // Nor does it come back when somebody takes its composite resource away.
    world.crossplane.delete_by_hand(failed.id()).await;
    assert_eq!(world.round(failed.id()).await.unwrap(), Passed::NotClaimed);
    assert_eq!(world.get(failed.id()).await, failed);

    world.service.deprovision(&operator(), declared.id()).await.unwrap();
    let gone = world.until(declared.id(), Phase::Deleted).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), "quota exceeded", "it stays on the row");
    world.assert_sound(declared.id()).await;
}

#[tokio::test]
async fn a_terminal_failure_is_rolled_back() {
    let world = RealWorld::new().await;
    let declaration = world.declaration(NODE).on_failure(OnFailure::Rollback);
    let declared = world.declare(&declaration).await.unwrap();
    world.crossplane.behave_for(declared.id(), quota());
    world.until(declared.id(), Phase::Failed).await;
    let gone = world.until(declared.id(), Phase::Deleted).await;
    assert_eq!(gone.failure().unwrap().reason().as_str(), "quota exceeded");
    world.assert_sound(declared.id()).await;
}

#[tokio::test]
async fn deletion_leads_away_from_every_phase() {
    let world = RealWorld::new().await;
    for (blueprint, phase) in WAYS_UP {
        let resource = world.brought_to(phase, &world.declaration(blueprint)).await;
        world.service.deprovision(&operator(), resource.id()).await.unwrap();
        let gone = world.until(resource.id(), Phase::Deleted).await;
        assert!(gone.substrate().composed().is_empty(), "from {phase}");
        world.assert_sound(resource.id()).await;
    }
    assert_eq!(world.crossplane.standing().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_composite_resource_deleted_by_hand_is_made_again() {
    let world = RealWorld::new().await;
    for (blueprint, phase) in WAYS_UP {
        let resource = world.brought_to(phase, &world.declaration(blueprint)).await;
        let id = resource.id();
        if phase == Phase::Pending {
            // The first pass applies, and the row stays in Pending until that is observed.
            world.reconciler.reconcile(id).await.unwrap();
            assert_eq!(world.get(id).await.phase(), Phase::Pending);
        }
        let before = world.crossplane.composite(id).await.unwrap();
        world.crossplane.delete_by_hand(id).await;
        world.round(id).await.unwrap();
        world.until(id, Phase::Ready).await;
        let after = world.crossplane.composite(id).await.unwrap();
        assert_ne!(before.metadata.uid, after.metadata.uid, "in {phase}");
        world.assert_sound(id).await;
    }
}

#[tokio::test]
async fn a_composite_resource_deleted_by_hand_on_the_way_down_is_not_made_again() {
    let world = RealWorld::new().await;
    for phase in [Phase::Deregistering, Phase::Deprovisioning] {
        let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
        world.service.deprovision(&operator(), ready.id()).await.unwrap();
        world.crossplane.deletes.store(false, std::sync::atomic::Ordering::Relaxed);
        while world.get(ready.id()).await.phase() != phase {
            world.round(ready.id()).await.unwrap();
        }
        world.crossplane.deletes.store(true, std::sync::atomic::Ordering::Relaxed);
        world.crossplane.delete_by_hand(ready.id()).await;
        let log = world.cluster.audit_log();
        let mark = log.mark();
        world.until(ready.id(), Phase::Deleted).await;
        let requests = log.since(mark, &world.user).await;
        assert!(requests.iter().all(|request| request.verb != "patch"), "{phase}: {requests:?}");
        world.assert_sound(ready.id()).await;
    }
}

#[tokio::test]
async fn an_enrolled_node_is_replaced_by_a_new_one_with_a_new_token() {
    let world = RealWorld::new().await;
    let first = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    world.crossplane.delete_by_hand(first.id()).await;
    world.until(first.id(), Phase::Pending).await;
    let second = world.until(first.id(), Phase::Ready).await;
    assert_ne!(second.bootstrap_token_id(), first.bootstrap_token_id());
    assert_eq!(second.token_ordinal().get(), 2);
    let old = first.bootstrap_token_id().unwrap();
    assert!(!world.ports.nodes.node_registered(old).await.unwrap(), "the old Node left");
    assert_eq!(second.event_sequence(), first.event_sequence() + 1, "Ready was told again");
    world.assert_sound(first.id()).await;
}

#[tokio::test]
async fn a_lost_node_is_waited_for_and_gets_no_second_token() {
    let world = RealWorld::new().await;
    let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    world.ports.nodes.deregister(ready.bootstrap_token_id().unwrap()).await.unwrap();
    world.until(ready.id(), Phase::Enrolling).await;
    for _ in 0..3 {
        world.round(ready.id()).await.unwrap();
    }
    let still = world.get(ready.id()).await;
    assert_eq!(still.phase(), Phase::Enrolling);
    assert_eq!(still.bootstrap_token_id(), ready.bootstrap_token_id());
    world.assert_sound(ready.id()).await;
}

#[tokio::test]
async fn an_expired_token_is_not_replaced() {
    let world = RealWorld::new().await;
    let waiting = world.brought_to(Phase::Enrolling, &world.declaration(NODE)).await;
    world.let_tokens_expire().await;
    for _ in 0..3 {
        world.round(waiting.id()).await.unwrap();
    }
    let still = world.get(waiting.id()).await;
    assert_eq!(still.phase(), Phase::Enrolling);
    assert_eq!(still.bootstrap_token_id(), waiting.bootstrap_token_id());
    world.assert_sound(waiting.id()).await;
}

#[tokio::test]
async fn a_credential_that_was_not_assigned_does_not_exist() {
    let world = RealWorld::new().await;
    world.withdraw_credential().await;
    let refused = world.declare(&world.declaration(NODE)).await.unwrap_err();
    assert_eq!(refused.reason(), "credential_not_found");
    let (rows, refusals): (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM plexsphere.provisioned_resources),
            (SELECT count(*) FROM plexsphere.provisioned_resource_audit
             WHERE action = 'declaration_refused')",
    )
    .fetch_one(world.pool())
    .await
    .unwrap();
    assert_eq!((rows, refusals), (0, 1));
}
