//! What a resource refers to, in tables that somebody changed underneath it.

use broker_app::explain::{Explanation, NextAttempt, Party, Verdict};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::proxy::{HttpAnswer, Request};
use broker_tests::real::{Adapters, PATIENCE, RealWorld};
use broker_tests::world::{NODE, SIZED, operator};
use http::StatusCode;
use uuid::Uuid;

use super::super::between::Between;
use super::{assert_goes_on, assert_told};

/// Puts another document into a column of a blueprint version, and gives the one that was there.
async fn rewrite(world: &RealWorld, blueprint: u128, edit: impl FnOnce(&str) -> String) -> String {
    let id = Uuid::from_u128(blueprint);
    let read = "SELECT convert_from(xrd, 'UTF8') FROM plexsphere.blueprint_versions WHERE id = $1";
    let before: String = sqlx::query_scalar(read).bind(id).fetch_one(world.pool()).await.unwrap();
    let write =
        "UPDATE plexsphere.blueprint_versions SET xrd = convert_to($2, 'UTF8') WHERE id = $1";
    let after = edit(&before);
    assert_ne!(after, before, "nothing was changed");
    sqlx::query(write).bind(id).bind(after).execute(world.pool()).await.unwrap();
    before
}

/// Explains as a replica does that has just started: a published version never changes, and whoever has read it
/// does not read it again.
async fn explain_anew(world: &RealWorld, id: ProvisionedResourceId) -> Explanation {
    let (adapters, _cache) = Adapters::over(world.pool(), world.broker.client.clone(), PATIENCE);
    let ports = adapters.of_service();
    let service = world.service_with(|mine| *mine = ports, |_| {});
    service.explain(&operator(), id).await.unwrap()
}

#[tokio::test]
async fn a_project_that_was_displaced_is_told() {
    let world = RealWorld::new().await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    let take = "DELETE FROM plexsphere.namespace_assignments WHERE project_id = $1";
    let give =
        "INSERT INTO plexsphere.namespace_assignments (project_id, namespace, namespace_phase)
        VALUES ($1, $2, 'Ready')";
    let project = world.project.as_uuid();
    sqlx::query(take).bind(project).execute(world.pool()).await.unwrap();
    let explained = world.explain(declared.id()).await;
    assert_told(&explained, Verdict::AssignmentMissing, Party::Platform, "restore_reference");

    sqlx::query(give).bind(project).bind(world.home()).execute(world.pool()).await.unwrap();
    assert_goes_on(&world.explain(declared.id()).await);
    world.until(declared.id(), Phase::Ready).await;
}

#[tokio::test]
async fn a_blueprint_that_became_nonsense_or_too_narrow_is_told() {
    let world = RealWorld::new().await;
    let ready = world.brought_to(Phase::Ready, &world.declaration(NODE)).await;
    let before = rewrite(&world, NODE, |_| "kind: Nonsense".to_owned()).await;
    let explained = explain_anew(&world, ready.id()).await;
    assert_told(&explained, Verdict::BlueprintUnreadable, Party::Platform, "mend_pass");
    rewrite(&world, NODE, |_| before).await;
    assert_goes_on(&explain_anew(&world, ready.id()).await);

    let declaration = world.declaration(SIZED).with_parameters(r#"{"size":"small"}"#);
    let sized = world.declare(&declaration).await.unwrap();
    let narrow = r#""size":{"enum":["large"],"type":"string"}"#;
    let before =
        rewrite(&world, SIZED, |xrd| xrd.replace(r#""size":{"type":"string"}"#, narrow)).await;
    let explained = explain_anew(&world, sized.id()).await;
    assert_told(&explained, Verdict::CannotRender, Party::Platform, "mend_pass");
    rewrite(&world, SIZED, |_| before).await;
    world.until(sized.id(), Phase::Ready).await;
    assert_goes_on(&explain_anew(&world, sized.id()).await);
}

#[tokio::test]
async fn a_retry_that_is_to_come_is_told() {
    let world = RealWorld::new().await;
    let declared = world.declare(&world.declaration(NODE)).await.unwrap();
    let between = Between::of(&world).await;
    let replica = between.reconciler(PATIENCE).await;
    let broken = HttpAnswer::failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "etcd");
    let reads = |request: &Request| request.verb == "GET" && request.target.contains("/machines");
    between.kubernetes.script().each(reads).before_answer().answer(broken);
    // Each failure doubles the time until the next attempt; explaining takes less than these.
    for _ in 0..8 {
        replica.reconcile(declared.id()).await.unwrap_err();
    }
    let explained = world.explain(declared.id()).await;
    assert_told(&explained, Verdict::RetryPending, Party::Nobody, "wait");
    assert!(matches!(explained.next_attempt, NextAttempt::At(_)), "{explained}");
    world.until(declared.id(), Phase::Ready).await;
}
