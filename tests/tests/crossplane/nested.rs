//! A composite resource within another: the outer one is Deleted only when the inner one's objects
//! are gone too.

use broker_domain::Phase;
use broker_tests::collector::wait_until_collected;
use broker_tests::crossplane::{Blueprint, Installation, Life, Objects};
use broker_tests::{TestCluster, until};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};

/// Brings a resource to Ready whose composite resource composes another one.
async fn nested() -> (Installation, Life) {
    let installation = Installation::on(TestCluster::with_crossplane_alone().await).await;
    // A composite resource would not wait for objects of a kind that the collector does not know.
    wait_until_collected(&installation.crossplane.admin, installation.namespace()).await;
    let outer = {
        let _replica = installation.replica();
        let outer = installation.provision("nested-outer", &[]).await;
        installation.until(&outer, Phase::Ready).await;
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

/// Waits until the `NopResource`s of a resource are being deleted; their finalizers hold them while
/// the provider is away.
async fn until_told_to_go(installation: &Installation, life: &Life) {
    until("the NopResource's deletion", || async {
        let composed = installation.composed(life).await;
        let told = composed.iter().all(|it| it.metadata.deletion_timestamp.is_some());
        (told && !composed.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_teardown_waits_for_what_the_inner_one_composed() {
    let (installation, outer) = nested().await;
    let grandchildren = installation.composed(&outer).await;
    assert_eq!(grandchildren.len(), 1, "it carries the label of the outermost: {grandchildren:?}");
    installation.crossplane.provider().kill().await;
    let _replica = installation.replica();
    installation.deprovision(&outer).await;
    until_told_to_go(&installation, &outer).await;
    installation.pass(&outer).await;
    assert_eq!(installation.phase(&outer).await, Phase::Deprovisioning);
    let name = only_inner(&installation).await;
    let xr = installation.composite(&outer).await.expect("the outer one waits for the inner one");
    let waits = inner(&installation).get(&name).await.unwrap();
    for waiting in [xr, waits] {
        let finalizers = waiting.finalizers();
        assert!(finalizers.contains(&"foregroundDeletion".to_owned()), "{finalizers:?}");
    }

    installation.crossplane.provider().restart().await;
    installation.assert_gone(&[outer]).await;
}

/// A background deletion ends the wait of both composite resources: only the `NopResource` is left.
#[tokio::test(flavor = "multi_thread")]
async fn inner_xr_deleted_in_the_background_leaves_residue() {
    let (installation, outer) = nested().await;
    installation.crossplane.provider().kill().await;
    let _replica = installation.replica();
    installation.deprovision(&outer).await;
    until_told_to_go(&installation, &outer).await;
    let name = only_inner(&installation).await;
    inner(&installation).delete(&name, &DeleteParams::background()).await.unwrap();
    until("both composite resources to be deleted", || async {
        let outer = installation.composite(&outer).await;
        let inner = inner(&installation).get_opt(&name).await.unwrap();
        (outer.is_none() && inner.is_none()).then_some(())
    })
    .await;
    assert_eq!(installation.composed(&outer).await.len(), 1, "the provider is away");
    installation.pass(&outer).await;
    assert_eq!(installation.phase(&outer).await, Phase::Deprovisioning);

    installation.crossplane.provider().restart().await;
    installation.assert_gone(&[outer]).await;
}
