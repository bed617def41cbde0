//! The lifetime of every blueprint through the binary: imported, declared, Ready, deleted.
//! Afterwards nothing is left on the cluster, and the audit is complete.

use broker_domain::Phase;
use broker_tests::TestCluster;
use broker_tests::crossplane::{Blueprint, Installation, Life};

use super::required;

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_becomes_ready_and_is_deleted() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let mut lives: Vec<Life> = Vec::new();
    for Blueprint { slug, .. } in Blueprint::samples() {
        lives.push(installation.provision(&slug, required(&slug)).await);
    }
    assert_eq!(lives.len(), 9, "one for each kind of blueprint");
    for life in &lives {
        installation.until(life, Phase::Ready).await;
    }
    installation.take_down(&lives).await;
    for life in &lives {
        assert_told(&installation, life).await;
    }
}

/// A function declares a permanent failure: the resource is Failed with that reason, and can still
/// be deleted.
#[tokio::test(flavor = "multi_thread")]
async fn failure_declared_by_a_function_is_terminal() {
    let installation = Installation::on(TestCluster::with_crossplane().await).await;
    let _replica = installation.replica();
    let _agents = installation.boot_agents();
    let well = installation.provision("failing-machine", &[]).await;
    let failing = installation.provision("failing-machine", &["fault=no such machine type"]).await;
    installation.until(&well, Phase::Ready).await;
    installation.until(&failing, Phase::Failed).await;
    let failure = installation.get(&failing).await["failure"].clone();
    assert_eq!(failure["reason"], "no such machine type");
    let lives = [well, failing];
    installation.take_down(&lives).await;
    let [well, failing] = &lives;
    assert_told(&installation, well).await;
    let phases = installation.phases(failing).await;
    let end = ["Failed", "Deregistering", "Deprovisioning", "Deleted"];
    assert!(phases.ends_with(&end.map(str::to_owned)), "{phases:?}");
    assert!(!phases.iter().any(|phase| phase == "Ready"), "{phases:?}");
    let events = ["Requested", "Failed", "Deleting", "Deleted"].map(named);
    assert_eq!(installation.events(failing).await, events);
    assert_taken_down("failing-machine", &installation.audit(failing).await);
}

async fn assert_told(installation: &Installation, life: &Life) {
    let slug = &life.blueprint.slug;
    let (phases, audit) = (installation.phases(life).await, installation.audit(life).await);
    assert_eq!(phases.first().map(String::as_str), Some("Pending"), "{slug}: {phases:?}");
    let end = ["Deregistering", "Deprovisioning", "Deleted"];
    assert!(phases.ends_with(&end.map(str::to_owned)), "{slug}: {phases:?}");
    assert_eq!(installation.get(life).await["phase"], "Deleted", "{slug}");
    let deregistered = assert_taken_down(slug, &audit);
    assert_eq!(deregistered, life.blueprint.is_node(), "{slug}: {audit:?}");
    assert_joined(slug, &installation.steps(life).await);
    let was_given_a_token = audit.iter().any(|line| line.starts_with("token_issue"));
    assert_eq!(was_given_a_token, life.blueprint.is_node(), "{slug}: {audit:?}");
    let events = installation.events(life).await;
    let times = |all: &[String], name: &str| all.iter().filter(|one| *one == name).count();
    let crossings = times(&phases, "Ready");
    assert!(crossings >= 1, "{slug}: {phases:?}");
    assert_eq!(times(&events, &named("Ready")), crossings, "{slug}: {events:?}, {phases:?}");
    assert_eq!(events.first(), Some(&named("Requested")), "{slug}: {events:?}");
    assert!(events.ends_with(&["Ready", "Deleting", "Deleted"].map(named)), "{slug}: {events:?}");
}

fn assert_joined(slug: &str, steps: &[(String, String)]) {
    for pair in steps.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "{slug}: {steps:?}");
    }
}

/// Tokens were closed first, then the Node, if any, was deregistered, then objects were deleted.
/// Returns whether there was a Node.
fn assert_taken_down(slug: &str, audit: &[String]) -> bool {
    let place = |action: &str| audit.iter().position(|line| line.starts_with(action));
    assert_eq!(place("declared"), Some(0), "{slug}: {audit:?}");
    let close = place("tokens_close").unwrap();
    let delete = place("substrate_delete").unwrap();
    assert!(close < delete, "{slug}: {audit:?}");
    let deregister = place("node_deregister");
    assert!(deregister.is_none_or(|it| close < it && it < delete), "{slug}: {audit:?}");
    deregister.is_some()
}

fn named(event: &str) -> String {
    format!("broker.ProvisionedResource{event}")
}
