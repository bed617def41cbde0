//! Faults of Crossplane: a kill in every phase, a killed function, a Composition that is broken and
//! repaired. In each case, the resources reach their declared state.

use broker_domain::Phase;
use broker_tests::crossplane::{Blueprint, DeclaredResource, Installation};
use broker_tests::{TestCluster, until};
use kube::ResourceExt;
use serde_json::{Value, json};

/// One resource is in each of these phases when Crossplane is killed.
const PHASES: [Phase; 7] = [
    Phase::Pending,
    Phase::Provisioning,
    Phase::Enrolling,
    Phase::Ready,
    Phase::Deprovisioning,
    Phase::Deregistering,
    Phase::Failed,
];

#[tokio::test(flavor = "multi_thread")]
async fn crossplane_killed_in_any_phase_still_converges() {
    let installation = Installation::new(TestCluster::with_exclusive_crossplane().await).await;
    let (core, provider) = (installation.crossplane.core(), installation.crossplane.provider());
    let replica = installation.replica();
    let agents = installation.boot_agents();
    let node = installation.provision("sample-machine", &["size=small"]).await;
    let ready = installation.provision("sample-bucket", &[]).await;
    let deleting = installation.provision("sample-bucket", &[]).await;
    let failed = installation.provision("failing-machine", &["fault=no such machine type"]).await;
    for resource in [&node, &ready, &deleting] {
        installation.wait_for_phase(resource, Phase::Ready).await;
    }
    installation.wait_for_phase(&failed, Phase::Failed).await;
    // Without agents a Node waits in Enrolling, without a provider a bucket in Provisioning.
    drop(agents);
    let enrolling = installation.provision("sample-appliance", &[]).await;
    installation.wait_for_phase(&enrolling, Phase::Enrolling).await;
    provider.stop().await;
    let provisioning = installation.provision("sample-bucket", &[]).await;
    installation.wait_for_phase(&provisioning, Phase::Provisioning).await;
    installation.deprovision(&deleting).await;
    installation.wait_for_phase(&deleting, Phase::Deprovisioning).await;
    // Without a replica nothing progresses.
    drop(replica);
    let pending = installation.provision("sample-bucket", &[]).await;
    installation.deprovision(&node).await;
    let resources = [pending, provisioning, enrolling, ready, deleting, node, failed];
    for (resource, phase) in resources.iter().zip(PHASES) {
        assert_eq!(installation.phase(resource).await, phase);
    }

    core.kill().await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let [pending, provisioning, enrolling, ready, deleting, node, failed] = &resources;
    until("a shell that Crossplane does not reconcile", || installation.composite(pending)).await;
    installation.wait_for_phase(node, Phase::Deprovisioning).await;
    for (resource, phase) in [
        (provisioning, Phase::Provisioning),
        (ready, Phase::Ready),
        (deleting, Phase::Deprovisioning),
        (node, Phase::Deprovisioning),
    ] {
        installation.run_pass(resource).await;
        assert_eq!(installation.phase(resource).await, phase, "no error is reported");
    }
    assert_eq!(installation.phase(failed).await, Phase::Failed, "Failed is settled");
    core.restart().await;
    provider.restart().await;

    let surviving = [pending, provisioning, enrolling, ready];
    for resource in surviving {
        installation.wait_for_phase(resource, Phase::Ready).await;
    }
    installation.wait_for_phase(deleting, Phase::Deleted).await;
    installation.wait_for_phase(node, Phase::Deleted).await;
    assert_eq!(installation.phase(failed).await, Phase::Failed);
    for resource in surviving.into_iter().chain([failed]) {
        installation.deprovision(resource).await;
    }
    // A second kill, during the teardown.
    core.kill().await;
    core.restart().await;
    installation.assert_deleted(&resources).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_function_delays_and_fails_nothing() {
    let installation = Installation::new(TestCluster::with_exclusive_crossplane().await).await;
    let function = installation.crossplane.function();
    let bucket = installation.provision("sample-bucket", &[]).await;
    installation.create_shell(&bucket).await;
    function.kill().await;
    let _replica = installation.replica();
    // Crossplane retries for minutes before it reports the failure.
    until("Crossplane to begin composing", || async {
        let finalizers = installation.composite(&bucket).await?.finalizers().to_vec();
        finalizers.iter().any(|finalizer| finalizer.starts_with("composite.")).then_some(())
    })
    .await;
    installation.run_pass(&bucket).await;
    assert_provisioning(&installation, &bucket).await;
    function.restart().await;
    installation.wait_for_phase(&bucket, Phase::Ready).await;

    // Ready resources stay Ready, and deletion needs no function.
    function.kill().await;
    installation.run_pass(&bucket).await;
    assert_eq!(installation.phase(&bucket).await, Phase::Ready);
    installation.deprovision_all(&[bucket]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_composition_delays_and_harms_no_ready_resource() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let (blueprint, admin) = (Blueprint::named("mended-machine"), &installation.crossplane.admin);
    let nothing = json!({"apiVersion": "nowhere.example.org/v1", "kind": "Nothing"});
    let broken = with_value(&blueprint, "/spec/pipeline/0/input/resources/0/base", nothing);
    blueprint.install_composition(admin, &broken).await;
    let machine = installation.provision("mended-machine", &[]).await;
    wait_until_refused(&installation, &machine).await;
    installation.run_pass(&machine).await;
    assert_eq!(installation.phase(&machine).await, Phase::Provisioning);
    let explanation = installation.explain(&machine).await;
    assert_eq!(explanation["verdict"], "function_failing", "{explanation}");

    blueprint.install_composition(admin, blueprint.composition()).await;
    installation.wait_for_phase(&machine, Phase::Ready).await;

    // A Ready resource stays Ready with a broken Composition, and can be deleted.
    let broken = with_value(&blueprint, "/spec/pipeline/0/functionRef/name", json!("nowhere"));
    blueprint.install_composition(admin, &broken).await;
    wait_until_refused(&installation, &machine).await;
    installation.run_pass(&machine).await;
    assert_eq!(installation.phase(&machine).await, Phase::Ready);
    let explanation = installation.explain(&machine).await;
    assert_eq!(explanation["verdict"], "degraded", "{explanation}");
    installation.deprovision_all(&[machine]).await;
}

/// Asserts that an armed XR without composed objects is not a failure, although Crossplane's last
/// condition is still that of the shell.
async fn assert_provisioning(installation: &Installation, resource: &DeclaredResource) {
    assert_eq!(installation.phase(resource).await, Phase::Provisioning);
    assert!(installation.composed(resource).await.is_empty());
    assert!(installation.is_reported_paused(resource).await, "Crossplane wrote a new condition");
    let explanation = installation.explain(resource).await;
    assert_eq!(explanation["verdict"], "provisioning", "{explanation}");
}

fn with_value(blueprint: &Blueprint, pointer: &str, value: Value) -> Value {
    let mut composition = blueprint.composition().clone();
    *composition.pointer_mut(pointer).unwrap() = value;
    composition
}

async fn wait_until_refused(installation: &Installation, resource: &DeclaredResource) {
    until("Crossplane to refuse the Composition", || async {
        let xr = installation.composite(resource).await?;
        let conditions = xr.data.pointer("/status/conditions")?.as_array()?.clone();
        conditions.iter().any(|condition| condition["reason"] == "ReconcileError").then_some(())
    })
    .await;
}
