//! S1, S2, S3, S11 and S16: a row, its audit and its events agree.

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use sqlx::PgPool;
use time::OffsetDateTime;

use crate::failure::OrFail;

const LINES: &str = "SELECT action, previous_phase, new_phase, version, epoch, at
    FROM plexsphere.provisioned_resource_audit
    WHERE provisioned_resource_id = $1 ORDER BY sequence";

const EVENTS: &str = "SELECT sequence, event_type FROM plexsphere.provisioning_outbox
    WHERE provisioned_resource_id = $1 ORDER BY sequence";

/// An audit line of a row.
#[derive(Debug)]
pub(super) struct AuditLine {
    action: String,
    previous_phase: Option<String>,
    new_phase: Option<String>,
    version: Option<i64>,
    epoch: Option<i64>,
    at: OffsetDateTime,
}

impl AuditLine {
    pub(super) async fn read(pool: &PgPool, id: ProvisionedResourceId) -> Vec<Self> {
        type Row =
            (String, Option<String>, Option<String>, Option<i64>, Option<i64>, OffsetDateTime);
        let rows = sqlx::query_as(LINES).bind(id.as_uuid()).fetch_all(pool).await;
        let line = |(action, previous_phase, new_phase, version, epoch, at): Row| Self {
            action,
            previous_phase,
            new_phase,
            version,
            epoch,
            at,
        };
        rows.or_fail("the audit cannot be read").into_iter().map(line).collect()
    }

    fn phases(&self) -> (Option<Phase>, Option<Phase>) {
        let phase = |text: &Option<String>| {
            text.as_deref().map(|text| Phase::try_from(text).or_fail("a phase"))
        };
        (phase(&self.previous_phase), phase(&self.new_phase))
    }

    /// The event that belongs to this line.
    fn event(&self) -> Option<&'static str> {
        self.version?;
        let crossed = self.previous_phase != self.new_phase;
        match (self.action.as_str(), self.new_phase.as_deref()) {
            ("declared", _) => Some("broker.ProvisionedResourceRequested"),
            ("deletion_requested", _) => Some("broker.ProvisionedResourceDeleting"),
            ("phase_changed", Some("Ready")) if crossed => Some("broker.ProvisionedResourceReady"),
            ("phase_changed", Some("Failed")) if crossed => {
                Some("broker.ProvisionedResourceFailed")
            }
            ("phase_changed" | "abandoned", Some("Deleted")) if crossed => {
                Some("broker.ProvisionedResourceDeleted")
            }
            _ => None,
        }
    }
}

/// The events of a row.
pub(super) struct EventRows(Vec<(i64, String)>);

impl EventRows {
    pub(super) async fn read(pool: &PgPool, id: ProvisionedResourceId) -> Self {
        let event_violations = sqlx::query_as(EVENTS).bind(id.as_uuid()).fetch_all(pool).await;
        Self(event_violations.or_fail("the outbox cannot be read"))
    }
}

pub(super) fn violations(
    resource: &ProvisionedResource,
    lines: &[AuditLine],
    stored_events: &EventRows,
) -> Vec<String> {
    let mut violations = edge_violations(resource, lines);
    violations.extend(epoch_violations(lines));
    violations.extend(event_violations(resource, lines, stored_events));
    violations
}

/// S1: only legal edges, each from the phase that the previous one led to.
fn edge_violations(resource: &ProvisionedResource, lines: &[AuditLine]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut now: Option<Phase> = None;
    for line in lines.iter().filter(|line| line.version.is_some()) {
        let (from, Some(to)) = line.phases() else { continue };
        if let (Some(from), Some(before)) = (from, now) {
            if from != before {
                violations.push(format!("S1: {line:?} does not begin in {before}"));
            }
            if from != to && !from.can_become(to) {
                violations.push(format!("S1: {line:?} is not a legal edge"));
            }
        }
        now = Some(to);
    }
    if now != Some(resource.phase()) {
        violations
            .push(format!("S2: the row is in {}, its audit ends in {now:?}", resource.phase()));
    }
    violations
}

/// S2, S16: each version was written once, and never by an epoch that had been superseded.
fn epoch_violations(lines: &[AuditLine]) -> Vec<String> {
    let mut violations = Vec::new();
    let versions: Vec<_> = lines.iter().filter_map(|line| line.version).collect();
    if versions != (1..).take(versions.len()).collect::<Vec<_>>() {
        violations.push(format!("S2: a version without an audit line, or with two: {versions:?}"));
    }
    let epoch_violations: Vec<_> = lines.iter().filter_map(|line| line.epoch).collect();
    if !epoch_violations.is_sorted() {
        violations.push(format!("S16: a superseded lease wrote: {epoch_violations:?}"));
    }
    violations
}

/// S2, S3: one event per change that carries one, numbered without gaps.
fn event_violations(
    resource: &ProvisionedResource,
    lines: &[AuditLine],
    EventRows(stored_events): &EventRows,
) -> Vec<String> {
    let mut violations = Vec::new();
    let types: Vec<_> = stored_events.iter().map(|(_, event_type)| event_type.as_str()).collect();
    let expected: Vec<_> = lines.iter().filter_map(AuditLine::event).collect();
    if types != expected {
        violations.push(format!("S2: events {types:?} for changes {expected:?}"));
    }
    let numbers: Vec<_> = stored_events.iter().map(|(number, _)| *number).collect();
    let last = i64::try_from(resource.event_sequence()).ok();
    if numbers != (1..).take(numbers.len()).collect::<Vec<_>>() || numbers.last().copied() != last {
        violations.push(format!("S3: {numbers:?} are not all events until {last:?}"));
    }
    violations
}

/// S11: each change from Pending or Provisioning to Enrolling or Ready follows a Ready condition of its own.
pub(super) fn changes_without_ready(lines: &[AuditLine], ready: &[OffsetDateTime]) -> Vec<String> {
    let low = |phase| matches!(phase, Phase::Pending | Phase::Provisioning);
    let high = |phase| matches!(phase, Phase::Enrolling | Phase::Ready);
    let becomes_ready = |line: &&AuditLine| {
        let (from, to) = line.phases();
        line.version.is_some() && from.is_some_and(low) && to.is_some_and(high)
    };
    let mut violations = Vec::new();
    for (earlier, line) in lines.iter().filter(becomes_ready).enumerate() {
        if ready.get(earlier).is_none_or(|ready| *ready > line.at) {
            violations.push(format!(
                "S11: {line:?} has no Ready condition before it; Ready at {ready:?}"
            ));
        }
    }
    violations
}
