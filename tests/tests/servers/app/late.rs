//! Late and lost requests on a real API server.
//!
//! A worker is delayed in the middle of a request until its lease has long ended. It is unaware of
//! that, and continues when the request is released.

use broker_app::{Error, PassResult};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::proxy::{Held, HttpAnswer, Request};
use broker_tests::real::{RealWorld, TIMEOUT};
use broker_tests::world::{NODE, operator};
use http::StatusCode;
use tokio::task::JoinSet;

use super::between::Between;

/// How many sweeps remove an orphan: the composite resource first, then its ProviderConfig.
const SWEEPS: usize = 4;

fn is_apply(request: &Request, plural: &str) -> bool {
    request.verb == "PATCH" && request.target.contains(&format!("/{plural}/"))
}

fn hold_shell(between: &Between) -> Held {
    between.kubernetes.script().first(|it| is_apply(it, "machines")).before_forward().hold()
}

fn hold_arm(between: &Between) -> Held {
    between.kubernetes.script().nth(2, |it| is_apply(it, "machines")).before_forward().hold()
}

type Pass = JoinSet<Result<PassResult, Error>>;

/// A resource whose worker is held during its first pass. The lease has ended.
async fn held_up(
    world: &RealWorld,
    between: &Between,
    held: &mut Held,
) -> (ProvisionedResourceId, Pass) {
    let id = world.declare(&world.declaration(NODE)).await.unwrap().id();
    let worker = between.reconciler(TIMEOUT).await;
    let mut pass = JoinSet::new();
    pass.spawn(async move { worker.reconcile(id).await });
    held.reached().await;
    world.expire_leases().await;
    (id, pass)
}

/// Releases the request and waits for the worker, if it still runs.
async fn let_through(held: Held, mut pass: Pass) -> Result<PassResult, Error> {
    held.release();
    pass.join_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn late_shell_of_a_deleted_resource_is_removed_by_sweeps() {
    let world = RealWorld::new().await;
    let between = Between::of(&world).await;
    let mut held = hold_shell(&between);
    let (id, pass) = held_up(&world, &between, &mut held).await;
    world.service.deprovision(&operator(), id).await.unwrap();
    world.until(id, Phase::Deleted).await;
    assert!(world.crossplane.existing_objects().await.is_empty());

    let outcome = let_through(held, pass).await;
    assert!(outcome.is_err(), "it gets no token: {outcome:?}");
    let shell = world.crossplane.composite(id).await.expect("the shell has landed");
    world.turn().await;
    assert_eq!(world.crossplane.existing_objects().await.len(), 1, "it composes nothing");
    assert_eq!(world.crossplane.composite(id).await.unwrap().metadata.uid, shell.metadata.uid);

    let mut sweeps = 0;
    while !world.crossplane.existing_objects().await.is_empty() {
        assert!(sweeps < SWEEPS, "S9: {:?}", world.crossplane.existing_objects().await);
        world.sweep().await;
        world.turn().await;
        sweeps += 1;
    }
    world.assert_sound(id).await;
}

#[tokio::test]
async fn late_arm_of_a_deleted_resource_creates_nothing() {
    let world = RealWorld::new().await;
    let between = Between::of(&world).await;
    let mut held = hold_arm(&between);
    let (id, pass) = held_up(&world, &between, &mut held).await;
    world.service.deprovision(&operator(), id).await.unwrap();
    world.until(id, Phase::Deleted).await;
    let_through(held, pass).await.unwrap();
    assert_eq!(world.crossplane.existing_objects().await, Vec::<String>::new());
    world.assert_sound(id).await;
}

/// The ways in which a read can fail to be answered.
fn failed_answers() -> [(&'static str, HttpAnswer); 6] {
    let status = |code: u16| StatusCode::from_u16(code).unwrap();
    [
        ("forbidden", HttpAnswer::failure(status(403), "Forbidden", "no")),
        ("unauthorised", HttpAnswer::failure(status(401), "Unauthorized", "who?")),
        ("broken", HttpAnswer::failure(status(500), "InternalError", "etcd")),
        ("overloaded", HttpAnswer::failure(status(429), "TooManyRequests", "later")),
        ("not an object", HttpAnswer::ok("<html>welcome</html>")),
        ("half of it", HttpAnswer::servers().cut_after(20)),
    ]
}

#[tokio::test]
async fn unanswered_reads_create_and_delete_nothing() {
    let world = RealWorld::new().await;
    let ready = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    let leaving = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    let between = Between::of(&world).await;
    let worker = between.reconciler(TIMEOUT).await;
    world.service.deprovision(&operator(), leaving).await.unwrap();
    let standing = world.crossplane.existing_objects().await;
    let mark = world.cluster.audit_log().mark();
    for plural in ["machines", "providerconfigs", "parts", "namespaces"] {
        for (why, answer) in failed_answers() {
            let about = move |request: &Request| {
                request.verb == "GET" && request.target.contains(&format!("/{plural}"))
            };
            between.kubernetes.script().each(about).before_answer().answer(answer);
            for id in [ready, leaving] {
                let before = world.get(id).await.phase();
                let outcome = worker.reconcile(id).await;
                // A converging pass does not decide on composed objects, and does not read them.
                let is_read = plural != "parts" || id == leaving;
                assert_eq!(outcome.is_err(), is_read, "{plural} {why}: {outcome:?}");
                assert_eq!(world.get(id).await.phase(), before, "{plural} {why}");
            }
            between.kubernetes.script().clear();
        }
    }
    let asked = world.cluster.audit_log().since(mark, &world.user).await;
    let writes: Vec<_> = asked.iter().filter(|request| request.is_write()).collect();
    assert!(writes.is_empty(), "S8: {writes:?}");
    assert_eq!(world.crossplane.existing_objects().await, standing);

    // With answers, everything proceeds.
    world.until(leaving, Phase::Deleted).await;
    world.until(ready, Phase::Ready).await;
    for id in [ready, leaving] {
        world.assert_sound(id).await;
    }
}
