//! A composite resource within another: the outer one is Deleted only when the inner one's objects
//! are gone too.

use broker_domain::Phase;
use broker_tests::collector::wait_until_collector_knows_kinds;
use broker_tests::crossplane::{Blueprint, DeclaredResource, Installation, Objects};
use broker_tests::{TestCluster, until};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};

/// A Ready resource whose composite resource composes another composite resource.
async fn ready_nested() -> (Installation, DeclaredResource) {
    let installation = Installation::new(TestCluster::with_exclusive_crossplane().await).await;
    // A composite resource would not wait for objects of a kind that the collector does not know.
    wait_until_collector_knows_kinds(&installation.crossplane.admin, installation.namespace())
        .await;
    let outer = {
        let _replica = installation.replica();
        let outer = installation.provision("nested-outer", &[]).await;
        installation.wait_for_phase(&outer, Phase::Ready).await;
        outer
    };
    (installation, outer)
}

fn inner(installation: &Installation) -> Objects {
    let blueprint = Blueprint::named("nested-inner");
    blueprint.composites(&installation.crossplane.admin, installation.namespace())
}

async fn only_inner(installation: &Installation) -> String {
    let mut found = inner(installation).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0).name_any()
}

/// Waits until the `NopResource`s of a resource are being deleted. Their finalizers hold them while the
/// provider does not run.
async fn wait_until_deleting(installation: &Installation, resource: &DeclaredResource) {
    until("the NopResource's deletion", || async {
        let composed = installation.composed(resource).await;
        let deleting = composed.iter().all(|object| object.metadata.deletion_timestamp.is_some());
        (deleting && !composed.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_teardown_waits_for_objects_of_the_inner_xr() {
    let (installation, outer) = ready_nested().await;
    let grandchildren = installation.composed(&outer).await;
    assert_eq!(grandchildren.len(), 1, "it has the outermost XR's label: {grandchildren:?}");
    installation.crossplane.provider().kill().await;
    let _replica = installation.replica();
    installation.deprovision(&outer).await;
    wait_until_deleting(&installation, &outer).await;
    installation.run_pass(&outer).await;
    assert_eq!(installation.phase(&outer).await, Phase::Deprovisioning);
    let name = only_inner(&installation).await;
    let xr = installation.composite(&outer).await.expect("the outer one waits for the inner one");
    let inner_xr = inner(&installation).get(&name).await.unwrap();
    for waiting in [xr, inner_xr] {
        let finalizers = waiting.finalizers();
        assert!(finalizers.contains(&"foregroundDeletion".to_owned()), "{finalizers:?}");
    }

    installation.crossplane.provider().restart().await;
    installation.assert_deleted(&[outer]).await;
}

/// A background deletion ends the wait of both composite resources: only the `NopResource` is left.
#[tokio::test(flavor = "multi_thread")]
async fn inner_xr_deleted_in_the_background_leaves_residue() {
    let (installation, outer) = ready_nested().await;
    installation.crossplane.provider().kill().await;
    let _replica = installation.replica();
    installation.deprovision(&outer).await;
    wait_until_deleting(&installation, &outer).await;
    let name = only_inner(&installation).await;
    inner(&installation).delete(&name, &DeleteParams::background()).await.unwrap();
    until("both composite resources to be deleted", || async {
        let outer = installation.composite(&outer).await;
        let inner = inner(&installation).get_opt(&name).await.unwrap();
        (outer.is_none() && inner.is_none()).then_some(())
    })
    .await;
    assert_eq!(installation.composed(&outer).await.len(), 1, "the provider does not run");
    installation.run_pass(&outer).await;
    assert_eq!(installation.phase(&outer).await, Phase::Deprovisioning);

    installation.crossplane.provider().restart().await;
    installation.assert_deleted(&[outer]).await;
}
