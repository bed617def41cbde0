//! Rows: normalised to one version and one time, and the invariants of every change.

use broker_domain::{Change, Phase, ProvisionedResource};
use broker_testkit::builders::second;

use super::rule::Violation;

const VERSION: u64 = 100;
const EVENTS: u64 = 3;

/// The row at the version and the time of all rows in the model.
pub(super) fn normalised(resource: &ProvisionedResource) -> ProvisionedResource {
    let mut row = resource.snapshot();
    let now = second(0);
    row.version = VERSION;
    row.event_sequence = EVENTS;
    row.created_at = now;
    row.updated_at = now;
    row.phase_entered_at = now;
    row.deletion_requested_at = row.deletion_requested_at.map(|_| now);
    let was_ready = row.phase == Phase::Ready.as_str()
        || row.failure_step.as_deref() == Some(Phase::Ready.as_str());
    row.first_ready_at = was_ready.then_some(now);
    ProvisionedResource::hydrate(row).unwrap()
}

/// The promise that a change breaks, if any.
pub(super) fn broken_promise(before: &ProvisionedResource, change: &Change) -> Option<Violation> {
    let after = change.resource();
    let (from, to) = (before.phase(), after.phase());
    if from != to && !from.can_become(to) {
        return Some(Violation::IllegalEdge);
    }
    let emits_event = from != to
        && (matches!(to, Phase::Ready | Phase::Failed | Phase::Deleted)
            || (to == Phase::Deregistering && !from.is_teardown()));
    if emits_event != change.event().is_some() {
        return Some(Violation::EventMismatch);
    }
    let numbered = change.event().is_none_or(|event| {
        event.sequence() == before.event_sequence() + 1
            && after.event_sequence() == event.sequence()
    });
    let counted =
        after.version() == before.version().next() && change.expected_version() == before.version();
    (!numbered || !counted).then_some(Violation::BrokenSequence)
}
