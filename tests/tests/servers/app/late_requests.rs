//! Late and lost requests on a real API server.
//!
//! A proxy holds a worker's request until its lease has ended. The worker does not notice, and continues
//! when the proxy releases the request.

use broker_app::{Error, PassResult};
use broker_domain::{Phase, ProvisionedResourceId};
use broker_tests::proxy::{HeldRequests, HttpResponse, Request};
use broker_tests::real::{RealWorld, TIMEOUT};
use broker_tests::world::{NODE, operator};
use http::StatusCode;
use tokio::task::JoinSet;

use super::server_proxies::ServerProxies;

/// The maximum number of sweeps that remove an orphan: first the composite resource, then its ProviderConfig.
const MAX_SWEEPS: usize = 4;

fn is_apply(request: &Request, plural: &str) -> bool {
    request.verb == "PATCH" && request.target.contains(&format!("/{plural}/"))
}

fn hold_shell(proxies: &ServerProxies) -> HeldRequests {
    proxies
        .kubernetes
        .script()
        .first(|request| is_apply(request, "machines"))
        .before_forward()
        .hold()
}

fn hold_arm(proxies: &ServerProxies) -> HeldRequests {
    proxies
        .kubernetes
        .script()
        .nth(2, |request| is_apply(request, "machines"))
        .before_forward()
        .hold()
}

type Pass = JoinSet<Result<PassResult, Error>>;

/// Starts the first pass over a resource, waits until its request is held, and ends the lease.
async fn start_held_pass(
    world: &RealWorld,
    proxies: &ServerProxies,
    held: &mut HeldRequests,
) -> (ProvisionedResourceId, Pass) {
    let id = world.declare(&world.declaration(NODE)).await.unwrap().id();
    let worker = proxies.reconciler(TIMEOUT).await;
    let mut pass = JoinSet::new();
    pass.spawn(async move { worker.reconcile(id).await });
    held.wait_until_held().await;
    world.expire_leases().await;
    (id, pass)
}

/// Releases the request and waits for the worker, if it still runs.
async fn release_and_join(held: HeldRequests, mut pass: Pass) -> Result<PassResult, Error> {
    held.release();
    pass.join_next().await.unwrap().unwrap()
}

#[tokio::test]
async fn late_shell_of_a_deleted_resource_is_removed_by_sweeps() {
    let world = RealWorld::new().await;
    let proxies = ServerProxies::start(&world).await;
    let mut held = hold_shell(&proxies);
    let (id, pass) = start_held_pass(&world, &proxies, &mut held).await;
    world.service.deprovision(&operator(), id).await.unwrap();
    world.until(id, Phase::Deleted).await;
    assert!(world.crossplane.existing_objects().await.is_empty());

    let outcome = release_and_join(held, pass).await;
    assert!(outcome.is_err(), "the worker gets no token: {outcome:?}");
    let shell = world.crossplane.composite(id).await.expect("the late shell exists");
    world.turn().await;
    assert_eq!(world.crossplane.existing_objects().await.len(), 1, "a shell composes nothing");
    assert_eq!(world.crossplane.composite(id).await.unwrap().metadata.uid, shell.metadata.uid);

    let mut sweeps = 0;
    while !world.crossplane.existing_objects().await.is_empty() {
        assert!(sweeps < MAX_SWEEPS, "S9: {:?}", world.crossplane.existing_objects().await);
        world.sweep().await;
        world.turn().await;
        sweeps += 1;
    }
    world.assert_invariants(id).await;
}

#[tokio::test]
async fn late_arm_of_a_deleted_resource_creates_nothing() {
    let world = RealWorld::new().await;
    let proxies = ServerProxies::start(&world).await;
    let mut held = hold_arm(&proxies);
    let (id, pass) = start_held_pass(&world, &proxies, &mut held).await;
    world.service.deprovision(&operator(), id).await.unwrap();
    world.until(id, Phase::Deleted).await;
    release_and_join(held, pass).await.unwrap();
    assert_eq!(world.crossplane.existing_objects().await, Vec::<String>::new());
    world.assert_invariants(id).await;
}

/// Responses that do not contain the requested object.
fn failed_responses() -> [(&'static str, HttpResponse); 6] {
    let status = |code: u16| StatusCode::from_u16(code).unwrap();
    [
        ("forbidden", HttpResponse::failure(status(403), "Forbidden", "no")),
        ("unauthorised", HttpResponse::failure(status(401), "Unauthorized", "who?")),
        ("broken", HttpResponse::failure(status(500), "InternalError", "etcd")),
        ("overloaded", HttpResponse::failure(status(429), "TooManyRequests", "later")),
        ("not an object", HttpResponse::ok("<html>welcome</html>")),
        ("half of it", HttpResponse::from_server().cut_after(20)),
    ]
}

#[tokio::test]
async fn failed_reads_create_and_delete_nothing() {
    let world = RealWorld::new().await;
    let ready = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    let deleting = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    let proxies = ServerProxies::start(&world).await;
    let worker = proxies.reconciler(TIMEOUT).await;
    world.service.deprovision(&operator(), deleting).await.unwrap();
    let existing = world.crossplane.existing_objects().await;
    let mark = world.cluster.audit_log().mark();
    for plural in ["machines", "providerconfigs", "parts", "namespaces"] {
        for (why, response) in failed_responses() {
            let is_read_of_kind = move |request: &Request| {
                request.verb == "GET" && request.target.contains(&format!("/{plural}"))
            };
            proxies.kubernetes.script().each(is_read_of_kind).before_response().respond(response);
            for id in [ready, deleting] {
                let before = world.get(id).await.phase();
                let outcome = worker.reconcile(id).await;
                // A converging pass does not decide on composed objects, and does not read them.
                let is_read = plural != "parts" || id == deleting;
                assert_eq!(outcome.is_err(), is_read, "{plural} {why}: {outcome:?}");
                assert_eq!(world.get(id).await.phase(), before, "{plural} {why}");
            }
            proxies.kubernetes.script().clear();
        }
    }
    let requests = world.cluster.audit_log().since(mark, &world.user).await;
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
    assert!(writes.is_empty(), "S8: {writes:?}");
    assert_eq!(world.crossplane.existing_objects().await, existing);

    // With proper responses, both resources continue.
    world.until(deleting, Phase::Deleted).await;
    world.until(ready, Phase::Ready).await;
    for id in [ready, deleting] {
        world.assert_invariants(id).await;
    }
}
