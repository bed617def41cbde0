//! The lifetime of every blueprint through the binary: imported, declared, Ready, deleted.
//! At the end no object remains on the cluster, and the audit is complete.

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::crossplane::{Blueprint, DeclaredResource, Installation};

use super::required_parameters;

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_becomes_ready_and_is_deleted() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let mut resources: Vec<DeclaredResource> = Vec::new();
    for Blueprint { slug, .. } in Blueprint::samples() {
        resources.push(installation.provision(&slug, required_parameters(&slug)).await);
    }
    assert_eq!(resources.len(), 9, "one for each kind of blueprint");
    let unchecked = ["size=large", "network.cidr=10.0.0.0/24", "network.public=true"];
    resources.push(installation.provision("free-form", &unchecked).await);
    for resource in &resources {
        installation.wait_for_phase(resource, Phase::Ready).await;
    }
    installation.deprovision_all(&resources).await;
    for resource in &resources {
        assert_recorded(&installation, resource).await;
    }
}

/// A function declares a permanent failure: the resource is Failed with that reason, and can still
/// be deleted.
#[tokio::test(flavor = "multi_thread")]
async fn failure_declared_by_a_function_is_terminal() {
    let installation = Installation::new(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let healthy = installation.provision("failing-machine", &[]).await;
    let failing = installation.provision("failing-machine", &["fault=no such machine type"]).await;
    installation.wait_for_phase(&healthy, Phase::Ready).await;
    installation.wait_for_phase(&failing, Phase::Failed).await;
    let failure = installation.get(&failing).await["failure"].clone();
    assert_eq!(failure["reason"], "no such machine type");
    let resources = [healthy, failing];
    installation.deprovision_all(&resources).await;
    let [healthy, failing] = &resources;
    assert_recorded(&installation, healthy).await;
    let phases = installation.phases(failing).await;
    let end = ["Failed", "Deregistering", "Deprovisioning", "Deleted"];
    assert!(phases.ends_with(&end.map(str::to_owned)), "{phases:?}");
    assert!(!phases.iter().any(|phase| phase == "Ready"), "{phases:?}");
    let events = ["Requested", "Failed", "Deleting", "Deleted"].map(event_type);
    assert_eq!(installation.events(failing).await, events);
    assert_teardown_order("failing-machine", &installation.audit(failing).await);
}

async fn assert_recorded(installation: &Installation, resource: &DeclaredResource) {
    let slug = &resource.blueprint.slug;
    let (phases, audit) = (installation.phases(resource).await, installation.audit(resource).await);
    assert_eq!(phases.first().map(String::as_str), Some("Pending"), "{slug}: {phases:?}");
    let end = ["Deregistering", "Deprovisioning", "Deleted"];
    assert!(phases.ends_with(&end.map(str::to_owned)), "{slug}: {phases:?}");
    assert_eq!(installation.get(resource).await["phase"], "Deleted", "{slug}");
    let deregistered = assert_teardown_order(slug, &audit);
    assert_eq!(deregistered, resource.blueprint.is_node(), "{slug}: {audit:?}");
    assert_connected(slug, &installation.phase_changes(resource).await);
    let got_a_token = audit.iter().any(|line| line.starts_with("token_issue"));
    assert_eq!(got_a_token, resource.blueprint.is_node(), "{slug}: {audit:?}");
    let events = installation.events(resource).await;
    let times = |all: &[String], name: &str| all.iter().filter(|other| *other == name).count();
    let ready_changes = times(&phases, "Ready");
    assert!(ready_changes >= 1, "{slug}: {phases:?}");
    assert_eq!(
        times(&events, &event_type("Ready")),
        ready_changes,
        "{slug}: {events:?}, {phases:?}"
    );
    assert_eq!(events.first(), Some(&event_type("Requested")), "{slug}: {events:?}");
    assert!(
        events.ends_with(&["Ready", "Deleting", "Deleted"].map(event_type)),
        "{slug}: {events:?}"
    );
}

fn assert_connected(slug: &str, steps: &[(String, String)]) {
    for pair in steps.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "{slug}: {steps:?}");
    }
}

/// Tokens were closed first, then the Node, if any, was deregistered, then objects were deleted.
/// Returns whether there was a Node.
fn assert_teardown_order(slug: &str, audit: &[String]) -> bool {
    let position = |action: &str| audit.iter().position(|line| line.starts_with(action));
    assert_eq!(position("declared"), Some(0), "{slug}: {audit:?}");
    let close = position("tokens_close").unwrap();
    let delete = position("substrate_delete").unwrap();
    assert!(close < delete, "{slug}: {audit:?}");
    let deregister = position("node_deregister");
    assert!(deregister.is_none_or(|line| close < line && line < delete), "{slug}: {audit:?}");
    deregister.is_some()
}

fn event_type(event: &str) -> String {
    format!("broker.ProvisionedResource{event}")
}
