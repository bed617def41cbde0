//! Memory of the watch cache per resource, for `cargo xtask bench`.
//!
//! `cache --list` prints the cases. `cache CASE` prints the allocated bytes per resource of a warm cache, minus those
//! of an empty cache. One resource is a composite resource and its ProviderConfig. The API server is a stub: paged
//! lists, and a watch that sends no event.

use std::alloc::System;
use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use broker_kube::cache::{Cache, CacheOptions, WarmKind};
use broker_ports::{CachedXr, ResourceIds, XrTarget};
use broker_render::Xrd;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PROJECT: &str = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10";

const CASES: [(&str, usize); 2] = [("1,000 resources", 1_000), ("10,000 resources", 10_000)];

fn main() {
    let argument = std::env::args().nth(1).unwrap_or_default();
    let case = CASES.iter().find(|(name, _)| *name == argument);
    match case {
        Some((_, count)) => {
            println!("{}", (warm_cache_bytes(*count) - warm_cache_bytes(0)).div_ceil(*count));
        }
        None => CASES.iter().for_each(|(name, _)| println!("{name}")),
    }
}

/// Bytes that stay allocated while a cache of `count` resources is warm.
fn warm_cache_bytes(count: usize) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let before = allocated();
        let xrd = Arc::new(xrd());
        let server = move |request| ready(Ok::<_, Infallible>(serve(&request, count)));
        let client = Client::new(tower::service_fn(server), "default");
        let cache = Cache::new(client, CacheOptions::default());
        let warm = async {
            while cache.warm(&xrd).is_none() || warm_configs(&cache).is_none() {
                tokio::task::yield_now().await;
            }
            let after = allocated();
            assert_complete(&cache, &xrd, count);
            after - before
        };
        tokio::select! {
            bytes = warm => bytes,
            () = cache.run(std::future::pending()) => unreachable!("the stop future never completes"),
        }
    })
}

fn warm_configs(cache: &Cache) -> Option<WarmKind> {
    cache.warm_provider_configs("example.org/v1beta1", "providerconfigs")
}

fn allocated() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// An incomplete cache would be measured too small.
fn assert_complete(cache: &Cache, xrd: &Arc<Xrd>, count: usize) {
    let warm = cache.warm(xrd).expect("the kind is warm");
    for number in 0..count {
        let resource = id(number).parse().expect("an id");
        let project = PROJECT.parse().expect("an id");
        let target = XrTarget::new(resource, project, Arc::clone(xrd));
        assert!(matches!(warm.observe(&target), CachedXr::Present { .. }), "{number} is missing");
    }
    let configs = warm_configs(cache).expect("the ProviderConfigs are warm");
    assert_eq!(
        configs.owned("example.org/v1beta1", "ProviderConfig", &ResourceIds::default()).len(),
        count
    );
}

fn serve(request: &Request<Body>, count: usize) -> Response<UnsyncBoxBody<Bytes, Infallible>> {
    if request.uri().path() == "/api/v1/namespaces/kube-system" {
        let kube_system = json!({"metadata": {"uid": id(0)}});
        return Response::new(Full::from(kube_system.to_string()).boxed_unsync());
    }
    let query = request.uri().query().unwrap_or_default();
    let number = |key: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).and_then(|(_, value)| value.parse().ok())
    };
    if query.contains("watch=true") {
        return Response::new(StreamBody::new(stream::pending()).boxed_unsync());
    }
    let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(count));
    let to = count.min(from + limit);
    let mut page = json!({
        "metadata": {"resourceVersion": "1000000"},
        "items": (from..to).map(object).collect::<Vec<_>>(),
    });
    if to < count {
        page["metadata"]["continue"] = json!(to.to_string());
    }
    Response::new(Full::from(page.to_string()).boxed_unsync())
}

fn id(number: usize) -> String {
    format!("0198a8e2-5d9f-7c31-8a4e-{number:012x}")
}

/// A settled composite resource. It also has every field that the cache reads of a ProviderConfig.
fn object(number: usize) -> Value {
    let labels = json!({"app.kubernetes.io/managed-by": "plexsphere-provisioning-broker"});
    let id = id(number);
    json!({
        "metadata": {
            "name": format!("pr-{id}"),
            "namespace": format!("plexsphere-project-{PROJECT}"),
            "uid": id,
            "resourceVersion": (1000 + number).to_string(),
            "generation": 4,
            "labels": labels,
            "annotations": {"plexsphere.io/armed": id},
            "managedFields": [{
                "manager": "plexsphere-provisioning-broker", "operation": "Apply",
                "fieldsV1": {"f:spec": {"f:parameters": {"f:size": {}}}},
            }],
        },
        "spec": {
            "parameters": {"size": "small"},
            "crossplane": {"resourceRefs": [
                {"apiVersion": "hcloud.crossplane.io/v1", "kind": "Server", "name": format!("pr-{id}-x7f")},
            ]},
        },
        "status": {"conditions": [
            {"type": "Synced", "status": "True", "observedGeneration": 4, "reason": "ReconcileSuccess"},
            {"type": "Ready", "status": "True", "observedGeneration": 4, "reason": "Available"},
        ]},
    })
}

fn xrd() -> Xrd {
    let document = json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "machines.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "Machine", "plural": "machines"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    Xrd::parse(document.to_string().as_bytes()).expect("a valid XRD")
}
