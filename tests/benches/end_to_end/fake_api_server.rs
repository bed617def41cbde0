//! An in-process API server for more objects than a test machine can hold. It serves paged lists and a
//! watch without events, and nothing else. It generates objects on request and stores none.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use broker_domain::ClusterId;
use broker_tests::real::{Machine, RealWorld};
use broker_tests::world::NODE;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{Request, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Response = http::Response<UnsyncBoxBody<Bytes, Infallible>>;

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(10);

const VERSION: &str = "1000000";

struct FakeApiServer {
    provider_group: String,
    cluster: ClusterId,
    machines: Vec<Machine>,
    /// The objects of the first machine, as templates: the objects of other machines differ only in their ids.
    composite: String,
    config: String,
    /// Requests so far, without watches.
    requests: Arc<AtomicUsize>,
}

/// A client of an API server that holds these machines and counts requests.
pub(crate) async fn client(
    world: &Arc<RealWorld>,
    machines: Vec<Machine>,
    requests: Arc<AtomicUsize>,
) -> Client {
    let server = Arc::new(FakeApiServer {
        provider_group: world.kinds.provider_group(),
        cluster: world.ports.cluster.identity().await.unwrap(),
        composite: composite(world, &machines[0]).to_string(),
        config: config(world, &machines[0]).to_string(),
        machines,
        requests,
    });
    let serve = move |request| ready(Ok::<_, Infallible>(server.serve(&request)));
    Client::new(tower::service_fn(serve), "default")
}

impl FakeApiServer {
    fn serve(&self, request: &Request<Body>) -> Response {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let is_watch = query.contains("watch=true");
        self.requests.fetch_add(usize::from(!is_watch), Ordering::Relaxed);
        let configs = format!("/apis/{}/v1beta1", self.provider_group);
        if path == "/api/v1/namespaces/kube-system" {
            return json_response(&json!({"metadata": {"uid": self.cluster.as_str()}}));
        }
        if path == configs {
            let resource =
                json!({"name": "providerconfigs", "kind": "ProviderConfig", "namespaced": true});
            return json_response(&json!({"groupVersion": "v1beta1", "resources": [resource]}));
        }
        let is_list = path.ends_with("/machines") || path.ends_with("/providerconfigs");
        if !is_list {
            let not_found =
                json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
            let mut response = json_response(&not_found);
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        }
        if is_watch { watch_response() } else { self.page(path, query) }
    }

    fn page(&self, path: &str, query: &str) -> Response {
        let number = |key: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).and_then(|(_, value)| value.parse().ok())
        };
        let from = number("continue").unwrap_or(0);
        let to = self.machines.len().min(from + number("limit").unwrap_or(usize::MAX / 2));
        let template = if path.ends_with("/machines") { &self.composite } else { &self.config };
        let objects = self.machines[from..to].iter().map(|machine| self.render(template, machine));
        let objects: Vec<_> = objects.collect();
        let mut metadata = json!({"resourceVersion": VERSION});
        if to < self.machines.len() {
            metadata["continue"] = json!(to.to_string());
        }
        let page = format!(r#"{{"metadata":{metadata},"items":[{}]}}"#, objects.join(","));
        Response::new(Full::from(page).boxed_unsync())
    }

    fn render(&self, template: &str, machine: &Machine) -> String {
        let first = &self.machines[0];
        let rendered = template.replace(&first.id.to_string(), &machine.id.to_string());
        rendered.replace(&first.token.to_string(), &machine.token.to_string())
    }
}

fn composite(world: &RealWorld, machine: &Machine) -> Value {
    let mut composite = world.composite_of(&world.kinds.xrd_of(NODE), machine);
    set_server_fields(&mut composite, machine);
    let condition = |kind: &str| json!({"type": kind, "status": "True", "observedGeneration": 1});
    composite["status"] = json!({"conditions": [condition("Synced"), condition("Ready")]});
    composite
}

fn config(world: &RealWorld, machine: &Machine) -> Value {
    let mut config = Value::Object(world.config_of(machine.id).as_object().clone());
    set_server_fields(&mut config, machine);
    config
}

/// Adds the fields that an API server sets on a stored object.
fn set_server_fields(object: &mut Value, machine: &Machine) {
    object["metadata"]["uid"] = machine.token.to_string().into();
    object["metadata"]["resourceVersion"] = VERSION.into();
    object["metadata"]["generation"] = 1.into();
}

fn json_response(document: &Value) -> Response {
    Response::new(Full::from(document.to_string()).boxed_unsync())
}

fn watch_response() -> Response {
    let bookmark =
        json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": VERSION}}});
    let line = Bytes::from(format!("{bookmark}\n"));
    let lines = stream::unfold((), move |()| {
        let line = line.clone();
        async move {
            tokio::time::sleep(BOOKMARK_INTERVAL).await;
            Some((Ok(Frame::data(line)), ()))
        }
    });
    Response::new(StreamBody::new(lines.boxed()).boxed_unsync())
}
