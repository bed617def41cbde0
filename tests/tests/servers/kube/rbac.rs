//! The generated roles against what the adapter really asks for: nothing is missing, and nothing is given
//! that it does not use.

use std::sync::Arc;

use broker_domain::ObjectReference;
use broker_kube::cache::CacheOptions;
use broker_kube::{Cause, KubeCluster};
use broker_ports::{
    Cluster, DeleteRequest, Deleted, FailureClass, OwnedKinds, OwnedQuery, XrReading,
};
use broker_render::{Precondition, Scope, namespace};
use broker_tests::cluster::AuditedRequest;
use broker_tests::{TestCluster, until};
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::adapter::adapter;
use super::cache::world::{Resource, World, done, run, xrd_document};
use super::roles::used;

/// Two kinds of machines, one in namespaces and one in none. The broker of the first world has the roles for both.
struct Bound {
    machines: World,
    estates: World,
}

impl Bound {
    async fn new() -> Self {
        let cluster = TestCluster::shared().await;
        let machines = World::alone(&cluster).await;
        machines.install_neighbours().await;
        let estates = World::of(&cluster, &format!("c{}", machines.group), Scope::Cluster).await;
        machines.learn("estate", "any", &xrd_document(&estates.group, Scope::Cluster)).await;
        Self { machines, estates }
    }
}

/// An object that a resource composed, made by whoever composes.
async fn compose(world: &World, resource: &Resource) -> ObjectReference {
    let part = world.part();
    let kind = GroupVersionKind::gvk(&world.group, "v1", &part.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, "parts");
    let home = namespace(world.project);
    let parts = Api::<DynamicObject>::namespaced_with(world.admin.clone(), home.as_str(), &kind);
    let name = format!("{}-part", resource.name());
    let mut object = DynamicObject::new(&name, &kind);
    let composite = ("crossplane.io/composite".to_owned(), resource.name());
    object.metadata.labels = Some([composite].into());
    parts.create(&PostParams::default(), &object).await.unwrap();
    ObjectReference::new(part.api_version, part.kind, name, Some(home.as_str())).unwrap()
}

/// Everything that the port can be asked for, for one resource from nothing to nothing.
async fn live_and_die(cluster: &KubeCluster, world: &World, resource: &Resource) {
    let mut target = resource.target(&[]);
    if world.xrd.scope().is_namespaced() {
        target.composed_kinds = [world.part()].into();
        let config = resource.request(resource.provider_config(), Precondition::Absent);
        done(cluster.apply(&config).await);
    }
    let shell = resource.start(cluster).await;
    done(cluster.apply(&resource.request(resource.armed(), shell.unchanged())).await);
    if world.xrd.scope().is_namespaced() {
        target.recorded = [compose(world, resource).await].into();
    }
    let reading = cluster.read(&target).await.unwrap();
    assert!(matches!(reading.xr, XrReading::Present(_)));
    cluster.inspect(&target).await.unwrap().events.unwrap();
    cluster.observe_many(&[resource.xr_target()]).await.unwrap().remove(0).unwrap();
    let configs = vec![(format!("{}/v1beta1", world.group), "ProviderConfig".to_owned())];
    let kinds = OwnedKinds::new(vec![Arc::clone(&world.xrd)], configs);
    cluster.list_owned(&OwnedQuery::new(kinds)).await.unwrap();

    let project = resource.identity.project;
    let gone = |uid: String, target: ObjectReference| async move {
        let request = DeleteRequest::new(project, &target, &uid);
        assert_eq!(cluster.delete(&request).await.unwrap(), Deleted::Accepted);
    };
    gone(shell.uid, resource.reference()).await;
    if let Some(config) = reading.provider_config {
        gone(config.version().uid.clone(), target.provider_config.unwrap()).await;
    }
}

#[tokio::test]
async fn the_adapter_uses_every_right_that_it_is_given_and_no_other() {
    let bound = Bound::new().await;
    let (cluster, cache) = adapter(&*bound.machines.broker, CacheOptions::default());
    let log = bound.machines.cluster.audit_log();
    let mark = log.mark();
    let _running = run(&cache);
    for world in [&bound.machines, &bound.estates] {
        live_and_die(&cluster, world, &world.resource()).await;
        until("the kind to be warm", || async { cache.warm(&world.xrd).map(drop) }).await;
    }
    // Reading a ProviderConfig begins to follow its kind.
    let is_config_watch =
        |request: &AuditedRequest| request.verb == "watch" && request.resource == "providerconfigs";
    let requests = until("the ProviderConfigs to be watched", || async {
        let requests = log.since(mark, &bound.machines.broker.user).await;
        requests.iter().any(is_config_watch).then_some(requests)
    })
    .await;

    let used = used(&requests);
    assert_eq!(used, bound.machines.broker.granted());
    assert!(used.iter().all(|(_, resource, _)| resource != "secrets"));
}

#[tokio::test]
async fn another_projects_namespace_cannot_be_written() {
    let bound = Bound::new().await;
    let (cluster, _) = adapter(&*bound.machines.broker, CacheOptions::default());
    let other = World::of(&bound.machines.cluster, &bound.machines.group, Scope::Namespaced).await;
    let (direct, _) = adapter(&*other.broker, CacheOptions::default());
    let (stands, wanted) = (other.resource(), other.resource());
    let version = stands.start(&direct).await;

    let forbidden = |error: broker_ports::PortError| {
        let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
        assert_eq!(error.class(), FailureClass::Rejected, "{error:?}");
        assert_eq!(cause, Some(&Cause::Forbidden), "{error:?}");
    };
    let shell = wanted.request(wanted.shell(), Precondition::Absent);
    forbidden(cluster.apply(&shell).await.unwrap_err());
    let target = stands.reference();
    let delete = DeleteRequest::new(other.project, &target, &version.uid);
    forbidden(cluster.delete(&delete).await.unwrap_err());
    // It may look, which is what finding orphans takes.
    assert!(matches!(cluster.read(&stands.target(&[])).await.unwrap().xr, XrReading::Present(_)));

    // Not even for a Project that it may write for: such a request is never made.
    let astray = DeleteRequest::new(bound.machines.project, &target, &version.uid);
    let error = cluster.delete(&astray).await.unwrap_err();
    assert!(error.to_string().contains("is not at home"), "{error}");
    let left = other.machines().list(&ListParams::default()).await.unwrap();
    let versions: Vec<_> = left.items.iter().map(|left| left.metadata.uid.as_ref()).collect();
    assert_eq!(versions, [Some(&version.uid)]);
}
