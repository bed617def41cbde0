//! Teardown waits until objects are really gone: an absent provider, a manual deletion that leaves
//! residue, a Usage, a pause.

use std::collections::BTreeSet;

use broker_domain::Phase;
use broker_tests::collector::wait_until_collected;
use broker_tests::crossplane::{Installation, Life, pause};
use broker_tests::{TestCluster, until};
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// While the provider is away, the composed object keeps its finalizer: the resource waits in
/// Deprovisioning and lists the object. When the provider is back, the teardown completes.
#[tokio::test(flavor = "multi_thread")]
async fn teardown_waits_for_the_finalizer_of_an_absent_provider() {
    let installation = Installation::on(TestCluster::with_crossplane_alone().await).await;
    // The composite resource would not wait for objects of a kind that the collector does not know.
    wait_until_collected(&installation.crossplane.admin, installation.namespace()).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let machine = ready(&installation).await;
    let composed = installation.composed(&machine).await.remove(0);
    assert!(
        composed.finalizers().iter().any(|held| held == "finalizer.managedresource.crossplane.io"),
        "{:?}",
        composed.finalizers()
    );
    installation.crossplane.provider().kill().await;
    installation.deprovision(&machine).await;
    installation.until(&machine, Phase::Deprovisioning).await;
    until("the deletion of the composed object", || async {
        let composed = installation.composed(&machine).await;
        composed.first()?.metadata.deletion_timestamp.as_ref().map(drop)
    })
    .await;
    // Several sweeps and a requested pass change nothing.
    let version = |shown: &Value| shown["version"].as_i64();
    let before = installation.get(&machine).await;
    installation.pass(&machine).await;
    let shown = installation.get(&machine).await;
    assert_eq!(shown["phase"], "Deprovisioning");
    assert_eq!(version(&shown), version(&before), "waiting writes no row: {shown}");
    assert_eq!(shown["composed"][0]["name"], json!(composed.name_any()), "{shown}");
    let xr = installation.composite(&machine).await.expect("it waits for its composed object");
    assert!(xr.finalizers().contains(&"foregroundDeletion".to_owned()), "{:?}", xr.finalizers());

    // After an hour, explain names the object and its provider.
    installation.let_an_hour_pass(&machine).await;
    let told = installation.explain(&machine).await;
    assert_eq!(told["verdict"], "composed_remains", "{told}");
    assert_names_provider(&told, &composed.name_any());

    installation.crossplane.provider().restart().await;
    installation.assert_gone(&[machine]).await;
}

/// The same during convergence: the unready object has no condition, and explain names it with its
/// provider.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_absent_provider_and_unready_object() {
    let installation = Installation::on(TestCluster::with_crossplane_alone().await).await;
    let _replica = installation.replica();
    installation.crossplane.provider().kill().await;
    let bucket = installation.provision("sample-bucket", &[]).await;
    let composed = until("the composed object", || async {
        installation.composed(&bucket).await.pop().map(|object| object.name_any())
    })
    .await;
    installation.until(&bucket, Phase::Provisioning).await;
    installation.let_an_hour_pass(&bucket).await;
    let told = until("the composed object to be recorded", || async {
        let told = installation.explain(&bucket).await;
        (told["verdict"] == "provider_silent").then_some(told)
    })
    .await;
    assert_names_provider(&told, &composed);

    installation.crossplane.provider().restart().await;
    installation.until(&bucket, Phase::Ready).await;
    installation.take_down(&[bucket]).await;
}

/// A background deletion of the composite resource lets its composed objects outlive it: they are
/// residue, and the teardown waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn residue_of_a_background_deletion_is_waited_for() {
    let installation = Installation::on(TestCluster::with_crossplane_alone().await).await;
    let _agents = installation.boot_agents();
    let (machine, wanted) = {
        let _replica = installation.replica();
        let wanted = installation.provision("sample-bucket", &[]).await;
        installation.until(&wanted, Phase::Ready).await;
        (ready(&installation).await, wanted)
    };
    // No replica runs that would recreate the composite resource.
    let composed = installation.composed(&machine).await.remove(0).name_any();
    installation.crossplane.provider().kill().await;
    delete_by_hand(&installation, &machine).await;
    until("the composite resource to be deleted", || async {
        installation.composite(&machine).await.is_none().then_some(())
    })
    .await;
    let left = installation.standing(std::slice::from_ref(&machine)).await;
    assert!(
        left.iter().any(|object| object.ends_with(&composed)),
        "the composed object survives: {left:?}"
    );

    installation.deprovision(&machine).await;
    let _replica = installation.replica();
    installation.until(&machine, Phase::Deprovisioning).await;
    let config = || async {
        let name = machine.xr_name();
        installation.provider_configs().get_opt(&name).await.unwrap()
    };
    assert!(config().await.is_some(), "the provider may need it for the residue");
    let shown = installation.get(&machine).await;
    assert_eq!(shown["composed"][0]["name"], json!(composed), "{shown}");

    assert_made_again_beside_its_residue(&installation, &wanted).await;
    installation.deprovision(&wanted).await;
    // Any number of passes: the residue exists, and so does the ProviderConfig that its provider
    // needs.
    installation.pass(&machine).await;
    assert_eq!(installation.phase(&machine).await, Phase::Deprovisioning);
    assert!(config().await.is_some(), "the residue still needs it");
    installation.crossplane.provider().restart().await;
    installation.assert_gone(&[machine, wanted]).await;
}

/// The running replica recreates a wanted composite resource with the same name and a new uid. Its
/// row lists the old objects as well as the new ones.
async fn assert_made_again_beside_its_residue(installation: &Installation, wanted: &Life) {
    let first = installation.composite(wanted).await.unwrap().uid();
    let old = installation.composed(wanted).await.remove(0).name_any();
    delete_by_hand(installation, wanted).await;
    until("the composite resource to be recreated", || async {
        let standing = installation.composite(wanted).await?;
        (standing.uid() != first).then_some(())
    })
    .await;
    let composed = until("the old object and a new one", || async {
        let names = installation.composed(wanted).await.iter().map(ResourceExt::name_any).collect();
        Some(names).filter(|names: &BTreeSet<String>| names.len() == 2)
    })
    .await;
    assert!(composed.contains(&old), "{old} survives: {composed:?}");
    until("both to be recorded", || async {
        let shown = installation.get(wanted).await["composed"].clone();
        let names = shown.as_array().into_iter().flatten().filter_map(|one| one["name"].as_str());
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        composed.is_subset(&names).then_some(())
    })
    .await;
    installation.until(wanted, Phase::Provisioning).await;
}

async fn delete_by_hand(installation: &Installation, life: &Life) {
    let composites = installation.composites(life);
    composites.delete(&life.xr_name(), &DeleteParams::background()).await.unwrap();
}

/// A Usage, enforced by Crossplane's own webhook, only delays the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn usage_blocks_the_deletion_until_it_is_removed() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let machine = ready(&installation).await;
    let xr = installation.composite(&machine).await.unwrap();
    let types = xr.types.clone().unwrap();
    let kind = GroupVersionKind::gvk("protection.crossplane.io", "v1beta1", "Usage");
    let kind = ApiResource::from_gvk(&kind);
    let usages: Api<kube::api::DynamicObject> = Api::namespaced_with(
        installation.crossplane.admin.clone(),
        installation.namespace(),
        &kind,
    );
    let usage = json!({
        "apiVersion": "protection.crossplane.io/v1beta1",
        "kind": "Usage",
        "metadata": {"name": "in-use"},
        "spec": {
            "of": {
                "apiVersion": types.api_version,
                "kind": types.kind,
                "resourceRef": {"name": machine.xr_name()},
            },
            "reason": "a user depends on it",
        },
    });
    let usage = serde_json::from_value(usage).unwrap();
    usages.create(&PostParams::default(), &usage).await.unwrap();
    until("Crossplane to mark what is in use", || async {
        let xr = installation.composite(&machine).await?;
        xr.labels().get("crossplane.io/in-use").map(drop)
    })
    .await;

    installation.deprovision(&machine).await;
    let refused = until("the refusal", || async {
        let error = installation.last_error(&machine).await;
        (!error.is_empty()).then_some(error)
    })
    .await;
    assert!(refused.contains("a user depends on it"), "{refused}");
    let told = installation.explain(&machine).await;
    assert_eq!(told["verdict"], "usage", "{told}");
    let xr = installation.composite(&machine).await.unwrap();
    assert_eq!(xr.metadata.deletion_timestamp, None);

    usages.delete("in-use", &DeleteParams::default()).await.unwrap();
    installation.assert_gone(&[machine]).await;
}

/// A paused composite resource blocks its own deletion until it is resumed.
#[tokio::test(flavor = "multi_thread")]
async fn pause_blocks_the_deletion_until_resumed() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let machine = ready(&installation).await;
    let by_hand =
        PatchParams { field_manager: Some("another-party".to_owned()), ..PatchParams::default() };
    let composites = installation.composites(&machine);
    let name = machine.xr_name();
    composites.patch(&name, &by_hand, &pause(Some("true"))).await.unwrap();

    installation.deprovision(&machine).await;
    until("the deletion request", || async {
        installation.composite(&machine).await?.metadata.deletion_timestamp.map(drop)
    })
    .await;
    let xr = until("the pause to be observed", || async {
        let xr = installation.composite(&machine).await?;
        let synced = xr.data.pointer("/status/conditions")?.as_array()?.iter();
        let paused = synced.clone().any(|one| one["reason"] == "ReconcilePaused");
        paused.then_some(xr)
    })
    .await;
    assert!(
        xr.finalizers().iter().any(|held| held.starts_with("composite.")),
        "{:?}",
        xr.finalizers()
    );
    installation.until(&machine, Phase::Deprovisioning).await;
    let told = installation.explain(&machine).await;
    assert_eq!(told["verdict"], "paused_on_cluster", "{told}");
    assert_eq!(told["blocker"]["object"]["name"], json!(name), "{told}");

    composites.patch(&name, &by_hand, &pause(None)).await.unwrap();
    installation.assert_gone(&[machine]).await;
}

fn assert_names_provider(told: &Value, composed: &str) {
    assert_eq!(told["blocker"]["object"]["kind"], "NopResource", "{told}");
    assert_eq!(told["blocker"]["object"]["name"], composed, "{told}");
    assert_eq!(told["blocker"]["provider"], "nop.crossplane.io", "{told}");
}

async fn ready(installation: &Installation) -> Life {
    let machine = installation.provision("sample-machine", &["size=small"]).await;
    installation.until(&machine, Phase::Ready).await;
    machine
}
