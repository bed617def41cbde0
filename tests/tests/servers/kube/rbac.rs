//! The generated roles end at a Project's namespace. The port's contract shows that they grant only
//! what the adapter uses.

use broker_kube::Cause;
use broker_ports::{Cluster, DeleteRequest, FailureClass, XrReading};
use broker_render::Precondition;
use broker_tests::TestCluster;
use kube::api::ListParams;

use super::fixture::{Fixture, cause};
use super::world::api;

#[tokio::test]
async fn another_projects_namespace_cannot_be_written() {
    let ours = Fixture::alone(&TestCluster::shared().await).await;
    let other = Fixture::of(&ours.cluster, &ours.group).await;
    let cluster = &ours.port;
    let (stands, wanted) = (other.machine(), other.machine());
    let version = stands.start(&other.port).await;

    let shell = wanted.request(wanted.shell(), Precondition::Absent);
    let (why, error) = cause(cluster.apply(&shell).await);
    assert_eq!((why, error.class()), (Cause::Forbidden, FailureClass::Rejected), "{error:?}");
    let target = stands.reference();
    let delete = DeleteRequest::new(other.project, &target, &version.uid);
    let (why, error) = cause(cluster.delete(&delete).await);
    assert_eq!((why, error.class()), (Cause::Forbidden, FailureClass::Rejected), "{error:?}");
    // Reads are allowed: the orphan scan needs them.
    assert!(matches!(cluster.read(&stands.target()).await.unwrap().xr, XrReading::Present(_)));

    // Such a request is never sent, even for a Project that the adapter may write to.
    let astray = DeleteRequest::new(ours.project, &target, &version.uid);
    let error = cluster.delete(&astray).await.unwrap_err();
    assert!(error.to_string().contains("is not at home"), "{error}");
    let left = api(&other.admin, &target).list(&ListParams::default()).await.unwrap();
    let versions: Vec<_> = left.items.iter().map(|left| left.metadata.uid.as_ref()).collect();
    assert_eq!(versions, [Some(&version.uid)]);
}
