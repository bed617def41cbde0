//! The generated roles grant writes only in the namespaces of Projects. The contract test checks that the
//! adapter uses every right.

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
    let (existing, absent) = (other.machine(), other.machine());
    let version = existing.start(&other.port).await;

    let shell = absent.request(absent.shell(), Precondition::Absent);
    let (why, error) = cause(cluster.apply(&shell).await);
    assert_eq!((why, error.class()), (Cause::Forbidden, FailureClass::Rejected), "{error:?}");
    let target = existing.reference();
    let delete = DeleteRequest::new(other.project, &target, &version.uid);
    let (why, error) = cause(cluster.delete(&delete).await);
    assert_eq!((why, error.class()), (Cause::Forbidden, FailureClass::Rejected), "{error:?}");
    // Reads are allowed: the orphan scan needs them.
    assert!(matches!(cluster.read(&existing.target()).await.unwrap().xr, XrReading::Present(_)));

    // The adapter itself refuses a request whose object is not in the namespace of the named Project.
    let misdirected = DeleteRequest::new(ours.project, &target, &version.uid);
    let error = cluster.delete(&misdirected).await.unwrap_err();
    assert!(error.to_string().contains("is in another namespace"), "{error}");
    let remaining = api(&other.admin, &target).list(&ListParams::default()).await.unwrap();
    let uids: Vec<_> =
        remaining.items.iter().map(|remaining| remaining.metadata.uid.as_ref()).collect();
    assert_eq!(uids, [Some(&version.uid)]);
}
