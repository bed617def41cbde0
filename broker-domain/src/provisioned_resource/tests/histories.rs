//! Property test: random observations, requests and clocks never break an invariant.

use proptest::prelude::*;

use crate::testing::{composed, id, resource, second, stamp};
use crate::{
    Change, ClusterId, Error, Event, EventType, FailureReason, MeshRole, NodeObservation,
    ObservedXr, Phase, ProvisionedResource, ReferencesDigest, Stamp, next,
};

/// One step in the history of a resource. Its time comes from some replica's clock.
#[derive(Debug, Clone, Copy)]
enum Step {
    Pass(ObservedXr),
    Delete,
    Abandon,
    RecordToken { next: bool },
    CloseTokens,
    ObserveObject(u8),
    RemoveObjects,
}

fn steps() -> impl Strategy<Value = Vec<(Step, i64)>> {
    let facts = proptest::sample::select(ObservedXr::every().collect::<Vec<_>>());
    let step = prop_oneof![
        20 => facts.prop_map(Step::Pass),
        2 => Just(Step::Delete),
        1 => Just(Step::Abandon),
        3 => any::<bool>().prop_map(|next| Step::RecordToken { next }),
        3 => Just(Step::CloseTokens),
        3 => any::<u8>().prop_map(Step::ObserveObject),
        3 => Just(Step::RemoveObjects),
    ];
    // Clocks of replicas differ: time may appear to go backwards.
    proptest::collection::vec((step, 0..100_i64), 1..60)
}

fn apply_step(
    resource: &ProvisionedResource,
    step: Step,
    at: i64,
) -> Result<Option<Change>, Error> {
    let Stamp { at: time, .. } = stamp(at);
    match step {
        Step::Pass(facts) => pass(resource, facts, at),
        Step::Delete => Ok(resource.request_deletion(stamp(at))),
        Step::Abandon => resource.abandon(stamp(at)).map(Some),
        Step::RecordToken { next } => {
            let ordinal = resource.token_ordinal();
            let ordinal = if next { ordinal.next() } else { ordinal };
            resource.record_token(id(60), ordinal, time).map(Some)
        }
        Step::CloseTokens => resource.record_closed(time),
        Step::ObserveObject(number) => {
            let cluster = ClusterId::new("here").unwrap();
            let observed = resource.substrate().clone().about_to_apply(cluster, composed("config"));
            let object = composed(&number.to_string());
            resource.record_substrate(
                observed.observed([object], ReferencesDigest::new([number; 32])),
                time,
            )
        }
        Step::RemoveObjects => {
            let mut gone = resource.substrate().composed().clone();
            gone.insert(composed("config"));
            resource.record_substrate(resource.substrate().clone().without(&gone), time)
        }
    }
}

/// Adjusts the facts to those that are possible for this resource.
fn pass(
    resource: &ProvisionedResource,
    facts: ObservedXr,
    at: i64,
) -> Result<Option<Change>, Error> {
    let registered =
        resource.bootstrap_token_id().map(|_| facts.node == NodeObservation::Registered);
    let residue = facts.residue || !resource.substrate().is_clear();
    let node = NodeObservation::of(resource.mesh_role(), registered);
    let (_, to) = next(&ObservedXr { node, residue, ..facts }, resource.phase());
    if to == Phase::Failed {
        resource.fail(FailureReason::from_message("mark"), stamp(at))
    } else {
        resource.advance(to, stamp(at))
    }
}

/// Whether the step may fail in the current phase; every other step must succeed.
fn may_fail(resource: &ProvisionedResource, step: Step) -> bool {
    let phase = resource.phase();
    let tearing_down = matches!(phase, Phase::Deregistering | Phase::Deprovisioning);
    match step {
        Step::Delete => false,
        // Deleted requires closed tokens; a real pass closes them first.
        Step::Pass(_) => tearing_down && !resource.token_closed(),
        Step::Abandon => !tearing_down || !resource.token_closed(),
        Step::RecordToken { .. } => {
            !phase.is_converging() || resource.mesh_role() == MeshRole::Standalone
        }
        Step::CloseTokens => !phase.is_teardown(),
        Step::ObserveObject(_) | Step::RemoveObjects => phase == Phase::Deleted,
    }
}

fn expected_event(from: Phase, to: Phase) -> Option<EventType> {
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
    fn every_history_keeps_the_invariants(steps in steps(), standalone in any::<bool>()) {
        let mut current = if standalone { resource().standalone().pending() } else { resource().pending() };
        let mut last_event_at = second(0);
        for (step, at) in steps {
            let change = match apply_step(&current, step, at) {
                Ok(Some(change)) => change,
                Ok(None) => continue,
                Err(error) => {
                    prop_assert!(may_fail(&current, step), "{step:?} in {}: {error}", current.phase());
                    continue;
                }
            };
            let after = change.resource();
            prop_assert!(current.phase() != Phase::Deleted, "Deleted never changes");
            if current.phase() == Phase::Failed {
                prop_assert!(matches!(after.phase(), Phase::Failed | Phase::Deregistering));
            }
            prop_assert!(current.phase().can_become(after.phase()));
            prop_assert_eq!(change.expected_version(), current.version());
            prop_assert_eq!(after.version(), current.version().next());
            prop_assert_eq!(change.previous_phase(), Some(current.phase()));
            prop_assert_eq!(change.event().map(Event::event_type), expected_event(current.phase(), after.phase()));
            let emitted = u64::from(change.event().is_some());
            prop_assert_eq!(after.event_sequence(), current.event_sequence() + emitted);
            if let Some(event) = change.event() {
                prop_assert_eq!(event.sequence(), after.event_sequence());
                prop_assert!(event.occurred_at() >= last_event_at, "event times never go backwards");
                last_event_at = event.occurred_at();
            }
            prop_assert!(after.updated_at() >= current.updated_at());
            if after.phase() == Phase::Deleted && !after.abandoned() {
                prop_assert!(after.token_closed());
                prop_assert!(after.substrate().is_clear());
            }
            let row = ProvisionedResource::hydrate(after.snapshot());
            prop_assert_eq!(&row.unwrap(), after, "the stored row hydrates to the same resource");
            current = change.into_resource();
        }
    }
}
