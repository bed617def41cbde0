//! Every verdict: its fixture, its party and its next action, which unblocks the resource.

use std::collections::BTreeSet;

use broker_app::explain::{Party, Verdict};
use broker_domain::{OnFailure, Phase};
use broker_memory::{Behaviour, Verb};
use broker_tests::world::operator;

use super::problems::{self, InitialState};
use super::remedy::execute;
use super::text;

/// Each verdict, the state of its resource, the party, and the kind of the next action.
pub(super) const EXPECTED: &[(Verdict, InitialState, Party, &str)] = {
    use InitialState::{BeingDeleted, Composing, Failing, InPhase, WithParameters};
    use Party::{Caller, Cloud, None, Platform};
    use Verdict::*;
    const SLOW: fn() -> Behaviour = || Behaviour::ready_after(9);
    const NEEDS_CONFIG: fn() -> Behaviour = || Behaviour::ready_after(9).needing_provider_config();
    &[
        (Ready, InPhase(Phase::Ready), None, "wait"),
        (BlueprintRetired, InPhase(Phase::Ready), None, "wait"),
        (Declared, InPhase(Phase::Pending), None, "wait"),
        (Provisioning, Composing(|| Behaviour::ready_after(4)), None, "wait"),
        (Enrolling, InPhase(Phase::Enrolling), None, "wait"),
        (Draining, BeingDeleted, None, "wait"),
        (Deprovisioning, BeingDeleted, None, "wait"),
        (RollingBack, Failing(OnFailure::Rollback), None, "wait"),
        (RetryPending, InPhase(Phase::Pending), None, "wait"),
        (PassUnderWay, InPhase(Phase::Pending), None, "wait"),
        (CompositeMissing, InPhase(Phase::Ready), None, "wait"),
        (Deleted, BeingDeleted, None, "wait"),
        (Failed, Failing(OnFailure::Retain), Caller, "replace"),
        (Abandoned, BeingDeleted, Platform, "clean_up"),
        (PausedHere, InPhase(Phase::Pending), Platform, "resume"),
        (DryRun, InPhase(Phase::Pending), Platform, "leave_dry_run"),
        (Brake, InPhase(Phase::Pending), Platform, "release_brake"),
        (LeaseLeftBehind, InPhase(Phase::Pending), None, "wait"),
        (NoReplica, InPhase(Phase::Pending), Platform, "start_replicas"),
        (PassFailing, InPhase(Phase::Pending), Platform, "mend_pass"),
        (OutboxPoisoned, InPhase(Phase::Ready), Platform, "redrive_events"),
        (StoreUnreachable, InPhase(Phase::Ready), Platform, "restore_store"),
        (CollaboratorUnreachable, InPhase(Phase::Ready), Platform, "restore_collaborator"),
        (Unknown, InPhase(Phase::Ready), Platform, "ask_again"),
        (BlueprintMissing, InPhase(Phase::Ready), Platform, "restore_reference"),
        (BlueprintUnreadable, InPhase(Phase::Ready), Platform, "mend_pass"),
        (CredentialMissing, InPhase(Phase::Pending), Platform, "restore_reference"),
        (CredentialExpired, InPhase(Phase::Pending), Platform, "restore_reference"),
        (CredentialRevoked, InPhase(Phase::Ready), Platform, "restore_reference"),
        (CredentialNotApproved, InPhase(Phase::Pending), Platform, "restore_reference"),
        (CloudMissing, InPhase(Phase::Pending), Platform, "restore_reference"),
        (ResourceMissing, InPhase(Phase::Pending), Platform, "restore_reference"),
        (AssignmentMissing, InPhase(Phase::Pending), Platform, "restore_reference"),
        (CannotRender, WithParameters, Platform, "mend_pass"),
        (NamespaceNotReady, InPhase(Phase::Pending), Platform, "ready_namespace"),
        (NamespaceAbsent, InPhase(Phase::Pending), Platform, "create_namespace"),
        (NamespaceTerminating, InPhase(Phase::Pending), Platform, "replace_namespace"),
        (KindMissing, InPhase(Phase::Pending), Platform, "install_kind"),
        (ClusterUnreachable, InPhase(Phase::Ready), Platform, "reach_cluster"),
        (ClusterUnauthenticated, InPhase(Phase::Ready), Platform, "renew_credentials"),
        (WrongCluster, InPhase(Phase::Ready), Platform, "connect_to"),
        (Forbidden, InPhase(Phase::Pending), Platform, "grant_right"),
        (SchemaRefused, WithParameters, Platform, "align_schema"),
        (WebhookRefused, InPhase(Phase::Pending), Platform, "mend_webhook"),
        (OwnershipConflict, WithParameters, Platform, "stop_rivals"),
        (ArmingForeign, Composing(Behaviour::never_ready), Platform, "delete_composite"),
        (CompositionForeign, Composing(Behaviour::never_ready), Platform, "pin_composition"),
        (PausedOnCluster, Composing(SLOW), Platform, "unpause"),
        (FunctionFailing, Composing(Behaviour::never_ready), Platform, "mend_composition"),
        (ComposedNotReady, Composing(Behaviour::never_ready), Cloud, "mend_composed"),
        (CompositeNotReady, Composing(|| Behaviour::ready_after(3)), Platform, "mend_composition"),
        (ProviderSilent, InPhase(Phase::Pending), Platform, "start_provider"),
        (ProviderConfigMissing, Composing(NEEDS_CONFIG), Platform, "mend_provider_config"),
        (SharedConfigLeaving, InPhase(Phase::Pending), Platform, "finish_deletion"),
        (ProviderSecretMissing, Composing(Behaviour::never_ready), Platform, "restore_secret"),
        (QuotaExceeded, Composing(Behaviour::never_ready), Cloud, "raise_quota"),
        (Drifted, InPhase(Phase::Ready), Platform, "undo_change"),
        (Degraded, InPhase(Phase::Ready), Platform, "mend_composition"),
        (CompositeBeingDeleted, InPhase(Phase::Ready), None, "wait"),
        (NodeNeverCalled, InPhase(Phase::Enrolling), Caller, "look_at_agent"),
        (TokenExpired, InPhase(Phase::Enrolling), Caller, "replace"),
        (TokenInvalid, InPhase(Phase::Enrolling), Caller, "replace"),
        (NodeLost, InPhase(Phase::Ready), Caller, "replace"),
        (MeshUnreachable, BeingDeleted, Platform, "reach_mesh"),
        (DeregistrationFailed, BeingDeleted, Platform, "mend_draining"),
        (PeerWillNotDrain, BeingDeleted, Platform, "drain_peer"),
        (Usage, BeingDeleted, Platform, "remove_usage"),
        (ForeignFinalizer, BeingDeleted, Platform, "remove_finalizer"),
        (ComposedRemains, BeingDeleted, Cloud, "mend_composed"),
        (CompositeRemains, BeingDeleted, Platform, "finish_deletion"),
    ]
};

/// Enough rounds for any resource without a problem.
const ROUNDS_TO_SETTLE: usize = 12;

#[tokio::test]
async fn next_action_of_every_verdict_unblocks_the_resource() {
    let listed: BTreeSet<_> = EXPECTED.iter().map(|(verdict, ..)| *verdict).collect();
    assert_eq!(listed, Verdict::ALL.iter().copied().collect(), "the table has every verdict");
    let schema = text::schema(0);
    for (verdict, _, party, action) in EXPECTED {
        let mut fixture = problems::fixture_for(*verdict).await;
        let before = fixture.explain().await;
        let found = (before.verdict, before.party, before.action.kind());
        assert_eq!(found, (*verdict, *party, *action), "{before}");
        text::assert_valid_text(&before, &schema);

        execute(&mut fixture, &before.action).await;
        fixture.run_rounds(ROUNDS_TO_SETTLE).await;
        let after = fixture.explain().await;
        let final_verdicts =
            [Verdict::Ready, Verdict::BlueprintRetired, Verdict::Deleted, Verdict::Abandoned];
        assert!(
            final_verdicts.contains(&after.verdict),
            "{verdict}, after {action}, came to {after}"
        );
        let final_phases = [Phase::Ready, Phase::Deleted];
        assert!(
            after.phase.is_some_and(|phase| final_phases.contains(&phase)),
            "{verdict}: {after}"
        );
    }
}

/// A namespace that is being deleted loses the broker's `RoleBinding` first, so the forbidden read
/// proves no missing role.
#[tokio::test]
async fn forbidden_read_in_an_ending_namespace_names_the_namespace() {
    let fixture = problems::fixture_for(Verdict::Ready).await;
    let (world, xr) = (&fixture.world, fixture.xr().await);
    world.service.deprovision(&operator(), fixture.id).await.unwrap();
    world.cluster.add_finalizer(&xr, "example.org/held");
    world.cluster.terminate_namespace(xr.namespace().unwrap());
    world.cluster.forbid(Verb::Get, xr.kind());
    while world.round(fixture.id).await.is_ok() {}
    let explanation = fixture.explain().await;
    assert_eq!(explanation.verdict, Verdict::NamespaceTerminating, "{explanation}");
}
