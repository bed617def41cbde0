//! Each source of facts removed in turn: missing facts are reported as unknown, and never turn into
//! a new certainty.

use std::collections::BTreeMap;

use broker_app::explain::{Explanation, FactStatus, Verdict};
use broker_memory::Verb;
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan};

use super::scene::Scene;
use super::scenes;

/// A source, and the verdict that names it where every pass needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Port(PortName, &'static str),
    OnCluster(&'static str, &'static str),
}

const SOURCES: &[(Source, Option<Verdict>)] = {
    use Source::{OnCluster, Port};
    const SILENT: Option<Verdict> = Some(Verdict::CollaboratorUnreachable);
    &[
        (Port(PortName::Repository, "get_by_id"), Some(Verdict::StoreUnreachable)),
        (Port(PortName::Repository, "history"), None),
        (Port(PortName::Schedule, "entry"), None),
        (Port(PortName::Schedule, "brakes"), None),
        (Port(PortName::Outbox, "dead_letter_events"), None),
        (Port(PortName::TokenIssuer, "state"), None),
        (Port(PortName::NodeDeregistrar, "node_registered"), Some(Verdict::MeshUnreachable)),
        (Port(PortName::BlueprintResolver, "resolve"), SILENT),
        (Port(PortName::CredentialResolver, "resolve"), SILENT),
        (Port(PortName::CloudResolver, "resolve"), SILENT),
        (Port(PortName::LabelTagResolver, "resolve"), SILENT),
        (Port(PortName::AssignmentReader, "read"), SILENT),
        (Port(PortName::Cluster, "inspect"), Some(Verdict::ClusterUnreachable)),
        (OnCluster("get", "Namespace"), None),
        (OnCluster("get", "Machine"), None),
        (OnCluster("get", "Cluster"), None),
        (OnCluster("get", "ProviderConfig"), None),
        (OnCluster("get", "NopResource"), None),
        (OnCluster("list", "Event"), None),
    ]
};

async fn without(scene: &Scene, source: Source) -> Explanation {
    match source {
        Source::Port(port, method) => {
            let plan = FaultPlan::none().from_call(port, method, 1, Fault::BeforeEffect);
            scene.explain_under(plan).await
        }
        Source::OnCluster(verb, kind) => {
            let verb = if verb == "get" { Verb::Get } else { Verb::List };
            scene.world.cluster.forbid(verb, kind);
            let explained = scene.explain().await;
            scene.world.cluster.allow_everything();
            explained
        }
    }
}

fn unknown_lines(explained: &Explanation) -> usize {
    let unknown = |standing: &FactStatus| matches!(standing, FactStatus::Unknown(_));
    explained.facts.iter().filter(|fact| unknown(&fact.status)).count()
}

#[tokio::test]
async fn missing_facts_never_become_a_certainty() {
    let mut missed: BTreeMap<Source, usize> = BTreeMap::new();
    let mut unknown: BTreeMap<Source, usize> = BTreeMap::new();
    for verdict in Verdict::ALL.iter().copied() {
        let scene = scenes::of(verdict).await;
        // The remedy would restore rights that the scene itself removed.
        let about_rights = matches!(verdict, Verdict::Forbidden | Verdict::Unknown);
        let before = scene.explain().await;
        for (source, blamed) in SOURCES.iter().copied() {
            if about_rights && matches!(source, Source::OnCluster(..)) {
                continue;
            }
            let after = without(&scene, source).await;
            let honest = after.verdict == before.verdict
                || after.verdict == Verdict::Unknown
                || Some(after.verdict) == blamed;
            assert!(honest, "{verdict} without {source:?} became {}:\n{after}", after.verdict);
            *missed.entry(source).or_default() +=
                usize::from(unknown_lines(&after) > unknown_lines(&before));
            *unknown.entry(source).or_default() += usize::from(after.verdict != before.verdict);
        }
    }
    for (source, _) in SOURCES {
        assert!(missed[source] > 0, "{source:?} is unknown in no scene");
    }
    // A source that only adds details changes no verdict; every other source decides somewhere. A
    // ProviderConfig decides only after everything else is gone, where no scene stops.
    let decoration = [
        Source::Port(PortName::Repository, "history"),
        Source::OnCluster("list", "Event"),
        Source::OnCluster("get", "ProviderConfig"),
    ];
    for (source, _) in SOURCES.iter().filter(|(source, _)| !decoration.contains(source)) {
        assert!(unknown[source] > 0, "{source:?} decides nothing");
    }
}
