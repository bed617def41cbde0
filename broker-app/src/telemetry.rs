//! The metrics of the broker, in one table.
//!
//! They go through the `metrics` facade; the embedder installs the recorder. Label values come from closed sets: a
//! resource, Project or message never becomes a label. `docs/metrics.md` is generated from [`METRICS`], and a test
//! compares the table with a running broker.

use std::time::Duration;

use broker_domain::{Error as DomainError, Phase, ProvisionedResource};
use broker_ports::{Backlog, FailureClass, Permit, PortName, RequestContext, TraceParent};
use metrics::{Unit, counter, gauge, histogram};
use time::OffsetDateTime;

use crate::decide::EarlyExit;
use crate::emit::RelayReport;
use crate::error::{Error, port_reason};
use crate::reconcile::PassResult;
use crate::sweep::OrphanState;
use crate::sweep::{SweepReport, Work};

/// A metric.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [Label],
    /// Its description.
    pub help: &'static str,
    unit: Unit,
}

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Keeps the last value.
    Gauge,
    /// Collects values.
    Histogram,
}

/// A label with its closed set of values.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Every possible value.
    pub values: fn() -> Vec<&'static str>,
}

pub(crate) fn traceparent(context: &RequestContext) -> Option<&str> {
    context.traceparent().map(TraceParent::as_str)
}

const RESOURCES: &str = "provisioning_broker_resources";
const TIME_IN_PHASE: &str = "provisioning_broker_time_in_phase_seconds";
const PASSES: &str = "provisioning_broker_passes_total";
const TAKEOVERS: &str = "provisioning_broker_lease_takeovers_total";
const SWEEP_DURATION: &str = "provisioning_broker_sweep_duration_seconds";
const SWEPT_ROWS: &str = "provisioning_broker_swept_resources";
const SWEEP_ERRORS: &str = "provisioning_broker_sweep_errors_total";
const MISSING: &str = "provisioning_broker_missing_composites";
const DRIFT: &str = "provisioning_broker_drifted_resources";
const BRAKE: &str = "provisioning_broker_brake";
const PERMITS: &str = "provisioning_broker_permits_total";
const ORPHANS: &str = "provisioning_broker_orphans";
const OUTBOX_DEPTH: &str = "provisioning_broker_outbox_depth";
const OUTBOX_AGE: &str = "provisioning_broker_outbox_age_seconds";
const EVENTS: &str = "provisioning_broker_events_total";
const PURGED: &str = "provisioning_broker_purged_total";

const PHASE: Label = Label { name: "phase", values: phases };
const REASON: Label = Label { name: "reason", values: reasons };

/// Every metric of the broker.
pub const METRICS: &[Metric] = &[
    Metric {
        name: RESOURCES,
        kind: MetricKind::Gauge,
        labels: &[PHASE],
        help: "Resources by phase, from the last complete sweep. Deleted ones are not counted.",
        unit: Unit::Count,
    },
    Metric {
        name: TIME_IN_PHASE,
        kind: MetricKind::Histogram,
        labels: &[PHASE],
        help: "Time that a resource spent in a phase, recorded when it leaves the phase.",
        unit: Unit::Seconds,
    },
    Metric {
        name: PASSES,
        kind: MetricKind::Counter,
        labels: &[Label { name: "result", values: pass_results }, REASON],
        help: "Passes, by result and reason.",
        unit: Unit::Count,
    },
    Metric {
        name: TAKEOVERS,
        kind: MetricKind::Counter,
        labels: &[],
        help: "Leases taken over from a worker that did not release them.",
        unit: Unit::Count,
    },
    Metric {
        name: SWEEP_DURATION,
        kind: MetricKind::Histogram,
        labels: &[Label { name: "result", values: sweep_results }],
        help: "Duration of sweeps.",
        unit: Unit::Seconds,
    },
    Metric {
        name: SWEPT_ROWS,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "found", values: findings }],
        help: "Non-terminal resources in the last sweep, by its finding.",
        unit: Unit::Count,
    },
    Metric {
        name: SWEEP_ERRORS,
        kind: MetricKind::Counter,
        labels: &[REASON],
        help: "Resources and kinds that a sweep could not read.",
        unit: Unit::Count,
    },
    Metric {
        name: MISSING,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Expected composite resources that were absent in the last sweep.",
        unit: Unit::Count,
    },
    Metric {
        name: DRIFT,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "what", values: drifts }],
        help: "Resources with drift in the last sweep: another writer changed the spec of a Ready resource, or a ProviderConfig is missing.",
        unit: Unit::Count,
    },
    Metric {
        name: BRAKE,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "reach", values: reaches }],
        help: "Brakes that are set, by reach: the cluster, or one Project on it.",
        unit: Unit::Count,
    },
    Metric {
        name: PERMITS,
        kind: MetricKind::Counter,
        labels: &[Label { name: "answer", values: permit_answers }],
        help: "Permit requests to the budget for automatic destruction, by answer.",
        unit: Unit::Count,
    },
    Metric {
        name: ORPHANS,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "state", values: orphan_states }],
        help: "Orphans: objects that no living row wants, by state, from the last complete sweep.",
        unit: Unit::Count,
    },
    Metric {
        name: OUTBOX_DEPTH,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "state", values: outbox_states }],
        help: "Undelivered events, by state.",
        unit: Unit::Count,
    },
    Metric {
        name: OUTBOX_AGE,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Age of the oldest undelivered event.",
        unit: Unit::Seconds,
    },
    Metric {
        name: EVENTS,
        kind: MetricKind::Counter,
        labels: &[Label { name: "result", values: deliveries }],
        help: "Delivery attempts, by result.",
        unit: Unit::Count,
    },
    Metric {
        name: PURGED,
        kind: MetricKind::Counter,
        labels: &[Label { name: "what", values: purged_kinds }],
        help: "Resources and events purged after their retention.",
        unit: Unit::Count,
    },
];

/// The reason label of a result without a reason.
const NO_REASON: &str = "none";

fn phases() -> Vec<&'static str> {
    let not_deleted = Phase::ALL.iter().filter(|phase| **phase != Phase::Deleted);
    not_deleted.map(|phase| phase.as_str()).collect()
}

fn reasons() -> Vec<&'static str> {
    let ports = PortName::ALL
        .iter()
        .flat_map(|port| FailureClass::ALL.iter().map(|class| port_reason(*port, *class)));
    let platform = Error::Platform(DomainError::invalid("", ""));
    let own =
        [NO_REASON, Error::LeaseRanOut.reason(), Error::Internal("").reason(), platform.reason()];
    let exits = EarlyExit::ALL.iter().map(|exit| exit.as_str());
    own.into_iter().chain(exits).chain(DomainError::REASONS).chain(ports).collect()
}

fn pass_results() -> Vec<&'static str> {
    vec!["through", "ended", "not_claimed", "failed", "panicked"]
}

fn sweep_results() -> Vec<&'static str> {
    vec!["complete", "partial", "failed"]
}

fn findings() -> Vec<&'static str> {
    vec!["settled", "waiting", "handed_over", "error"]
}

fn drifts() -> Vec<&'static str> {
    vec!["spec", "provider_config"]
}

fn reaches() -> Vec<&'static str> {
    vec!["cluster", "project"]
}

const PERMIT_ANSWERS: [&str; 3] = ["granted", "braked", "over_budget"];

fn permit_answers() -> Vec<&'static str> {
    PERMIT_ANSWERS.to_vec()
}

fn orphan_states() -> Vec<&'static str> {
    OrphanState::ALL.iter().map(|state| state.as_str()).collect()
}

fn outbox_states() -> Vec<&'static str> {
    vec!["waiting", "dead_letter"]
}

fn deliveries() -> Vec<&'static str> {
    vec!["delivered", "claim_lost", "delayed", "rejected", "dead_letter"]
}

fn purged_kinds() -> Vec<&'static str> {
    vec!["resources", "events"]
}

/// Registers the description of every metric with the host's recorder. The runner calls it at start.
pub fn describe_metrics() {
    for Metric { name, kind, help, unit, .. } in METRICS.iter().copied() {
        match kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, help),
            MetricKind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
}

pub(crate) fn pass_finished(outcome: &Result<PassResult, Error>) {
    let (result, reason) = match outcome {
        Ok(PassResult::Completed { .. }) => ("through", NO_REASON),
        Ok(PassResult::EndedEarly(exit)) => ("ended", exit.as_str()),
        Ok(PassResult::NotClaimed) => ("not_claimed", NO_REASON),
        Err(error) => ("failed", error.reason()),
    };
    counter!(PASSES, "result" => result, "reason" => reason).increment(1);
}

pub(crate) fn pass_panicked() {
    counter!(PASSES, "result" => "panicked", "reason" => NO_REASON).increment(1);
}

pub(crate) fn permit_requested(permit: Permit) {
    let [granted, braked, over_budget] = PERMIT_ANSWERS;
    let answer = match permit {
        Permit::Granted => granted,
        Permit::Braked => braked,
        Permit::OverBudget => over_budget,
        // A lost race: the result of the pass counts it.
        Permit::Stale | Permit::LeaseLost => return,
    };
    counter!(PERMITS, "answer" => answer).increment(1);
}

pub(crate) fn lease_taken_over() {
    counter!(TAKEOVERS).increment(1);
}

/// Records the time in the previous phase, if the phase changed.
pub(crate) fn phase_changed(before: &ProvisionedResource, after: &ProvisionedResource) {
    if before.phase() != after.phase() {
        let spent = after.phase_entered_at() - before.phase_entered_at();
        let phase = before.phase().as_str();
        histogram!(TIME_IN_PHASE, "phase" => phase).record(spent.as_seconds_f64().max(0.0));
    }
}

pub(crate) fn sweep_finished(took: Duration, swept: &Result<(Vec<Work>, SweepReport), Error>) {
    let result = match swept {
        Ok((_, report)) if report.complete => "complete",
        Ok(_) => "partial",
        Err(_) => "failed",
    };
    histogram!(SWEEP_DURATION, "result" => result).record(took.as_secs_f64());
    let Ok((_, report)) = swept else { return };
    let found = [report.settled, report.waiting, report.handed_over, report.errors.len()];
    for (name, count) in findings().into_iter().zip(found) {
        gauge!(SWEPT_ROWS, "found" => name).set(to_f64(count));
    }
    for error in report.errors.values().chain(report.unlisted_kinds.values()) {
        counter!(SWEEP_ERRORS, "reason" => error.reason).increment(1);
    }
    gauge!(MISSING).set(to_f64(report.missing));
    for (what, count) in drifts().into_iter().zip([report.drifted, report.missing_configs]) {
        gauge!(DRIFT, "what" => what).set(to_f64(count));
    }
    let project_brakes = report.brakes.iter().filter(|brake| brake.project.is_some()).count();
    let counts = [report.brakes.len() - project_brakes, project_brakes];
    for (reach, count) in reaches().into_iter().zip(counts) {
        gauge!(BRAKE, "reach" => reach).set(to_f64(count));
    }
    if report.complete {
        complete_sweep(report);
    }
}

fn complete_sweep(report: &SweepReport) {
    for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted) {
        let count = report.phases.get(&phase).copied().unwrap_or_default();
        gauge!(RESOURCES, "phase" => phase.as_str()).set(to_f64(count));
    }
    for state in OrphanState::ALL {
        let count = report.orphans.iter().filter(|orphan| orphan.state == *state).count();
        gauge!(ORPHANS, "state" => state.as_str()).set(to_f64(count));
    }
}

pub(crate) fn events_delivered(report: &RelayReport) {
    let RelayReport { delivered, lost_claims, delayed, rejected, dead_letter, .. } = report;
    let counts = [*delivered, *lost_claims, *delayed, *rejected, *dead_letter];
    for (result, count) in deliveries().into_iter().zip(counts).filter(|(_, count)| *count > 0) {
        counter!(EVENTS, "result" => result).increment(count as u64);
    }
}

pub(crate) fn record_backlog(backlog: &Backlog, now: OffsetDateTime) {
    let Backlog { depth, dead_letter, oldest, .. } = backlog;
    let counts = [depth.saturating_sub(*dead_letter), *dead_letter];
    for (state, count) in outbox_states().into_iter().zip(counts) {
        gauge!(OUTBOX_DEPTH, "state" => state).set(to_f64(count));
    }
    let age = oldest.map_or(0.0, |oldest| (now - oldest).as_seconds_f64().max(0.0));
    gauge!(OUTBOX_AGE).set(age);
}

pub(crate) fn record_purge(resources: u64, events: u64) {
    for (what, count) in purged_kinds().into_iter().zip([resources, events]) {
        counter!(PURGED, "what" => what).increment(count);
    }
}

/// Recorders take floating point numbers, which are exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn to_f64(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_follow_the_conventions() {
        let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let Metric { name, kind, unit, .. } = metric;
            assert!(name.starts_with("provisioning_broker_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
            assert_eq!(name.ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
        }
    }
}
