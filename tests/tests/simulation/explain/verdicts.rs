//! Every verdict: its scene, who has to act, what to do next, and that doing so lets the resource go on.

use std::collections::BTreeSet;

use broker_app::explain::{Party, Verdict};
use broker_domain::Phase;

use super::follow::follow;
use super::scenes;

/// Each verdict with the party and the kind of the next action, written down a second time.
const EXPECTED: &[(Verdict, Party, &str)] = &[
    (Verdict::Ready, Party::Nobody, "wait"),
    (Verdict::Declared, Party::Nobody, "wait"),
    (Verdict::Provisioning, Party::Nobody, "wait"),
    (Verdict::Enrolling, Party::Nobody, "wait"),
    (Verdict::Draining, Party::Nobody, "wait"),
    (Verdict::Deprovisioning, Party::Nobody, "wait"),
    (Verdict::RollingBack, Party::Nobody, "wait"),
    (Verdict::RetryPending, Party::Nobody, "wait"),
    (Verdict::PassUnderWay, Party::Nobody, "wait"),
    (Verdict::CompositeMissing, Party::Nobody, "wait"),
    (Verdict::Deleted, Party::Nobody, "wait"),
    (Verdict::Failed, Party::Caller, "replace"),
    (Verdict::Abandoned, Party::Platform, "clean_up"),
    (Verdict::PausedHere, Party::Platform, "resume"),
    (Verdict::DryRun, Party::Platform, "leave_dry_run"),
    (Verdict::Brake, Party::Platform, "release_brake"),
    (Verdict::LeaseLeftBehind, Party::Nobody, "wait"),
    (Verdict::NoReplica, Party::Platform, "start_replicas"),
    (Verdict::PassFailing, Party::Platform, "mend_pass"),
    (Verdict::OutboxPoisoned, Party::Platform, "resume_events"),
    (Verdict::StoreUnreachable, Party::Platform, "restore_store"),
    (Verdict::CollaboratorUnreachable, Party::Platform, "restore_collaborator"),
    (Verdict::Unknown, Party::Platform, "ask_again"),
    (Verdict::BlueprintMissing, Party::Platform, "restore_reference"),
    (Verdict::BlueprintUnreadable, Party::Platform, "mend_pass"),
    (Verdict::CredentialMissing, Party::Platform, "restore_reference"),
    (Verdict::CloudMissing, Party::Platform, "restore_reference"),
    (Verdict::ResourceMissing, Party::Platform, "restore_reference"),
    (Verdict::AssignmentMissing, Party::Platform, "restore_reference"),
    (Verdict::CannotRender, Party::Platform, "mend_pass"),
    (Verdict::NamespaceNotReady, Party::Platform, "ready_namespace"),
    (Verdict::NamespaceAbsent, Party::Platform, "create_namespace"),
    (Verdict::NamespaceTerminating, Party::Platform, "replace_namespace"),
    (Verdict::KindMissing, Party::Platform, "install_kind"),
    (Verdict::ClusterUnreachable, Party::Platform, "reach_cluster"),
    (Verdict::ClusterUnauthenticated, Party::Platform, "renew_credentials"),
    (Verdict::WrongCluster, Party::Platform, "connect_to"),
    (Verdict::Forbidden, Party::Platform, "grant_right"),
    (Verdict::SchemaRefused, Party::Platform, "align_schema"),
    (Verdict::WebhookRefused, Party::Platform, "mend_webhook"),
    (Verdict::OwnershipConflict, Party::Platform, "stop_rivals"),
    (Verdict::ArmingForeign, Party::Platform, "delete_composite"),
    (Verdict::CompositionForeign, Party::Platform, "pin_composition"),
    (Verdict::PausedOnCluster, Party::Platform, "unpause"),
    (Verdict::FunctionFailing, Party::Platform, "mend_composition"),
    (Verdict::ComposedNotReady, Party::Cloud, "mend_composed"),
    (Verdict::CompositeNotReady, Party::Platform, "mend_composition"),
    (Verdict::ProviderSilent, Party::Platform, "start_provider"),
    (Verdict::ProviderConfigMissing, Party::Platform, "mend_provider_config"),
    (Verdict::ProviderSecretMissing, Party::Platform, "restore_secret"),
    (Verdict::QuotaExceeded, Party::Cloud, "raise_quota"),
    (Verdict::Drifted, Party::Platform, "undo_change"),
    (Verdict::Degraded, Party::Platform, "mend_composition"),
    (Verdict::CompositeBeingDeleted, Party::Nobody, "wait"),
    (Verdict::NodeNeverCalled, Party::Caller, "look_at_agent"),
    (Verdict::TokenExpired, Party::Caller, "replace"),
    (Verdict::TokenInvalid, Party::Caller, "replace"),
    (Verdict::NodeLost, Party::Caller, "replace"),
    (Verdict::MeshUnreachable, Party::Platform, "reach_mesh"),
    (Verdict::DeregistrationFailed, Party::Platform, "mend_draining"),
    (Verdict::PeerWillNotDrain, Party::Platform, "drain_peer"),
    (Verdict::Usage, Party::Platform, "remove_usage"),
    (Verdict::ForeignFinalizer, Party::Platform, "remove_finalizer"),
    (Verdict::ComposedRemains, Party::Cloud, "mend_composed"),
    (Verdict::CompositeRemains, Party::Platform, "finish_deletion"),
];

#[test]
fn the_table_has_every_verdict() {
    let told: BTreeSet<_> = EXPECTED.iter().map(|(verdict, ..)| *verdict).collect();
    let all: BTreeSet<_> = Verdict::ALL.iter().copied().collect();
    assert_eq!(told, all);
}

#[tokio::test]
async fn each_scene_has_its_verdict_its_party_and_its_next_action() {
    for (verdict, party, action) in EXPECTED {
        let scene = scenes::of(*verdict).await;
        let explained = scene.explain().await;
        let found = (explained.verdict, explained.party, explained.action.kind());
        assert_eq!(found, (*verdict, *party, *action), "{explained}");
    }
}

/// So many rounds are enough for any resource that nothing stands in the way of.
const ENOUGH: usize = 12;

#[tokio::test]
async fn following_the_next_action_lets_the_resource_go_on() {
    for (verdict, ..) in EXPECTED {
        let mut scene = scenes::of(*verdict).await;
        let before = scene.explain().await;
        follow(&mut scene, &before.action).await;
        scene.rounds(ENOUGH).await;
        let after = scene.explain().await;
        let over = [Verdict::Ready, Verdict::Deleted, Verdict::Abandoned];
        assert!(
            over.contains(&after.verdict),
            "{verdict}, after {}, came to {}: {after}",
            before.action.kind(),
            after.verdict
        );
        let ended = [Phase::Ready, Phase::Deleted];
        assert!(after.phase.is_some_and(|phase| ended.contains(&phase)), "{verdict}: {after}");
    }
}
