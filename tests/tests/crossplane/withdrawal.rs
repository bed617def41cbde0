//! An XRD that is deleted while its objects are wanted, and comes back. Crossplane's reaction
//! depends on the scope: it deletes cluster-scoped objects, and waits for the last namespaced one.
//! See decision 16.

use broker_domain::Phase;
use broker_tests::collector::wait_until_collected;
use broker_tests::crossplane::{Blueprint, Installation, Life};
use broker_tests::{TestCluster, until};
use kube::ResourceExt;

/// Namespaced: nothing is lost. The kind is served until its last object is gone, and the broker
/// works as usual.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespaced_xrd_waits_for_its_last_object() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let (blueprint, admin) =
        (Blueprint::named("withdrawn-machine"), &installation.crossplane.admin);
    let kept = installation.provision("withdrawn-machine", &[]).await;
    let leaving = installation.provision("withdrawn-machine", &[]).await;
    installation.until(&kept, Phase::Ready).await;
    installation.until(&leaving, Phase::Ready).await;
    let uid = uid(&installation, &kept).await;

    blueprint.delete_xrd(admin).await;
    blueprint.wait_until_withdrawing(admin).await;
    let late = installation.provision("withdrawn-machine", &[]).await;
    installation.deprovision(&leaving).await;
    installation.until(&late, Phase::Ready).await;
    installation.until(&leaving, Phase::Deleted).await;
    assert!(blueprint.is_defined(admin).await, "the XRD is still in use");
    installation.pass(&kept).await;
    assert_eq!(installation.phase(&kept).await, Phase::Ready);
    assert_eq!(self::uid(&installation, &kept).await, uid, "the composite resource is unchanged");

    // The last resources are deleted, and the kind after them.
    installation.deprovision(&kept).await;
    installation.deprovision(&late).await;
    installation.until(&kept, Phase::Deleted).await;
    installation.until(&late, Phase::Deleted).await;
    blueprint.wait_until_withdrawn(admin).await;
    let early = installation.provision("withdrawn-machine", &[]).await;
    let given_up = installation.provision("withdrawn-machine", &[]).await;
    assert_names_kind(&installation, &early, "WithdrawnMachine").await;
    assert_eq!(installation.phase(&early).await, Phase::Pending);
    installation.deprovision(&given_up).await;
    installation.until(&given_up, Phase::Deleted).await;

    blueprint.install_xrd(admin).await;
    blueprint.wait_until_offered(admin).await;
    installation.until(&early, Phase::Ready).await;
    installation.deprovision(&early).await;
    installation.until(&early, Phase::Deleted).await;
    let lives = [kept, leaving, late, early, given_up];
    assert_eq!(installation.left(&lives).await, Vec::<String>::new());
}

/// Cluster-scoped: Crossplane deletes objects, and the broker recreates them. Which one wins is a
/// race; a pause lets the kind go.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_cluster_xrd_goes_after_a_pause_and_is_restored() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let (blueprint, admin) = (Blueprint::named("withdrawn-host"), &installation.crossplane.admin);
    // Without the owner's kind, the collector could not find out that composed objects have lost
    // their owner.
    wait_until_collected(admin, installation.namespace()).await;
    let kept = installation.provision("withdrawn-host", &[]).await;
    let leaving = installation.provision("withdrawn-host", &[]).await;
    installation.until(&kept, Phase::Ready).await;
    installation.until(&leaving, Phase::Ready).await;
    let first = uid(&installation, &kept).await;

    blueprint.delete_xrd(admin).await;
    until("the XR to be recreated, or its kind to be deleted first", || async {
        let standing = installation.composite(&kept).await;
        let made_again = standing.is_some_and(|standing| standing.uid() != Some(first.clone()));
        (made_again || !blueprint.is_defined(admin).await).then_some(())
    })
    .await;
    installation.pause(&kept).await;
    installation.pause(&leaving).await;
    blueprint.wait_until_withdrawn(admin).await;

    // Without its kind, a wanted resource reports that, and a resource in teardown is Deleted.
    installation.deprovision(&leaving).await;
    installation.resume(&leaving).await;
    installation.until(&leaving, Phase::Deleted).await;
    installation.resume(&kept).await;
    assert_names_kind(&installation, &kept, "WithdrawnHost").await;
    assert_ne!(installation.phase(&kept).await, Phase::Failed);

    blueprint.install_xrd(admin).await;
    blueprint.wait_until_offered(admin).await;
    until("the XR to be recreated and Ready", || async {
        let standing = installation.composite(&kept).await?;
        standing.metadata.deletion_timestamp.is_none().then_some(())?;
        (installation.phase(&kept).await == Phase::Ready).then_some(())
    })
    .await;
    installation.deprovision(&kept).await;
    installation.until(&kept, Phase::Deleted).await;
    assert_eq!(installation.left(&[kept, leaving]).await, Vec::<String>::new());
}

/// A pass without the kind fails with an error; explain names the kind.
async fn assert_names_kind(installation: &Installation, life: &Life, kind: &str) {
    // From a pass that did not find the kind, or from one that found it and then could not apply.
    let words = ["is not installed on the cluster", "the kind is not served"];
    until("a pass without the kind", || async {
        let error = installation.last_error(life).await;
        words.iter().any(|words| error.contains(words)).then_some(())
    })
    .await;
    let told = installation.explain(life).await;
    assert_eq!(told["verdict"], "kind_missing", "{told}");
    assert_eq!(told["blocker"]["object"]["kind"], kind, "{told}");
}

async fn uid(installation: &Installation, life: &Life) -> String {
    installation.composite(life).await.unwrap().uid().unwrap()
}
