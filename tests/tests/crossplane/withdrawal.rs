//! Deletion and restoration of an XRD while resources of its kind exist. Crossplane deletes
//! cluster-scoped objects, and waits for the last namespaced one. See decision 16.

use broker_domain::Phase;
use broker_tests::collector::wait_until_collector_knows_kinds;
use broker_tests::crossplane::{Blueprint, DeclaredResource, Installation};
use broker_tests::{TestCluster, until};
use kube::ResourceExt;

/// A namespaced kind is served until its last object is deleted, and the broker works as usual.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespaced_xrd_waits_for_its_last_object() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let (blueprint, admin) =
        (Blueprint::named("withdrawn-machine"), &installation.crossplane.admin);
    let kept = installation.provision("withdrawn-machine", &[]).await;
    let leaving = installation.provision("withdrawn-machine", &[]).await;
    installation.wait_for_phase(&kept, Phase::Ready).await;
    installation.wait_for_phase(&leaving, Phase::Ready).await;
    let uid = uid(&installation, &kept).await;

    blueprint.delete_xrd(admin).await;
    blueprint.wait_until_xrd_terminating(admin).await;
    let declared_late = installation.provision("withdrawn-machine", &[]).await;
    installation.deprovision(&leaving).await;
    installation.wait_for_phase(&declared_late, Phase::Ready).await;
    installation.wait_for_phase(&leaving, Phase::Deleted).await;
    assert!(blueprint.is_defined(admin).await, "the XRD is still in use");
    installation.run_pass(&kept).await;
    assert_eq!(installation.phase(&kept).await, Phase::Ready);
    assert_eq!(self::uid(&installation, &kept).await, uid, "the composite resource is unchanged");

    // The kind is deleted after its last resources.
    installation.deprovision(&kept).await;
    installation.deprovision(&declared_late).await;
    installation.wait_for_phase(&kept, Phase::Deleted).await;
    installation.wait_for_phase(&declared_late, Phase::Deleted).await;
    blueprint.wait_until_xrd_deleted(admin).await;
    let declared_without_kind = installation.provision("withdrawn-machine", &[]).await;
    let never_applied = installation.provision("withdrawn-machine", &[]).await;
    assert_names_kind(&installation, &declared_without_kind, "WithdrawnMachine").await;
    assert_eq!(installation.phase(&declared_without_kind).await, Phase::Pending);
    installation.deprovision(&never_applied).await;
    installation.wait_for_phase(&never_applied, Phase::Deleted).await;

    blueprint.install_xrd(admin).await;
    blueprint.wait_until_served(admin).await;
    installation.wait_for_phase(&declared_without_kind, Phase::Ready).await;
    installation.deprovision(&declared_without_kind).await;
    installation.wait_for_phase(&declared_without_kind, Phase::Deleted).await;
    let resources = [kept, leaving, declared_late, declared_without_kind, never_applied];
    assert_eq!(installation.remaining_objects(&resources).await, Vec::<String>::new());
}

/// Crossplane deletes the objects of a cluster-scoped kind and the broker recreates them: a race, which a
/// pause ends.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_cluster_xrd_disappears_after_a_pause_and_is_restored() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let (blueprint, admin) = (Blueprint::named("withdrawn-host"), &installation.crossplane.admin);
    // Without the owner's kind, the collector could not find out that composed objects have lost
    // their owner.
    wait_until_collector_knows_kinds(admin, installation.namespace()).await;
    let kept = installation.provision("withdrawn-host", &[]).await;
    let leaving = installation.provision("withdrawn-host", &[]).await;
    installation.wait_for_phase(&kept, Phase::Ready).await;
    installation.wait_for_phase(&leaving, Phase::Ready).await;
    let first = uid(&installation, &kept).await;

    blueprint.delete_xrd(admin).await;
    until("the XR to be recreated, or its kind to be deleted first", || async {
        let current = installation.composite(&kept).await;
        let recreated = current.is_some_and(|current| current.uid() != Some(first.clone()));
        (recreated || !blueprint.is_defined(admin).await).then_some(())
    })
    .await;
    installation.pause(&kept).await;
    installation.pause(&leaving).await;
    blueprint.wait_until_xrd_deleted(admin).await;

    // Without its kind, a converging resource reports an error, and a resource in teardown is Deleted.
    installation.deprovision(&leaving).await;
    installation.resume(&leaving).await;
    installation.wait_for_phase(&leaving, Phase::Deleted).await;
    installation.resume(&kept).await;
    assert_names_kind(&installation, &kept, "WithdrawnHost").await;
    assert_ne!(installation.phase(&kept).await, Phase::Failed);

    blueprint.install_xrd(admin).await;
    blueprint.wait_until_served(admin).await;
    until("the XR to be recreated and Ready", || async {
        let current = installation.composite(&kept).await?;
        current.metadata.deletion_timestamp.is_none().then_some(())?;
        (installation.phase(&kept).await == Phase::Ready).then_some(())
    })
    .await;
    installation.deprovision(&kept).await;
    installation.wait_for_phase(&kept, Phase::Deleted).await;
    assert_eq!(installation.remaining_objects(&[kept, leaving]).await, Vec::<String>::new());
}

/// A pass without the kind fails with an error; explain names the kind.
async fn assert_names_kind(installation: &Installation, resource: &DeclaredResource, kind: &str) {
    // From a pass that did not find the kind, or from one that found it and then could not apply.
    let messages = ["is not installed on the cluster", "the kind is not served"];
    until("a pass without the kind", || async {
        let error = installation.last_error(resource).await;
        messages.iter().any(|messages| error.contains(messages)).then_some(())
    })
    .await;
    let explanation = installation.explain(resource).await;
    assert_eq!(explanation["verdict"], "kind_missing", "{explanation}");
    assert_eq!(explanation["blocker"]["object"]["kind"], kind, "{explanation}");
}

async fn uid(installation: &Installation, resource: &DeclaredResource) -> String {
    installation.composite(resource).await.unwrap().uid().unwrap()
}
