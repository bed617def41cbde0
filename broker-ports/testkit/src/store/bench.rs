//! What the cases do again and again, in words of their own.

use std::fmt::Debug;

use broker_domain::{Error, Snapshot};
use broker_ports::Backlog;
use time::OffsetDateTime;

use super::prelude::*;
use crate::builders::stamp;

/// Longer than any back-off, and short against [`LONG`].
pub(super) const HOUR: Duration = Duration::from_hours(1);
/// Longer than any lease or claim that a case takes.
pub(super) const LONG: Duration = Duration::from_hours(1_000);

/// A purge of what was Deleted for more than an hour.
pub(super) const AFTER_AN_HOUR: PurgeRequest = PurgeRequest::new(HOUR, PageSize::MAX);

/// A node that was just declared, under a number.
pub(super) fn numbered(number: u128) -> ResourceBuilder {
    resource().numbered(number)
}

/// The ids of the resources of these numbers.
pub(super) fn ids(numbers: impl IntoIterator<Item = u128>) -> Vec<ProvisionedResourceId> {
    numbers.into_iter().map(id).collect()
}

/// Two answers are the same, or the violation shows both.
pub(super) fn same<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Violation::new(format!("{what}: {found:?} instead of {expected:?}")))
}

/// It was rejected with a domain error of that reason: of that field, or whose message names that word.
pub(super) fn require_refused<T>(
    answer: Result<T, PortError>,
    reason: &str,
    word: &str,
) -> Outcome {
    let Err(error) = answer else {
        return Err(Violation::new(format!("{reason} was expected, and it went through")));
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
    require(right, &format!("{reason} naming {word} was expected, and it is {class} {named:?}"))
}

/// The same resource but for the time of its last change, which is the store's.
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

/// An audit line tells of a resource as it was written: its version, its Project, by whom, and between which phases.
pub(super) fn same_line(
    line: &AuditRecord,
    written: &ProvisionedResource,
    phases: (Option<Phase>, Option<Phase>),
) -> Outcome {
    let AuditRecord { version, entry, .. } = line;
    same("the line tells of version", version, &Some(written.version()))?;
    same("the line came by", &entry.attribution, &attribution())?;
    same("the line tells of project", &entry.project, &Some(written.project_id()))?;
    same("the line tells of phases", &(entry.previous_phase, entry.new_phase), &phases)
}

/// Each line has a place of its own, behind those before it.
pub(super) fn in_order(trail: &[AuditRecord]) -> Outcome {
    let ordered = trail.windows(2).all(|pair| pair[0].sequence < pair[1].sequence);
    require(ordered, "two audit lines have one place, or they are out of order")
}

/// The numbers of events.
pub(super) fn sequences(events: &[ClaimedEvent]) -> Vec<u64> {
    events.iter().map(|event| event.sequence).collect()
}

/// A fresh stamp: event ids above those of the builders.
pub(super) fn fresh_stamp(number: u128) -> Stamp {
    stamp(1_000_000_000 + number, 1_000)
}

/// The resource's next phase as a change, with an event id of its own.
pub(super) fn to(resource: &ProvisionedResource, phase: Phase, number: u128) -> Checked<Change> {
    resource.advance(phase, fresh_stamp(number))?.ok_or(Violation::new("it is there already"))
}

/// A deletion request as a change, with an event id of its own.
pub(super) fn deletion(resource: &ProvisionedResource, number: u128) -> Checked<Change> {
    resource.request_deletion(fresh_stamp(number)).ok_or(Violation::new("it is leaving already"))
}

/// A pass that went well and leaves the rest to the sweep.
pub(super) const fn went_well() -> PassOutcome {
    PassOutcome::Succeeded { due_in: None }
}

/// A pass that failed.
pub(super) fn went_wrong() -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "the API server is away".to_owned(),
        retry_after: None,
    }
}

/// A pass that failed, and that was asked to come back after a while.
pub(super) fn asked_to_wait(wait: Duration) -> PassOutcome {
    PassOutcome::Failed {
        reason: "cluster_transient".to_owned(),
        message: "too many requests".to_owned(),
        retry_after: Some(wait),
    }
}

/// Due by the store's own clock.
pub(super) fn is_due(entry: &ScheduleEntry) -> bool {
    entry.due_at.is_some_and(|due_at| due_at <= entry.now)
}

/// How long it is until something is due.
pub(super) fn wait(entry: &ScheduleEntry) -> Checked<Duration> {
    let due_at = entry.due_at.ok_or(Violation::new("it is left to the sweep"))?;
    Ok((due_at - entry.now).max(time::Duration::ZERO).try_into()?)
}

/// It is due after this while, of which no more than half has gone by since.
pub(super) fn due_in(entry: &ScheduleEntry, expected: Duration) -> Outcome {
    let left = wait(entry)?;
    let right = left <= expected && left > expected / 2;
    require(right, &format!("it is due in {left:?} instead of in {expected:?}"))
}

/// Everything that a refused write could have left behind.
#[derive(Debug, PartialEq)]
pub(super) struct Facts {
    pub(super) resource: Option<ProvisionedResource>,
    pub(super) schedule: Option<ScheduleEntry>,
    pub(super) audit: Vec<AuditRecord>,
    pub(super) backlog: Backlog,
}
