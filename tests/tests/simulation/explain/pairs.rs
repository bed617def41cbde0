//! Two causes at once: the verdict is the one whose removal lets the resource go on.
//!
//! Each row is laid twice over. Taking the other cause away leaves the verdict as it is; taking the verdict's
//! away lets the resource go on, to its end or to the other cause. What takes a cause away is the next action that its own
//! scene names.

use broker_app::explain::Verdict;
use broker_domain::Phase;
use broker_memory::Behaviour;

use super::follow::follow;
use super::scene::Scene;
use super::scenes::{self, Place};

/// Why, where, the cause that decides, the other one.
const PAIRS: &[(&str, Place, Verdict, Verdict)] = {
    use Place::Leaving;
    use Verdict::*;
    const DECLARED: Place = Place::At(Phase::Pending);
    const COMPOSING: Place = Place::Composing(Behaviour::never_ready);
    &[
        ("no pass looks at a paused one", DECLARED, PausedHere, Forbidden),
        ("nor at its namespace", DECLARED, PausedHere, NamespaceNotReady),
        ("nor at a cluster that is away", DECLARED, PausedHere, ClusterUnreachable),
        ("references come before the namespace", DECLARED, CredentialMissing, NamespaceNotReady),
        ("the cluster comes before them", DECLARED, ClusterUnreachable, CredentialMissing),
        ("and so does its kind", DECLARED, KindMissing, CredentialMissing),
        ("a credential comes before its cloud", DECLARED, CredentialMissing, CloudMissing),
        ("nobody to ask comes before the brake", DECLARED, CollaboratorUnreachable, Brake),
        ("a silent cluster hides its namespace", DECLARED, ClusterUnreachable, NamespaceNotReady),
        ("and what the brake is about", DECLARED, ClusterUnreachable, Brake),
        ("one that does not know us, too", DECLARED, ClusterUnauthenticated, NamespaceAbsent),
        ("a kind comes before its objects' home", DECLARED, KindMissing, NamespaceNotReady),
        ("and before creating one", DECLARED, KindMissing, Brake),
        ("the brake holds for every namespace", DECLARED, Brake, NamespaceNotReady),
        ("nothing is sent into a closed namespace", DECLARED, NamespaceNotReady, WebhookRefused),
        ("nor is one asked for that is not ready", DECLARED, NamespaceNotReady, NamespaceAbsent),
        ("events wait, a resource does not", DECLARED, Forbidden, OutboxPoisoned),
        ("whoever refuses it", DECLARED, WebhookRefused, OutboxPoisoned),
        ("no pass looks at what Crossplane says", COMPOSING, PausedHere, FunctionFailing),
        ("a pass that applies needs its references", COMPOSING, CredentialMissing, PausedOnCluster),
        ("and asks for the Node before them", COMPOSING, MeshUnreachable, CredentialMissing),
        ("another cluster's objects say nothing", COMPOSING, WrongCluster, FunctionFailing),
        ("a paused one is not composed", COMPOSING, PausedOnCluster, ComposedNotReady),
        ("events are no part of the substrate", COMPOSING, FunctionFailing, OutboxPoisoned),
        ("what stands needs no open namespace", COMPOSING, ComposedNotReady, NamespaceNotReady),
        ("nor is it held by the brake", COMPOSING, FunctionFailing, Brake),
        ("whatever keeps it", COMPOSING, QuotaExceeded, Brake),
        ("a pass asks for the Node in any case", COMPOSING, MeshUnreachable, ComposedNotReady),
        ("events wait for nothing here", Leaving, ForeignFinalizer, OutboxPoisoned),
        ("a pause holds nothing that was let go of", Leaving, ForeignFinalizer, PausedOnCluster),
        ("a teardown needs no credential", Leaving, ForeignFinalizer, CredentialMissing),
        ("nor an open namespace", Leaving, ForeignFinalizer, NamespaceNotReady),
        ("a silent cluster hides the finalizer", Leaving, ClusterUnreachable, ForeignFinalizer),
        ("the Node goes first", Leaving, MeshUnreachable, Usage),
        ("a teardown is not held by the brake", Leaving, Usage, Brake),
    ]
};

async fn laid(place: Place, first: Verdict, other: Verdict) -> Scene {
    let mut scene = scenes::at(place).await;
    let mut causes = [other, first];
    // It holds what goes, which has to begin before anything else keeps it from that.
    causes.sort_by_key(|cause| *cause != Verdict::ForeignFinalizer);
    for cause in causes {
        scenes::lay(&mut scene, cause).await;
    }
    scene.rounds(3).await;
    scene
}

/// Takes a cause away. The resource of its own scene has the same id.
async fn lift(scene: &mut Scene, cause: Verdict) {
    let action = scenes::of(cause).await.explain().await.action;
    follow(scene, &action).await;
}

#[tokio::test]
async fn the_verdict_is_the_cause_whose_removal_lets_it_go_on() {
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
