//! Teardown waits until all objects are deleted: with a killed provider, residue of a manual deletion,
//! a Usage, or a pause.

use std::collections::BTreeSet;

use broker_domain::Phase;
use broker_tests::collector::wait_until_collector_knows_kinds;
use broker_tests::crossplane::{DeclaredResource, Installation, pause_patch};
use broker_tests::{TestCluster, until};
use kube::api::{DeleteParams, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// While the provider does not run, the composed object keeps its finalizer, and the resource stays in
/// Deprovisioning and lists the object. When the provider runs again, the teardown completes.
#[tokio::test(flavor = "multi_thread")]
async fn teardown_waits_for_the_finalizer_of_an_absent_provider() {
    let installation = Installation::new(TestCluster::with_exclusive_crossplane().await).await;
    // The composite resource would not wait for objects of a kind that the collector does not know.
    wait_until_collector_knows_kinds(&installation.crossplane.admin, installation.namespace())
        .await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let machine = provision_ready(&installation).await;
    let composed = installation.composed(&machine).await.remove(0);
    assert!(
        composed
            .finalizers()
            .iter()
            .any(|finalizer| finalizer == "finalizer.managedresource.crossplane.io"),
        "{:?}",
        composed.finalizers()
    );
    installation.crossplane.provider().kill().await;
    installation.deprovision(&machine).await;
    installation.wait_for_phase(&machine, Phase::Deprovisioning).await;
    until("the deletion of the composed object", || async {
        let composed = installation.composed(&machine).await;
        composed.first()?.metadata.deletion_timestamp.as_ref().map(drop)
    })
    .await;
    // Several sweeps and a requested pass change nothing.
    let version = |shown: &Value| shown["version"].as_i64();
    let before = installation.get(&machine).await;
    installation.run_pass(&machine).await;
    let shown = installation.get(&machine).await;
    assert_eq!(shown["phase"], "Deprovisioning");
    assert_eq!(version(&shown), version(&before), "waiting writes no row: {shown}");
    assert_eq!(shown["composed"][0]["name"], json!(composed.name_any()), "{shown}");
    let xr = installation.composite(&machine).await.expect("the XR waits for its composed object");
    assert!(xr.finalizers().contains(&"foregroundDeletion".to_owned()), "{:?}", xr.finalizers());

    // After an hour, explain names the object and its provider.
    installation.age_by_one_hour(&machine).await;
    let explanation = installation.explain(&machine).await;
    assert_eq!(explanation["verdict"], "composed_remains", "{explanation}");
    assert_names_provider(&explanation, &composed.name_any());

    installation.crossplane.provider().restart().await;
    installation.assert_deleted(&[machine]).await;
}

/// During convergence, the object of a killed provider has no condition. Explain names both.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_absent_provider_and_unready_object() {
    let installation = Installation::new(TestCluster::with_exclusive_crossplane().await).await;
    let _replica = installation.replica();
    installation.crossplane.provider().kill().await;
    let bucket = installation.provision("sample-bucket", &[]).await;
    let composed = until("the composed object", || async {
        installation.composed(&bucket).await.pop().map(|object| object.name_any())
    })
    .await;
    installation.wait_for_phase(&bucket, Phase::Provisioning).await;
    installation.age_by_one_hour(&bucket).await;
    let explanation = until("the composed object to be recorded", || async {
        let explanation = installation.explain(&bucket).await;
        (explanation["verdict"] == "provider_silent").then_some(explanation)
    })
    .await;
    assert_names_provider(&explanation, &composed);

    installation.crossplane.provider().restart().await;
    installation.wait_for_phase(&bucket, Phase::Ready).await;
    installation.deprovision_all(&[bucket]).await;
}

/// After a background deletion of the composite resource, its composed objects are residue, and the
/// teardown waits for them.
#[tokio::test(flavor = "multi_thread")]
async fn teardown_waits_for_residue_of_a_background_deletion() {
    let installation = Installation::new(TestCluster::with_exclusive_crossplane().await).await;
    let _agents = installation.boot_agents();
    let (machine, recreated) = {
        let _replica = installation.replica();
        let recreated = installation.provision("sample-bucket", &[]).await;
        installation.wait_for_phase(&recreated, Phase::Ready).await;
        (provision_ready(&installation).await, recreated)
    };
    // No replica runs that would recreate the composite resource.
    let composed = installation.composed(&machine).await.remove(0).name_any();
    installation.crossplane.provider().kill().await;
    delete_by_hand(&installation, &machine).await;
    until("the composite resource to be deleted", || async {
        installation.composite(&machine).await.is_none().then_some(())
    })
    .await;
    let existing = installation.existing_objects(std::slice::from_ref(&machine)).await;
    assert!(
        existing.iter().any(|object| object.ends_with(&composed)),
        "the composed object survives: {existing:?}"
    );

    installation.deprovision(&machine).await;
    let _replica = installation.replica();
    installation.wait_for_phase(&machine, Phase::Deprovisioning).await;
    let config = || async {
        let name = machine.xr_name();
        installation.provider_configs().get_opt(&name).await.unwrap()
    };
    assert!(config().await.is_some(), "the provider may need the ProviderConfig for the residue");
    let shown = installation.get(&machine).await;
    assert_eq!(shown["composed"][0]["name"], json!(composed), "{shown}");

    assert_recreated_beside_residue(&installation, &recreated).await;
    installation.deprovision(&recreated).await;
    // Passes keep the ProviderConfig while the residue exists, because the provider needs it.
    installation.run_pass(&machine).await;
    assert_eq!(installation.phase(&machine).await, Phase::Deprovisioning);
    assert!(config().await.is_some(), "the residue still needs the ProviderConfig");
    installation.crossplane.provider().restart().await;
    installation.assert_deleted(&[machine, recreated]).await;
}

/// The running replica recreates a deleted composite resource with the same name and a new uid. The
/// row lists the old and the new objects.
async fn assert_recreated_beside_residue(
    installation: &Installation,
    recreated: &DeclaredResource,
) {
    let first = installation.composite(recreated).await.unwrap().uid();
    let old = installation.composed(recreated).await.remove(0).name_any();
    delete_by_hand(installation, recreated).await;
    until("the composite resource to be recreated", || async {
        let current = installation.composite(recreated).await?;
        (current.uid() != first).then_some(())
    })
    .await;
    let composed = until("the old object and a new one", || async {
        let names =
            installation.composed(recreated).await.iter().map(ResourceExt::name_any).collect();
        Some(names).filter(|names: &BTreeSet<String>| names.len() == 2)
    })
    .await;
    assert!(composed.contains(&old), "{old} survives: {composed:?}");
    until("both to be recorded", || async {
        let shown = installation.get(recreated).await["composed"].clone();
        let names =
            shown.as_array().into_iter().flatten().filter_map(|object| object["name"].as_str());
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        composed.is_subset(&names).then_some(())
    })
    .await;
    installation.wait_for_phase(recreated, Phase::Provisioning).await;
}

async fn delete_by_hand(installation: &Installation, resource: &DeclaredResource) {
    let composites = installation.composites(resource);
    composites.delete(&resource.xr_name(), &DeleteParams::background()).await.unwrap();
}

/// A Usage, enforced by Crossplane's own webhook, only delays the deletion.
#[tokio::test(flavor = "multi_thread")]
async fn usage_blocks_the_deletion_until_it_is_removed() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let machine = provision_ready(&installation).await;
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
    until("Crossplane to label the used XR", || async {
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
    let explanation = installation.explain(&machine).await;
    assert_eq!(explanation["verdict"], "usage", "{explanation}");
    let xr = installation.composite(&machine).await.unwrap();
    assert_eq!(xr.metadata.deletion_timestamp, None);

    usages.delete("in-use", &DeleteParams::default()).await.unwrap();
    installation.assert_deleted(&[machine]).await;
}

/// A paused composite resource blocks its own deletion until it is resumed.
#[tokio::test(flavor = "multi_thread")]
async fn pause_blocks_the_deletion_until_resumed() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let machine = provision_ready(&installation).await;
    let other_manager =
        PatchParams { field_manager: Some("another-party".to_owned()), ..PatchParams::default() };
    let composites = installation.composites(&machine);
    let name = machine.xr_name();
    composites.patch(&name, &other_manager, &pause_patch(Some("true"))).await.unwrap();

    installation.deprovision(&machine).await;
    until("the deletion request", || async {
        installation.composite(&machine).await?.metadata.deletion_timestamp.map(drop)
    })
    .await;
    let xr = until("the pause to be observed", || async {
        let xr = installation.composite(&machine).await?;
        let synced = xr.data.pointer("/status/conditions")?.as_array()?.iter();
        let paused = synced.clone().any(|condition| condition["reason"] == "ReconcilePaused");
        paused.then_some(xr)
    })
    .await;
    assert!(
        xr.finalizers().iter().any(|finalizer| finalizer.starts_with("composite.")),
        "{:?}",
        xr.finalizers()
    );
    installation.wait_for_phase(&machine, Phase::Deprovisioning).await;
    let explanation = installation.explain(&machine).await;
    assert_eq!(explanation["verdict"], "paused_on_cluster", "{explanation}");
    assert_eq!(explanation["blocker"]["object"]["name"], json!(name), "{explanation}");

    composites.patch(&name, &other_manager, &pause_patch(None)).await.unwrap();
    installation.assert_deleted(&[machine]).await;
}

fn assert_names_provider(explanation: &Value, composed: &str) {
    assert_eq!(explanation["blocker"]["object"]["kind"], "NopResource", "{explanation}");
    assert_eq!(explanation["blocker"]["object"]["name"], composed, "{explanation}");
    assert_eq!(explanation["blocker"]["provider"], "nop.crossplane.io", "{explanation}");
}

async fn provision_ready(installation: &Installation) -> DeclaredResource {
    let machine = installation.provision("sample-machine", &["size=small"]).await;
    installation.wait_for_phase(&machine, Phase::Ready).await;
    machine
}
