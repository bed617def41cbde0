//! Shared helpers of the store cases.

use std::fmt::Debug;

use broker_domain::{Error, Snapshot};
use broker_ports::{Backlog, Backoff};
use time::OffsetDateTime;

use super::prelude::*;
use crate::builders::stamp;

/// Longer than any back-off, and short compared with [`LONG`].
pub(super) const HOUR: Duration = Duration::from_hours(1);
/// Longer than any lease or claim of a case.
pub(super) const LONG: Duration = Duration::from_hours(1_000);

/// A purge of resources that were deleted more than an hour ago.
pub(super) const AFTER_AN_HOUR: PurgeRequest = PurgeRequest::new(HOUR, PageSize::MAX);

/// A newly declared node with a number.
pub(super) fn numbered(number: u128) -> ResourceBuilder {
    resource().numbered(number)
}

/// The ids of the resources of these numbers.
pub(super) fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<ProvisionedResourceId> {
    numbers.into_iter().map(id).collect()
}

/// Compares two values; the violation shows both.
pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Violation::new(format!("{what}: {found:?} instead of {expected:?}")))
}

/// The call was rejected with a domain error of that reason, for that field or with that word in its message.
pub(super) fn require_refused<T>(
    answer: Result<T, PortError>,
    reason: &str,
    word: &str,
) -> Outcome {
    let Err(error) = answer else {
        return Err(Violation::new(format!("expected {reason}, but the call succeeded")));
    };
    let class = error.class();
    let is_about = |domain: &Error| {
        if let Error::InvalidInput { field, .. } = domain {
            field == word
        } else {
            domain.to_string().contains(word)
        }
    };
    let named = error.domain();
    let right = class == FailureClass::Rejected
        && named.is_some_and(|domain| domain.reason() == reason && is_about(domain));
    require(right, &format!("expected {reason} naming {word}, but it is {class} {named:?}"))
}

/// As [`require_refused`] with `invalid_input`, for an id that the broker minted: it is no refusal of a caller.
pub(super) fn require_taken<T>(answer: Result<T, PortError>, field: &str) -> Outcome {
    let is_refusal = answer.as_ref().is_err_and(PortError::is_refusal);
    require_refused(answer, "invalid_input", field)?;
    require(!is_refusal, &format!("a used {field} counts as a refusal of the caller"))
}

/// Compares two resources except for the time of the last change, which the store sets.
pub(super) fn same_resource(
    found: &ProvisionedResource,
    expected: &ProvisionedResource,
) -> Outcome {
    let row = |resource: &ProvisionedResource| Snapshot {
        updated_at: OffsetDateTime::UNIX_EPOCH,
        ..resource.snapshot()
    };
    same("the resource reads back as", &row(found), &row(expected))
}

/// An audit line has the version, Project, actor and phases of the written resource.
pub(super) fn same_line(
    line: &AuditRecord,
    written: &ProvisionedResource,
    phases: (Option<Phase>, Option<Phase>),
) -> Outcome {
    let AuditRecord { version, entry, .. } = line;
    same("the line tells of version", version, &Some(written.version()))?;
    same("the attribution of the line", &entry.attribution, &attribution())?;
    same("the line tells of project", &entry.project, &Some(written.project_id()))?;
    same("the line tells of phases", &(entry.previous_phase, entry.new_phase), &phases)
}

/// Positions are unique and increasing.
pub(super) fn in_order(trail: &[AuditRecord]) -> Outcome {
    let ordered = trail.windows(2).all(|pair| pair[0].sequence < pair[1].sequence);
    require(ordered, "two audit lines have one place, or they are out of order")
}

/// The event sequences.
pub(super) fn sequences(events: &[ClaimedEvent]) -> Vec<u64> {
    events.iter().map(|event| event.sequence).collect()
}

/// A new stamp: event ids above those of the builders.
pub(super) fn fresh_stamp(number: u128) -> Stamp {
    stamp(1_000_000_000 + number, 1_000)
}

/// The change to the next phase, with a new event id.
pub(super) fn to(resource: &ProvisionedResource, phase: Phase, number: u128) -> Checked<Change> {
    resource.advance(phase, fresh_stamp(number))?.ok_or(Violation::new("it is there already"))
}

/// A deletion request with a new event id.
pub(super) fn deletion(resource: &ProvisionedResource, number: u128) -> Checked<Change> {
    resource.request_deletion(fresh_stamp(number)).ok_or(Violation::new("it is leaving already"))
}

/// A success that leaves the resource to the sweep.
pub(super) const fn succeeded() -> PassOutcome {
    PassOutcome::Succeeded { due_in: None }
}

/// The back-off of failed passes. It is not the default, which a store could assume.
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
pub(super) fn failed_with_retry_after(wait: Duration) -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "too many requests".to_owned(),
        retry_after: Some(wait),
        backoff: BACKOFF,
    }
}

/// Whether it is due by the store's clock.
pub(super) fn is_due(entry: &ScheduleEntry) -> bool {
    entry.due_at.is_some_and(|due_at| due_at <= entry.now)
}

/// The time until it is due.
pub(super) fn wait(entry: &ScheduleEntry) -> Checked<Duration> {
    let due_at = entry.due_at.ok_or(Violation::new("it is left to the sweep"))?;
    Ok((due_at - entry.now).max(time::Duration::ZERO).try_into()?)
}

/// It is due after this delay, of which at most half has passed.
pub(super) fn due_in(entry: &ScheduleEntry, expected: Duration) -> Outcome {
    let left = wait(entry)?;
    let right = left <= expected && left > expected / 2;
    require(right, &format!("it is due in {left:?} instead of in {expected:?}"))
}

/// Everything that a refused write could have changed.
#[derive(Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) resource: Option<ProvisionedResource>,
    pub(super) schedule: Option<ScheduleEntry>,
    pub(super) audit: Vec<AuditRecord>,
    pub(super) backlog: Backlog,
}
