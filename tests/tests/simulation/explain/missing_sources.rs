//! Removes each source of facts in turn: missing facts are unknown, and cause no other verdict.

use std::collections::BTreeMap;

use broker_app::explain::{Explanation, FactStatus, Verdict};
use broker_memory::Verb;
use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan};

use super::fixture::Fixture;
use super::problems;

/// A port's method, or a verb and a kind on the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Port(PortName, &'static str),
    OnCluster(&'static str, &'static str),
}

/// Each source, and the verdict that names its absence if every pass needs it.
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
        (Port(PortName::BlueprintResolver, "state"), None),
        (Port(PortName::CredentialResolver, "resolve"), SILENT),
        (Port(PortName::CloudResolver, "resolve"), SILENT),
        (Port(PortName::ResourceReader, "read"), SILENT),
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

async fn explain_without(fixture: &Fixture, source: Source) -> Explanation {
    match source {
        Source::Port(port, method) => {
            let plan = FaultPlan::none().from_call(port, method, 1, Fault::BeforeEffect);
            fixture.explain_with_faults(plan).await
        }
        Source::OnCluster(verb, kind) => {
            let verb = if verb == "get" { Verb::Get } else { Verb::List };
            fixture.world.cluster.forbid(verb, kind);
            let explained = fixture.explain().await;
            fixture.world.cluster.allow_everything();
            explained
        }
    }
}

fn count_unknown(explained: &Explanation) -> usize {
    let is_unknown = |status: &FactStatus| matches!(status, FactStatus::Unknown(_));
    explained.facts.iter().filter(|fact| is_unknown(&fact.status)).count()
}

#[tokio::test]
async fn missing_facts_never_become_a_certainty() {
    let mut unknown_facts: BTreeMap<Source, usize> = BTreeMap::new();
    let mut changed_verdicts: BTreeMap<Source, usize> = BTreeMap::new();
    for verdict in Verdict::ALL.iter().copied() {
        let fixture = problems::fixture_for(verdict).await;
        // `allow_everything` would also restore the rights that the fixture removed.
        let changes_rights = matches!(verdict, Verdict::Forbidden | Verdict::Unknown);
        let before = fixture.explain().await;
        for (source, expected) in SOURCES.iter().copied() {
            if changes_rights && matches!(source, Source::OnCluster(..)) {
                continue;
            }
            let after = explain_without(&fixture, source).await;
            let acceptable = after.verdict == before.verdict
                || after.verdict == Verdict::Unknown
                || Some(after.verdict) == expected;
            assert!(acceptable, "{verdict} without {source:?} became {}:\n{after}", after.verdict);
            *unknown_facts.entry(source).or_default() +=
                usize::from(count_unknown(&after) > count_unknown(&before));
            *changed_verdicts.entry(source).or_default() +=
                usize::from(after.verdict != before.verdict);
        }
    }
    for (source, _) in SOURCES {
        assert!(unknown_facts[source] > 0, "no explanation lacks {source:?}");
    }
    // Sources that only add details change no verdict. A ProviderConfig decides only at the end of a
    // teardown, which no fixture reaches.
    let details_only = [
        Source::Port(PortName::Repository, "history"),
        Source::OnCluster("list", "Event"),
        Source::OnCluster("get", "ProviderConfig"),
    ];
    for (source, _) in SOURCES.iter().filter(|(source, _)| !details_only.contains(source)) {
        assert!(changed_verdicts[source] > 0, "{source:?} changes no verdict");
    }
}
