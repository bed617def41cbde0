//! Shared helpers of the store cases.

use std::fmt::Debug;

use broker_domain::{Error, Snapshot};
use broker_ports::{Backlog, Backoff};
use time::OffsetDateTime;

use super::prelude::*;
use crate::builders::stamp;

/// Longer than any back-off and shorter than [`LONG`].
pub(super) const HOUR: Duration = Duration::from_hours(1);
/// Longer than any lease or claim of a case.
pub(super) const LONG: Duration = Duration::from_hours(1_000);

/// A purge of resources that were deleted more than an hour ago.
pub(super) const AFTER_AN_HOUR: PurgeRequest = PurgeRequest::new(HOUR, PageSize::MAX);

/// A builder of the resource with this number: a Node in Pending.
pub(super) fn nth_resource(number: u128) -> ResourceBuilder {
    resource().numbered(number)
}

/// The ids of the resources with these numbers.
pub(super) fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<ProvisionedResourceId> {
    numbers.into_iter().map(id).collect()
}

/// Compares two values; the violation shows both.
pub(super) fn equal<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Violation::new(format!("{what}: {found:?} instead of {expected:?}")))
}

/// Checks that the call was rejected with a domain error of this reason, which names this field or word.
pub(super) fn require_refused<T>(
    result: Result<T, PortError>,
    reason: &str,
    word: &str,
) -> Outcome {
    let Err(error) = result else {
        return Err(Violation::new(format!("expected {reason}, but the call succeeded")));
    };
    let class = error.class();
    let names_word = |domain: &Error| {
        if let Error::InvalidInput { field, .. } = domain {
            field == word
        } else {
            domain.to_string().contains(word)
        }
    };
    let domain = error.domain();
    let is_expected = class == FailureClass::Rejected
        && domain.is_some_and(|domain| domain.reason() == reason && names_word(domain));
    require(is_expected, &format!("expected {reason} naming {word}, but got {class} {domain:?}"))
}

/// Checks that a used id is rejected as an internal error: the broker generates ids, so it is not a refusal of the
/// caller.
pub(super) fn require_id_conflict<T>(result: Result<T, PortError>, field: &str) -> Outcome {
    let is_refusal = result.as_ref().is_err_and(PortError::is_refusal);
    require_refused(result, "invalid_input", field)?;
    require(!is_refusal, &format!("a used {field} counts as a refusal of the caller"))
}

/// Compares two resources except for `updated_at`, which the store sets.
pub(super) fn require_same_resource(
    found: &ProvisionedResource,
    expected: &ProvisionedResource,
) -> Outcome {
    let row = |resource: &ProvisionedResource| Snapshot {
        updated_at: OffsetDateTime::UNIX_EPOCH,
        ..resource.snapshot()
    };
    equal("the stored resource", &row(found), &row(expected))
}

/// Checks version, Project, attribution and phases of an audit line.
pub(super) fn require_line_of(
    line: &AuditRecord,
    written: &ProvisionedResource,
    phases: (Option<Phase>, Option<Phase>),
) -> Outcome {
    let AuditRecord { version, entry, .. } = line;
    equal("the version of the line", version, &Some(written.version()))?;
    equal("the attribution of the line", &entry.attribution, &attribution())?;
    equal("the Project of the line", &entry.project, &Some(written.project_id()))?;
    equal("the phases", &(entry.previous_phase, entry.new_phase), &phases)
}

/// Checks that the sequences are unique and increasing.
pub(super) fn require_ordered(trail: &[AuditRecord]) -> Outcome {
    let ordered = trail.windows(2).all(|pair| pair[0].sequence < pair[1].sequence);
    require(ordered, "audit lines share a sequence or are out of order")
}

/// The sequences of events.
pub(super) fn sequences(events: &[ClaimedEvent]) -> Vec<u64> {
    events.iter().map(|event| event.sequence).collect()
}

/// A stamp with an event id that no builder uses.
pub(super) fn fresh_stamp(number: u128) -> Stamp {
    stamp(1_000_000_000 + number, 1_000)
}

/// The change to the next phase, with a new event id.
pub(super) fn phase_change(
    resource: &ProvisionedResource,
    phase: Phase,
    number: u128,
) -> Checked<Change> {
    resource
        .advance(phase, fresh_stamp(number))?
        .ok_or(Violation::new("the resource is already in the phase"))
}

/// A deletion request with a new event id.
pub(super) fn deletion_request(resource: &ProvisionedResource, number: u128) -> Checked<Change> {
    resource
        .request_deletion(fresh_stamp(number))
        .ok_or(Violation::new("the deletion was already requested"))
}

/// A success without a due time: the sweep schedules the next pass.
pub(super) const fn successful_pass() -> PassOutcome {
    PassOutcome::Succeeded { due_in: None }
}

/// The back-off of failed passes. It differs from the default, so a store cannot assume the default.
pub(super) const BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(200), Duration::from_mins(2));

/// A failed pass.
pub(super) fn failed_pass() -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "the API server is down".to_owned(),
        retry_after: None,
        backoff: BACKOFF,
    }
}

/// A failed pass with a requested back-off.
pub(super) fn failed_pass_with_retry_after(wait: Duration) -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "too many requests".to_owned(),
        retry_after: Some(wait),
        backoff: BACKOFF,
    }
}

/// Whether the entry is due by the store's clock.
pub(super) fn is_due(entry: &ScheduleEntry) -> bool {
    entry.due_at.is_some_and(|due_at| due_at <= entry.now)
}

/// The time until the entry is due.
pub(super) fn remaining_wait(entry: &ScheduleEntry) -> Checked<Duration> {
    let due_at = entry.due_at.ok_or(Violation::new("the entry has no due time"))?;
    Ok((due_at - entry.now).max(time::Duration::ZERO).try_into()?)
}

/// Checks that the entry is due after this delay, of which at most half has passed.
pub(super) fn require_due_in(entry: &ScheduleEntry, expected: Duration) -> Outcome {
    let left = remaining_wait(entry)?;
    let is_expected = left <= expected && left > expected / 2;
    require(is_expected, &format!("the entry is due in {left:?} instead of in {expected:?}"))
}

/// The state that a refused write must not change.
#[derive(Debug, PartialEq)]
pub(super) struct StoredState {
    pub(super) resource: Option<ProvisionedResource>,
    pub(super) schedule: Option<ScheduleEntry>,
    pub(super) audit: Vec<AuditRecord>,
    pub(super) backlog: Backlog,
}
