//! The proxy of the Kubernetes API against the real server.

use std::time::Duration;

use broker_tests::{
    HttpProxy, TestCluster, TestNamespace,
    proxy::{HttpAnswer, Request},
};
use http::StatusCode;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Error,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};

use super::processes::{Killed, victim};

/// A proxy in front of a namespace, and the objects in it as seen through the proxy and past it.
struct World {
    namespace: TestNamespace,
    proxy: HttpProxy,
    through: Api<ConfigMap>,
    past: Api<ConfigMap>,
}

async fn world() -> World {
    let cluster = TestCluster::shared().await;
    let namespace = cluster.namespace().await;
    let proxy = HttpProxy::to(cluster.admin().await).await;
    let through = Api::namespaced(proxy.client().await, namespace.name());
    let past = Api::namespaced(cluster.admin().await, namespace.name());
    World { namespace, proxy, through, past }
}

impl World {
    async fn create(&self) -> Result<ConfigMap, Error> {
        let mut object = ConfigMap::default();
        object.metadata.name = Some("created".to_owned());
        self.through.create(&PostParams::default(), &object).await
    }

    async fn exists(&self) -> bool {
        self.past.get_opt("created").await.unwrap().is_some()
    }
}

fn is_create(request: &Request) -> bool {
    request.verb == "POST"
}

#[tokio::test]
async fn an_unscripted_proxy_only_counts() {
    let world = world().await;
    world.create().await.unwrap();
    world.through.get("created").await.unwrap();
    let seen = world.proxy.script().seen();
    let verbs: Vec<_> =
        seen.iter().map(|request| (request.number, request.verb.as_str())).collect();
    assert_eq!(verbs, [(1, "POST"), (2, "GET")]);
    assert!(seen[1].target.ends_with("/configmaps/created"), "{}", seen[1].target);
}

#[tokio::test]
async fn a_create_that_is_cut_before_it_is_forwarded_did_not_happen() {
    let world = world().await;
    world.proxy.script().first(is_create).before_forward().cut();
    assert!(!matches!(world.create().await, Ok(_) | Err(Error::Api(_))));
    assert!(!world.exists().await);
}

#[tokio::test]
async fn a_create_that_is_cut_before_its_answer_did_happen() {
    let world = world().await;
    world.proxy.script().first(is_create).before_answer().cut();
    assert!(!matches!(world.create().await, Ok(_) | Err(Error::Api(_))));
    assert!(world.exists().await);
    assert_eq!(world.proxy.script().seen().len(), 1, "the client asked again");
}

#[tokio::test]
async fn a_held_create_happens_when_it_is_released() {
    let world = world().await;
    let mut held = world.proxy.script().first(is_create).before_forward().hold();
    let creating = world.create();
    tokio::pin!(creating);
    tokio::select! {
        ended = &mut creating => panic!("it was not held: {ended:?}"),
        () = held.reached() => {}
    }
    assert!(!world.exists().await);
    held.release();
    creating.await.unwrap();
    assert!(world.exists().await);
}

#[tokio::test]
async fn a_delayed_create_is_otherwise_unharmed() {
    let world = world().await;
    world.proxy.script().first(is_create).before_forward().delay(Duration::from_millis(50));
    world.create().await.unwrap();
    assert!(world.exists().await);
}

#[tokio::test]
async fn a_canned_answer_comes_instead_of_the_servers() {
    let world = world().await;
    let busy = HttpAnswer::failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "slow down")
        .with_header("Retry-After", "1");
    world.proxy.script().request(1).before_forward().answer(busy);
    let refused = world.create().await.unwrap_err();
    let Error::Api(status) = refused else { panic!("not the canned answer: {refused:?}") };
    assert_eq!((status.code, status.message.as_str()), (429, "slow down"));
    assert!(!world.exists().await);

    let lost = HttpAnswer::status(StatusCode::GATEWAY_TIMEOUT);
    world.proxy.script().request(2).before_answer().answer(lost);
    world.create().await.unwrap_err();
    assert!(world.exists().await, "the server had been asked");
}

#[tokio::test]
async fn a_watch_is_passed_on_as_it_comes() {
    use futures::TryStreamExt;

    let world = world().await;
    let version =
        world.through.list(&ListParams::default()).await.unwrap().metadata.resource_version;
    let watch = world.through.watch(&WatchParams::default(), &version.unwrap()).await.unwrap();
    let mut watch = std::pin::pin!(watch);
    world.create().await.unwrap();
    loop {
        match watch.try_next().await.unwrap().expect("the watch ended") {
            WatchEvent::Added(object) if object.metadata.name.as_deref() == Some("created") => {
                break;
            }
            WatchEvent::Error(status) => panic!("{status:?}"),
            // Something else in the namespace, such as the root certificate's ConfigMap.
            WatchEvent::Added(_)
            | WatchEvent::Modified(_)
            | WatchEvent::Deleted(_)
            | WatchEvent::Bookmark(_) => {}
        }
    }
}

#[tokio::test]
async fn a_connection_can_be_reset_before_and_after_the_server_was_asked() {
    for after in [false, true] {
        let world = world().await;
        let rule = world.proxy.script().first(is_create);
        let at = if after { rule.before_answer() } else { rule.before_forward() };
        at.answer(HttpAnswer::reset());
        let error = world.create().await.unwrap_err();
        assert!(is_reset(&error), "{error:?}");
        assert_eq!(world.exists().await, after);
    }
}

fn is_reset(error: &Error) -> bool {
    let mut chain =
        std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |error| {
            error.source()
        });
    chain.any(|error| {
        let error = error.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    })
}

#[tokio::test]
async fn an_answer_can_stop_anywhere() {
    let rows = [
        ("half a body", HttpAnswer::servers().cut_after(40)),
        ("half a body, and nothing more", HttpAnswer::servers().stalled_after(40)),
        ("half a head, and nothing more", HttpAnswer::half_a_head()),
    ];
    for (why, answer) in rows {
        let world = world().await;
        world.proxy.script().first(is_create).before_answer().answer(answer);
        // What stalls, stalls for ever; a moment tells it from an answer.
        let created = tokio::time::timeout(Duration::from_millis(200), world.create()).await;
        assert!(!matches!(created, Ok(Ok(_) | Err(Error::Api(_)))), "{why}: {created:?}");
        assert!(world.exists().await, "{why}");
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_is_not_connected_to() {
    let world = world().await;
    world.create().await.unwrap();
    world.proxy.refuse().await;
    assert!(world.through.get("created").await.is_err());
    assert_eq!(world.proxy.script().seen().len(), 1, "it was connected to");
}

#[tokio::test]
async fn a_process_can_be_killed_before_its_request_and_before_its_answer() {
    for after in [false, true] {
        let world = world().await;
        let mut command = victim(&["create", &world.proxy.kubeconfig(), world.namespace.name()]);
        let mut client = Killed(command.spawn().unwrap());
        let rule = world.proxy.script().request(1);
        let at = if after { rule.before_answer() } else { rule.before_forward() };
        at.kill(client.0.id());

        let output = client.0.stdout.take().unwrap();
        let said = tokio::task::spawn_blocking(move || std::io::read_to_string(output).unwrap());
        assert_eq!(said.await.unwrap(), "", "it lived on");
        assert_eq!(world.exists().await, after);
    }
}
