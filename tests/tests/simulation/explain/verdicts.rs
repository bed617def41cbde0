//! Every verdict: its scene, its party, the next action, and that the action lets the resource
//! proceed.

use std::collections::BTreeSet;

use broker_app::explain::{Party, Verdict};
use broker_domain::{OnFailure, Phase};
use broker_memory::{Behaviour, Verb};
use broker_tests::world::operator;

use super::follow::follow;
use super::scenes::{self, Place};
use super::words;

/// Each verdict, the state of its resource, the party, and the kind of the next action.
pub(super) const EXPECTED: &[(Verdict, Place, Party, &str)] = {
    use Party::{Caller, Cloud, None, Platform};
    use Place::{At, Composing, Failing, Leaving, WithSize};
    use Verdict::*;
    const SLOW: fn() -> Behaviour = || Behaviour::ready_after(9);
    const NEEDS_CONFIG: fn() -> Behaviour = || Behaviour::ready_after(9).needing_provider_config();
    &[
        (Ready, At(Phase::Ready), None, "wait"),
        (Declared, At(Phase::Pending), None, "wait"),
        (Provisioning, Composing(|| Behaviour::ready_after(4)), None, "wait"),
        (Enrolling, At(Phase::Enrolling), None, "wait"),
        (Draining, Leaving, None, "wait"),
        (Deprovisioning, Leaving, None, "wait"),
        (RollingBack, Failing(OnFailure::Rollback), None, "wait"),
        (RetryPending, At(Phase::Pending), None, "wait"),
        (PassUnderWay, At(Phase::Pending), None, "wait"),
        (CompositeMissing, At(Phase::Ready), None, "wait"),
        (Deleted, Leaving, None, "wait"),
        (Failed, Failing(OnFailure::Retain), Caller, "replace"),
        (Abandoned, Leaving, Platform, "clean_up"),
        (PausedHere, At(Phase::Pending), Platform, "resume"),
        (DryRun, At(Phase::Pending), Platform, "leave_dry_run"),
        (Brake, At(Phase::Pending), Platform, "release_brake"),
        (LeaseLeftBehind, At(Phase::Pending), None, "wait"),
        (NoReplica, At(Phase::Pending), Platform, "start_replicas"),
        (PassFailing, At(Phase::Pending), Platform, "mend_pass"),
        (OutboxPoisoned, At(Phase::Ready), Platform, "redrive_events"),
        (StoreUnreachable, At(Phase::Ready), Platform, "restore_store"),
        (CollaboratorUnreachable, At(Phase::Ready), Platform, "restore_collaborator"),
        (Unknown, At(Phase::Ready), Platform, "ask_again"),
        (BlueprintMissing, At(Phase::Ready), Platform, "restore_reference"),
        (BlueprintUnreadable, At(Phase::Ready), Platform, "mend_pass"),
        (CredentialMissing, At(Phase::Pending), Platform, "restore_reference"),
        (CloudMissing, At(Phase::Pending), Platform, "restore_reference"),
        (ResourceMissing, At(Phase::Pending), Platform, "restore_reference"),
        (AssignmentMissing, At(Phase::Pending), Platform, "restore_reference"),
        (CannotRender, WithSize, Platform, "mend_pass"),
        (NamespaceNotReady, At(Phase::Pending), Platform, "ready_namespace"),
        (NamespaceAbsent, At(Phase::Pending), Platform, "create_namespace"),
        (NamespaceTerminating, At(Phase::Pending), Platform, "replace_namespace"),
        (KindMissing, At(Phase::Pending), Platform, "install_kind"),
        (ClusterUnreachable, At(Phase::Ready), Platform, "reach_cluster"),
        (ClusterUnauthenticated, At(Phase::Ready), Platform, "renew_credentials"),
        (WrongCluster, At(Phase::Ready), Platform, "connect_to"),
        (Forbidden, At(Phase::Pending), Platform, "grant_right"),
        (SchemaRefused, WithSize, Platform, "align_schema"),
        (WebhookRefused, At(Phase::Pending), Platform, "mend_webhook"),
        (OwnershipConflict, WithSize, Platform, "stop_rivals"),
        (ArmingForeign, Composing(Behaviour::never_ready), Platform, "delete_composite"),
        (CompositionForeign, Composing(Behaviour::never_ready), Platform, "pin_composition"),
        (PausedOnCluster, Composing(SLOW), Platform, "unpause"),
        (FunctionFailing, Composing(Behaviour::never_ready), Platform, "mend_composition"),
        (ComposedNotReady, Composing(Behaviour::never_ready), Cloud, "mend_composed"),
        (CompositeNotReady, Composing(|| Behaviour::ready_after(3)), Platform, "mend_composition"),
        (ProviderSilent, At(Phase::Pending), Platform, "start_provider"),
        (ProviderConfigMissing, Composing(NEEDS_CONFIG), Platform, "mend_provider_config"),
        (ProviderSecretMissing, Composing(Behaviour::never_ready), Platform, "restore_secret"),
        (QuotaExceeded, Composing(Behaviour::never_ready), Cloud, "raise_quota"),
        (Drifted, At(Phase::Ready), Platform, "undo_change"),
        (Degraded, At(Phase::Ready), Platform, "mend_composition"),
        (CompositeBeingDeleted, At(Phase::Ready), None, "wait"),
        (NodeNeverCalled, At(Phase::Enrolling), Caller, "look_at_agent"),
        (TokenExpired, At(Phase::Enrolling), Caller, "replace"),
        (TokenInvalid, At(Phase::Enrolling), Caller, "replace"),
        (NodeLost, At(Phase::Ready), Caller, "replace"),
        (MeshUnreachable, Leaving, Platform, "reach_mesh"),
        (DeregistrationFailed, Leaving, Platform, "mend_draining"),
        (PeerWillNotDrain, Leaving, Platform, "drain_peer"),
        (Usage, Leaving, Platform, "remove_usage"),
        (ForeignFinalizer, Leaving, Platform, "remove_finalizer"),
        (ComposedRemains, Leaving, Cloud, "mend_composed"),
        (CompositeRemains, Leaving, Platform, "finish_deletion"),
    ]
};

/// Enough rounds for any resource without a problem.
const ENOUGH: usize = 12;

#[tokio::test]
async fn next_action_of_every_verdict_unblocks_the_resource() {
    let told: BTreeSet<_> = EXPECTED.iter().map(|(verdict, ..)| *verdict).collect();
    assert_eq!(told, Verdict::ALL.iter().copied().collect(), "the table has every verdict");
    let schema = words::schema(0);
    for (verdict, _, party, action) in EXPECTED {
        let mut scene = scenes::of(*verdict).await;
        let before = scene.explain().await;
        let found = (before.verdict, before.party, before.action.kind());
        assert_eq!(found, (*verdict, *party, *action), "{before}");
        words::assert_fits(&before, &schema);

        follow(&mut scene, &before.action).await;
        scene.rounds(ENOUGH).await;
        let after = scene.explain().await;
        let over = [Verdict::Ready, Verdict::Deleted, Verdict::Abandoned];
        assert!(over.contains(&after.verdict), "{verdict}, after {action}, came to {after}");
        let ended = [Phase::Ready, Phase::Deleted];
        assert!(after.phase.is_some_and(|phase| ended.contains(&phase)), "{verdict}: {after}");
    }
}

/// A namespace that is being deleted loses the broker's `RoleBinding` first. That is no missing
/// role.
#[tokio::test]
async fn forbidden_read_in_an_ending_namespace_names_the_namespace() {
    let scene = scenes::of(Verdict::Ready).await;
    let (world, xr) = (&scene.world, scene.xr().await);
    world.service.deprovision(&operator(), scene.id).await.unwrap();
    world.cluster.add_finalizer(&xr, "example.org/held");
    world.cluster.terminate_namespace(xr.namespace().unwrap());
    world.cluster.forbid(Verb::Get, xr.kind());
    while world.round(scene.id).await.is_ok() {}
    let told = scene.explain().await;
    assert_eq!(told.verdict, Verdict::NamespaceTerminating, "{told}");
}
