//! Random lives: whatever is observed and whenever deletion is asked for, the promises hold.

use proptest::prelude::*;

use crate::testing::{id, resource, second, stamp};
use crate::{
    EventType, FailureReason, NodeObservation, ObservedXr, Phase, ProvisionedResource,
    TokenOrdinal, next,
};

/// One thing that happens to a resource.
#[derive(Debug, Clone, Copy)]
enum Step {
    Pass(ObservedXr),
    Delete,
    Abandon,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let facts = proptest::sample::select(ObservedXr::every().collect::<Vec<_>>());
    let step = prop_oneof![
        20 => facts.prop_map(Step::Pass),
        1 => Just(Step::Delete),
        1 => Just(Step::Abandon),
    ];
    proptest::collection::vec(step, 1..60)
}

/// What a pass would commit for the facts; the facts are bent to what can be seen of this resource.
fn pass(resource: &ProvisionedResource, facts: ObservedXr, at: i64) -> Option<crate::Change> {
    let facts = ObservedXr { node: possible_node(resource, facts.node), ..facts };
    let (_, to) = next(&facts, resource.phase());
    if to == Phase::Failed {
        resource.fail(FailureReason::from_message("mark"), stamp(at)).unwrap()
    } else {
        resource.advance(to, stamp(at)).unwrap()
    }
}

fn possible_node(resource: &ProvisionedResource, seen: NodeObservation) -> NodeObservation {
    match (resource.mesh_role(), seen) {
        (crate::MeshRole::Standalone, _) => NodeObservation::NotExpected,
        (crate::MeshRole::Node, NodeObservation::NotExpected) => NodeObservation::Unregistered,
        (crate::MeshRole::Node, seen) => seen,
    }
}

/// Which event a crossing from one phase into another carries.
fn due(from: Phase, to: Phase) -> Option<EventType> {
    if from == to {
        return None;
    }
    match to {
        Phase::Ready => Some(EventType::Ready),
        Phase::Failed => Some(EventType::Failed),
        Phase::Deleted => Some(EventType::Deleted),
        Phase::Deregistering if !from.is_teardown() => Some(EventType::Deleting),
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Deregistering
        | Phase::Deprovisioning => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_life_keeps_the_promises(steps in steps(), standalone in any::<bool>()) {
        let mut now = if standalone { resource().standalone().pending() } else {
            resource().pending().record_token(id(6), TokenOrdinal::FIRST, second(1)).unwrap().into_resource()
        };
        for (at, step) in (10_i64..).zip(steps) {
            if now.phase().is_teardown() && !now.token_closed() {
                now = now.record_closed(second(at)).unwrap().unwrap().into_resource();
            }
            let change = match step {
                Step::Pass(facts) => pass(&now, facts, at),
                Step::Delete => now.request_deletion(stamp(at)),
                Step::Abandon => now.abandon(stamp(at)).ok(),
            };
            let Some(change) = change else { continue };
            let after = change.resource();

            prop_assert!(!matches!(now.phase(), Phase::Deleted), "sinks stay");
            prop_assert!(now.phase() != Phase::Failed || after.phase() == Phase::Deregistering);
            prop_assert!(now.phase().can_become(after.phase()));
            prop_assert_eq!(change.expected_version(), now.version());
            prop_assert_eq!(after.version(), now.version().next());
            prop_assert_eq!(change.event().map(crate::Event::event_type), due(now.phase(), after.phase()));
            let told = u64::from(change.event().is_some());
            prop_assert_eq!(after.event_sequence(), now.event_sequence() + told);
            if let Some(event) = change.event() {
                prop_assert_eq!(event.sequence(), after.event_sequence());
            }
            prop_assert!(after.updated_at() >= now.updated_at());
            let row = ProvisionedResource::hydrate(after.snapshot());
            prop_assert_eq!(&row.unwrap(), after, "what was committed can be read back");
            now = change.into_resource();
        }
    }
}
