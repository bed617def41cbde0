//! Two causes at once: the verdict is the one whose removal lets the resource proceed.
//!
//! Each row is tested twice. Without the other cause, the verdict is unchanged. Without the deciding
//! cause, the resource proceeds, at least to the other cause. The remedy of a cause is that of a
//! fixture with this cause alone.

use broker_app::explain::Verdict;
use broker_domain::Phase;
use broker_memory::Behaviour;

use super::fixture::Fixture;
use super::problems::{self, InitialState};
use super::remedy::execute;

/// The reason, the initial state, the deciding cause, the other cause.
const PAIRS: &[(&str, InitialState, Verdict, Verdict)] = {
    use InitialState::BeingDeleted;
    use Verdict::*;
    const DECLARED: InitialState = InitialState::InPhase(Phase::Pending);
    const COMPOSING: InitialState = InitialState::Composing(Behaviour::never_ready);
    &[
        ("a paused resource gets no pass", DECLARED, PausedHere, Forbidden),
        ("a paused resource reads no namespace", DECLARED, PausedHere, NamespaceNotReady),
        ("a paused resource reads no cluster", DECLARED, PausedHere, ClusterUnreachable),
        ("references come before the namespace", DECLARED, CredentialMissing, NamespaceNotReady),
        ("the cluster comes before references", DECLARED, ClusterUnreachable, CredentialMissing),
        ("the kind comes before references", DECLARED, KindMissing, CredentialMissing),
        ("a credential comes before its cloud", DECLARED, CredentialMissing, CloudMissing),
        ("a collaborator comes before the brake", DECLARED, CollaboratorUnreachable, Brake),
        ("a silent cluster hides its namespace", DECLARED, ClusterUnreachable, NamespaceNotReady),
        ("a silent cluster hides the losses", DECLARED, ClusterUnreachable, Brake),
        (
            "a refusing cluster hides its namespace",
            DECLARED,
            ClusterUnauthenticated,
            NamespaceAbsent,
        ),
        ("a namespace comes before the withdrawal", DECLARED, NamespaceNotReady, CredentialRevoked),
        ("an armed XR outlives its credential", COMPOSING, ComposedNotReady, CredentialRevoked),
        ("a teardown outlives its credential", BeingDeleted, ForeignFinalizer, CredentialRevoked),
        ("a kind comes before its namespace", DECLARED, KindMissing, NamespaceNotReady),
        ("a kind comes before the brake", DECLARED, KindMissing, Brake),
        ("the brake holds for every namespace", DECLARED, Brake, NamespaceNotReady),
        ("no request reaches a closed namespace", DECLARED, NamespaceNotReady, WebhookRefused),
        ("an unready namespace is not requested", DECLARED, NamespaceNotReady, NamespaceAbsent),
        ("stuck events do not block a resource", DECLARED, Forbidden, OutboxPoisoned),
        ("stuck events do not hide a webhook refusal", DECLARED, WebhookRefused, OutboxPoisoned),
        ("a paused resource reads no XR", COMPOSING, PausedHere, FunctionFailing),
        ("a pass that applies needs its references", COMPOSING, CredentialMissing, PausedOnCluster),
        ("the Node is read before references", COMPOSING, MeshUnreachable, CredentialMissing),
        ("another cluster's objects prove nothing", COMPOSING, WrongCluster, FunctionFailing),
        ("a paused XR composes nothing", COMPOSING, PausedOnCluster, ComposedNotReady),
        ("stuck events do not affect substrate", COMPOSING, FunctionFailing, OutboxPoisoned),
        ("an existing XR needs no open namespace", COMPOSING, ComposedNotReady, NamespaceNotReady),
        ("the brake does not block an existing XR", COMPOSING, FunctionFailing, Brake),
        ("the brake does not block a composed object", COMPOSING, QuotaExceeded, Brake),
        ("every pass reads the Node", COMPOSING, MeshUnreachable, ComposedNotReady),
        ("stuck events do not block a teardown", BeingDeleted, ForeignFinalizer, OutboxPoisoned),
        ("a pause does not hold a finalized XR", BeingDeleted, ForeignFinalizer, PausedOnCluster),
        ("a teardown needs no credential", BeingDeleted, ForeignFinalizer, CredentialMissing),
        ("a teardown needs no open namespace", BeingDeleted, ForeignFinalizer, NamespaceNotReady),
        (
            "a silent cluster hides the finalizer",
            BeingDeleted,
            ClusterUnreachable,
            ForeignFinalizer,
        ),
        ("the Node is deregistered first", BeingDeleted, MeshUnreachable, Usage),
        ("the brake does not block a teardown", BeingDeleted, Usage, Brake),
    ]
};

async fn fixture_with(state: InitialState, first: Verdict, other: Verdict) -> Fixture {
    let mut fixture = problems::fixture_in(state).await;
    let mut causes = [other, first];
    // A finalizer holds an object that is being deleted, so the deletion must begin before another
    // cause prevents it.
    causes.sort_by_key(|cause| *cause != Verdict::ForeignFinalizer);
    for cause in causes {
        problems::create(&mut fixture, cause).await;
    }
    fixture.run_rounds(3).await;
    fixture
}

/// Removes a cause with the remedy of another fixture, whose resource has the same id.
async fn remove_cause(fixture: &mut Fixture, cause: Verdict) {
    let action = problems::fixture_for(cause).await.explain().await.action;
    execute(fixture, &action).await;
}

#[tokio::test]
async fn removal_of_the_named_cause_unblocks_the_resource() {
    for (why, state, first, other) in PAIRS.iter().copied() {
        let mut fixture = Box::pin(fixture_with(state, first, other)).await;
        let both = fixture.explain().await;
        assert_eq!(both.verdict, first, "{why}: {both}");

        Box::pin(remove_cause(&mut fixture, other)).await;
        fixture.run_rounds(2).await;
        let without_other = fixture.explain().await;
        assert_eq!(without_other.verdict, first, "{why}, without {other}");

        let mut fixture = Box::pin(fixture_with(state, first, other)).await;
        let phase = fixture.resource().await.phase();
        Box::pin(remove_cause(&mut fixture, first)).await;
        fixture.run_rounds(4).await;
        let without_first = fixture.explain().await;
        let moved = fixture.resource().await.phase() != phase;
        let at_other_cause = without_first.verdict == other;
        assert!(moved || at_other_cause, "{why}, without {first}: {without_first}");
        assert_ne!(without_first.verdict, first, "{why}: {without_first}");
    }
}
