//! The generated roles end at a Project's own namespace. That they hold nothing that the adapter does not use is shown
//! with the port's contract.

use broker_kube::Cause;
use broker_kube::cache::CacheOptions;
use broker_ports::{Cluster, DeleteRequest, FailureClass, XrReading};
use broker_render::Precondition;
use broker_tests::TestCluster;
use kube::api::ListParams;

use super::adapter::adapter;
use super::cache::world::World;
use super::fixture::cause;

#[tokio::test]
async fn another_projects_namespace_cannot_be_written() {
    let world = World::alone(&TestCluster::shared().await).await;
    let (cluster, _) = adapter(&*world.broker, CacheOptions::default());
    let other = World::of(&world.cluster, &world.group).await;
    let (direct, _) = adapter(&*other.broker, CacheOptions::default());
    let (stands, wanted) = (other.resource(), other.resource());
    let version = stands.start(&direct).await;

    let shell = wanted.request(wanted.shell(), Precondition::Absent);
    let (why, error) = cause(cluster.apply(&shell).await);
    assert_eq!((why, error.class()), (Cause::Forbidden, FailureClass::Rejected), "{error:?}");
    let target = stands.reference();
    let delete = DeleteRequest::new(other.project, &target, &version.uid);
    let (why, error) = cause(cluster.delete(&delete).await);
    assert_eq!((why, error.class()), (Cause::Forbidden, FailureClass::Rejected), "{error:?}");
    // It may look, which is what finding orphans takes.
    assert!(matches!(cluster.read(&stands.target()).await.unwrap().xr, XrReading::Present(_)));

    // Not even for a Project that it may write for: such a request is never made.
    let astray = DeleteRequest::new(world.project, &target, &version.uid);
    let error = cluster.delete(&astray).await.unwrap_err();
    assert!(error.to_string().contains("is not at home"), "{error}");
    let left = other.machines().list(&ListParams::default()).await.unwrap();
    let versions: Vec<_> = left.items.iter().map(|left| left.metadata.uid.as_ref()).collect();
    assert_eq!(versions, [Some(&version.uid)]);
}
