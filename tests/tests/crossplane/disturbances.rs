//! Disturbed Crossplane: a kill in every phase, an absent function, a Composition that is broken
//! and repaired. In each case, the broker's resources settle as declared.

use broker_domain::Phase;
use broker_tests::crossplane::{Blueprint, Installation, Life};
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
    let installation = Installation::on(TestCluster::with_crossplane_alone().await).await;
    let (core, provider) = (installation.crossplane.core(), installation.crossplane.provider());
    let replica = installation.replica();
    let agents = installation.boot_agents();
    let node = installation.provision("sample-machine", &["size=small"]).await;
    let ready = installation.provision("sample-bucket", &[]).await;
    let leaving = installation.provision("sample-bucket", &[]).await;
    let failed = installation.provision("failing-machine", &["fault=no such machine type"]).await;
    for life in [&node, &ready, &leaving] {
        installation.until(life, Phase::Ready).await;
    }
    installation.until(&failed, Phase::Failed).await;
    // Without agents a Node waits in Enrolling, without a provider a bucket in Provisioning.
    drop(agents);
    let enrolling = installation.provision("sample-appliance", &[]).await;
    installation.until(&enrolling, Phase::Enrolling).await;
    provider.stop().await;
    let provisioning = installation.provision("sample-bucket", &[]).await;
    installation.until(&provisioning, Phase::Provisioning).await;
    installation.deprovision(&leaving).await;
    installation.until(&leaving, Phase::Deprovisioning).await;
    // Without a replica nothing progresses.
    drop(replica);
    let pending = installation.provision("sample-bucket", &[]).await;
    installation.deprovision(&node).await;
    let lives = [pending, provisioning, enrolling, ready, leaving, node, failed];
    for (life, phase) in lives.iter().zip(PHASES) {
        assert_eq!(installation.phase(life).await, phase);
    }

    core.kill().await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let [pending, provisioning, enrolling, ready, leaving, node, failed] = &lives;
    until("a shell that Crossplane does not reconcile", || installation.composite(pending)).await;
    installation.until(node, Phase::Deprovisioning).await;
    for (life, phase) in [
        (provisioning, Phase::Provisioning),
        (ready, Phase::Ready),
        (leaving, Phase::Deprovisioning),
        (node, Phase::Deprovisioning),
    ] {
        installation.pass(life).await;
        assert_eq!(installation.phase(life).await, phase, "no error is reported");
    }
    assert_eq!(installation.phase(failed).await, Phase::Failed, "it is settled");
    core.restart().await;
    provider.restart().await;

    let wanted = [pending, provisioning, enrolling, ready];
    for life in wanted {
        installation.until(life, Phase::Ready).await;
    }
    installation.until(leaving, Phase::Deleted).await;
    installation.until(node, Phase::Deleted).await;
    assert_eq!(installation.phase(failed).await, Phase::Failed);
    for life in wanted.into_iter().chain([failed]) {
        installation.deprovision(life).await;
    }
    // A second kill, during the teardown.
    core.kill().await;
    core.restart().await;
    installation.assert_gone(&lives).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn absent_function_delays_and_fails_nothing() {
    let installation = Installation::on(TestCluster::with_crossplane_alone().await).await;
    let function = installation.crossplane.function();
    let bucket = installation.provision("sample-bucket", &[]).await;
    installation.leave_shell(&bucket).await;
    function.kill().await;
    let _replica = installation.replica();
    // Crossplane retries for minutes before it reports the failure.
    until("Crossplane to take it up", || async {
        let finalizers = installation.composite(&bucket).await?.finalizers().to_vec();
        finalizers.iter().any(|held| held.starts_with("composite.")).then_some(())
    })
    .await;
    installation.pass(&bucket).await;
    assert_on_its_way(&installation, &bucket).await;
    function.restart().await;
    installation.until(&bucket, Phase::Ready).await;

    // Ready resources stay Ready, and deletion needs no function.
    function.kill().await;
    installation.pass(&bucket).await;
    assert_eq!(installation.phase(&bucket).await, Phase::Ready);
    installation.take_down(&[bucket]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_composition_delays_and_harms_no_ready_resource() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let (blueprint, admin) = (Blueprint::named("mended-machine"), &installation.crossplane.admin);
    let nothing = json!({"apiVersion": "nowhere.example.org/v1", "kind": "Nothing"});
    let broken = altered(&blueprint, "/spec/pipeline/0/input/resources/0/base", nothing);
    blueprint.install_composition(admin, &broken).await;
    let machine = installation.provision("mended-machine", &[]).await;
    until_refused(&installation, &machine).await;
    installation.pass(&machine).await;
    assert_eq!(installation.phase(&machine).await, Phase::Provisioning);
    let told = installation.explain(&machine).await;
    assert_eq!(told["verdict"], "function_failing", "{told}");

    blueprint.install_composition(admin, blueprint.composition()).await;
    installation.until(&machine, Phase::Ready).await;

    // A Ready resource stays Ready with a broken Composition, and can be deleted.
    let broken = altered(&blueprint, "/spec/pipeline/0/functionRef/name", json!("nowhere"));
    blueprint.install_composition(admin, &broken).await;
    until_refused(&installation, &machine).await;
    installation.pass(&machine).await;
    assert_eq!(installation.phase(&machine).await, Phase::Ready);
    let told = installation.explain(&machine).await;
    assert_eq!(told["verdict"], "degraded", "{told}");
    installation.take_down(&[machine]).await;
}

/// The XR is armed and nothing is composed; Crossplane's last condition is about the shell. That is
/// not a failure.
async fn assert_on_its_way(installation: &Installation, life: &Life) {
    assert_eq!(installation.phase(life).await, Phase::Provisioning);
    assert!(installation.composed(life).await.is_empty());
    assert!(installation.is_marked_paused(life).await, "a new condition of Crossplane");
    let told = installation.explain(life).await;
    assert_eq!(told["verdict"], "provisioning", "{told}");
}

fn altered(blueprint: &Blueprint, place: &str, other: Value) -> Value {
    let mut composition = blueprint.composition().clone();
    *composition.pointer_mut(place).unwrap() = other;
    composition
}

async fn until_refused(installation: &Installation, life: &Life) {
    until("Crossplane to refuse the Composition", || async {
        let xr = installation.composite(life).await?;
        let conditions = xr.data.pointer("/status/conditions")?.as_array()?.clone();
        conditions.iter().any(|one| one["reason"] == "ReconcileError").then_some(())
    })
    .await;
}
