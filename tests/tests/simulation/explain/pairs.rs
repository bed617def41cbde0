//! Two causes at once: the verdict is the one whose removal lets the resource proceed.
//!
//! Each row is tested twice. Removing the other cause does not change the verdict; removing the
//! verdict's cause lets the resource proceed, to its end or to the other cause. A cause is removed
//! by the next action of its own scene.

use broker_app::explain::Verdict;
use broker_domain::Phase;
use broker_memory::Behaviour;

use super::follow::follow;
use super::scene::Scene;
use super::scenes::{self, Place};

/// The reason, the place, the deciding cause, the other cause.
const PAIRS: &[(&str, Place, Verdict, Verdict)] = {
    use Place::Leaving;
    use Verdict::*;
    const DECLARED: Place = Place::At(Phase::Pending);
    const COMPOSING: Place = Place::Composing(Behaviour::never_ready);
    &[
        ("a paused resource gets no pass", DECLARED, PausedHere, Forbidden),
        ("its namespace is not read", DECLARED, PausedHere, NamespaceNotReady),
        ("an unreachable cluster is not noticed", DECLARED, PausedHere, ClusterUnreachable),
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
        ("a kind comes before its namespace", DECLARED, KindMissing, NamespaceNotReady),
        ("a kind comes before the brake", DECLARED, KindMissing, Brake),
        ("the brake holds for every namespace", DECLARED, Brake, NamespaceNotReady),
        ("no request reaches a closed namespace", DECLARED, NamespaceNotReady, WebhookRefused),
        ("an unready namespace is not requested", DECLARED, NamespaceNotReady, NamespaceAbsent),
        ("stuck events do not block a resource", DECLARED, Forbidden, OutboxPoisoned),
        ("nor do they hide a webhook", DECLARED, WebhookRefused, OutboxPoisoned),
        ("a paused resource is not read", COMPOSING, PausedHere, FunctionFailing),
        ("a pass that applies needs its references", COMPOSING, CredentialMissing, PausedOnCluster),
        ("the Node is read before references", COMPOSING, MeshUnreachable, CredentialMissing),
        ("another cluster's objects prove nothing", COMPOSING, WrongCluster, FunctionFailing),
        ("a paused one is not composed", COMPOSING, PausedOnCluster, ComposedNotReady),
        ("stuck events do not affect substrate", COMPOSING, FunctionFailing, OutboxPoisoned),
        ("an existing XR needs no open namespace", COMPOSING, ComposedNotReady, NamespaceNotReady),
        ("the brake does not block it", COMPOSING, FunctionFailing, Brake),
        ("nor any other cause", COMPOSING, QuotaExceeded, Brake),
        ("every pass reads the Node", COMPOSING, MeshUnreachable, ComposedNotReady),
        ("stuck events do not block a teardown", Leaving, ForeignFinalizer, OutboxPoisoned),
        ("a pause does not hold a finalized XR", Leaving, ForeignFinalizer, PausedOnCluster),
        ("a teardown needs no credential", Leaving, ForeignFinalizer, CredentialMissing),
        ("a teardown needs no open namespace", Leaving, ForeignFinalizer, NamespaceNotReady),
        ("a silent cluster hides the finalizer", Leaving, ClusterUnreachable, ForeignFinalizer),
        ("the Node leaves first", Leaving, MeshUnreachable, Usage),
        ("the brake does not block a teardown", Leaving, Usage, Brake),
    ]
};

async fn laid(place: Place, first: Verdict, other: Verdict) -> Scene {
    let mut scene = scenes::at(place).await;
    let mut causes = [other, first];
    // A finalizer holds an object that is being deleted, so the deletion must begin before another
    // cause prevents it.
    causes.sort_by_key(|cause| *cause != Verdict::ForeignFinalizer);
    for cause in causes {
        scenes::lay(&mut scene, cause).await;
    }
    scene.rounds(3).await;
    scene
}

/// Removes a cause. The resource of its own scene has the same id.
async fn lift(scene: &mut Scene, cause: Verdict) {
    let action = scenes::of(cause).await.explain().await.action;
    follow(scene, &action).await;
}

#[tokio::test]
async fn verdict_is_the_cause_whose_removal_unblocks_the_resource() {
    for (why, place, first, other) in PAIRS.iter().copied() {
        let mut scene = Box::pin(laid(place, first, other)).await;
        let both = scene.explain().await;
        assert_eq!(both.verdict, first, "{why}: {both}");

        Box::pin(lift(&mut scene, other)).await;
        scene.rounds(2).await;
        let without_other = scene.explain().await;
        assert_eq!(without_other.verdict, first, "{why}, without {other}");

        let mut scene = Box::pin(laid(place, first, other)).await;
        let phase = scene.resource().await.phase();
        Box::pin(lift(&mut scene, first)).await;
        scene.rounds(4).await;
        let without_first = scene.explain().await;
        let moved = scene.resource().await.phase() != phase;
        let on_to_the_other = without_first.verdict == other;
        assert!(moved || on_to_the_other, "{why}, without {first}: {without_first}");
        assert_ne!(without_first.verdict, first, "{why}: {without_first}");
    }
}
