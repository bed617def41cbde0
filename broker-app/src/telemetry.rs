//! What the broker measures, and the one table of it.
//!
//! Everything goes through the `metrics` facade: the host installs a recorder, or none. Labels take their
//! values from closed sets, so that no resource, Project or message ever becomes a label. [`METRICS`] names
//! all of it; `docs/metrics.md` is that table, and a test compares it with what a running broker records.

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

/// One metric.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// Its labels.
    pub labels: &'static [Label],
    /// What it tells.
    pub help: &'static str,
    unit: Unit,
}

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It is what it was last set to.
    Gauge,
    /// It collects values.
    Histogram,
}

/// A label, and where its values come from.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Every value that it can have.
    pub values: fn() -> Vec<&'static str>,
}

/// The trace that a request came with, for its span.
pub(crate) fn trace(context: &RequestContext) -> Option<&str> {
    context.traceparent().map(TraceParent::as_str)
}

const RESOURCES: &str = "provisioning_broker_resources";
const TIME_IN_PHASE: &str = "provisioning_broker_time_in_phase_seconds";
const PASSES: &str = "provisioning_broker_passes_total";
const TAKEOVERS: &str = "provisioning_broker_lease_takeovers_total";
const SWEEP_DURATION: &str = "provisioning_broker_sweep_duration_seconds";
const SWEPT_ROWS: &str = "provisioning_broker_swept_resources";
const TROUBLES: &str = "provisioning_broker_sweep_errors_total";
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

/// Everything that the broker measures.
pub const METRICS: &[Metric] = &[
    Metric {
        name: RESOURCES,
        kind: MetricKind::Gauge,
        labels: &[PHASE],
        help: "Resources in each phase, as the last complete sweep found them. Those that are Deleted are not counted.",
        unit: Unit::Count,
    },
    Metric {
        name: TIME_IN_PHASE,
        kind: MetricKind::Histogram,
        labels: &[PHASE],
        help: "How long a resource was in a phase that it left.",
        unit: Unit::Seconds,
    },
    Metric {
        name: PASSES,
        kind: MetricKind::Counter,
        labels: &[Label { name: "result", values: pass_results }, REASON],
        help: "Passes, by how they ended and why.",
        unit: Unit::Count,
    },
    Metric {
        name: TAKEOVERS,
        kind: MetricKind::Counter,
        labels: &[],
        help: "Leases that were taken over from a worker that had not given them back.",
        unit: Unit::Count,
    },
    Metric {
        name: SWEEP_DURATION,
        kind: MetricKind::Histogram,
        labels: &[Label { name: "result", values: sweep_results }],
        help: "How long sweeps took.",
        unit: Unit::Seconds,
    },
    Metric {
        name: SWEPT_ROWS,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "found", values: findings }],
        help: "What the last sweep found of the resources that are not at rest.",
        unit: Unit::Count,
    },
    Metric {
        name: TROUBLES,
        kind: MetricKind::Counter,
        labels: &[REASON],
        help: "Resources and kinds that a sweep could not look at.",
        unit: Unit::Count,
    },
    Metric {
        name: MISSING,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "Composite resources that should stand and that the last sweep did not see.",
        unit: Unit::Count,
    },
    Metric {
        name: DRIFT,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "what", values: drifts }],
        help: "Resources that differ from what the broker applied, as the last sweep found them: the spec of a Ready resource was changed, or a ProviderConfig is missing.",
        unit: Unit::Count,
    },
    Metric {
        name: BRAKE,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "reach", values: reaches }],
        help: "Brakes that are set, by what they hold: the cluster, or one Project on it.",
        unit: Unit::Count,
    },
    Metric {
        name: PERMITS,
        kind: MetricKind::Counter,
        labels: &[Label { name: "answer", values: permit_answers }],
        help: "Requests to the budget for automatic destruction, by its answer.",
        unit: Unit::Count,
    },
    Metric {
        name: ORPHANS,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "state", values: fates }],
        help: "Objects that no living row wants, by what becomes of them, as the last complete sweep found them.",
        unit: Unit::Count,
    },
    Metric {
        name: OUTBOX_DEPTH,
        kind: MetricKind::Gauge,
        labels: &[Label { name: "state", values: outbox_states }],
        help: "Events that were not delivered yet.",
        unit: Unit::Count,
    },
    Metric {
        name: OUTBOX_AGE,
        kind: MetricKind::Gauge,
        labels: &[],
        help: "How long the oldest event that was not delivered yet has been waiting.",
        unit: Unit::Seconds,
    },
    Metric {
        name: EVENTS,
        kind: MetricKind::Counter,
        labels: &[Label { name: "result", values: deliveries }],
        help: "Attempts to deliver an event, by how they ended.",
        unit: Unit::Count,
    },
    Metric {
        name: PURGED,
        kind: MetricKind::Counter,
        labels: &[Label { name: "what", values: purged_things }],
        help: "What was removed from the store because its retention was over.",
        unit: Unit::Count,
    },
];

/// What stands in place of a reason where there is none.
const NO_REASON: &str = "none";

fn phases() -> Vec<&'static str> {
    let kept = Phase::ALL.iter().filter(|phase| **phase != Phase::Deleted);
    kept.map(|phase| phase.as_str()).collect()
}

fn reasons() -> Vec<&'static str> {
    let ports = PortName::ALL
        .iter()
        .flat_map(|port| FailureClass::ALL.iter().map(|class| port_reason(*port, *class)));
    let own = [NO_REASON, Error::LeaseRanOut.reason()];
    let endings = EarlyExit::ALL.iter().map(|ending| ending.as_str());
    own.into_iter().chain(endings).chain(DomainError::REASONS).chain(ports).collect()
}

fn pass_results() -> Vec<&'static str> {
    vec!["through", "ended", "not_claimed", "failed", "panicked"]
}

fn sweep_results() -> Vec<&'static str> {
    vec!["complete", "partial", "failed"]
}

fn findings() -> Vec<&'static str> {
    vec!["settled", "waiting", "handed_over", "trouble"]
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

fn fates() -> Vec<&'static str> {
    OrphanState::ALL.iter().map(|state| state.as_str()).collect()
}

fn outbox_states() -> Vec<&'static str> {
    vec!["waiting", "dead_letter"]
}

fn deliveries() -> Vec<&'static str> {
    vec!["delivered", "claim_lost", "delayed", "rejected", "dead_letter"]
}

fn purged_things() -> Vec<&'static str> {
    vec!["resources", "events"]
}

/// Tells the host's recorder what every metric means. The runner does so when it starts.
pub fn describe_metrics() {
    for Metric { name, kind, help, unit, .. } in METRICS.iter().copied() {
        match kind {
            MetricKind::Counter => metrics::describe_counter!(name, unit, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, unit, help),
            MetricKind::Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
}

/// A pass ended.
pub(crate) fn passed(outcome: &Result<PassResult, Error>) {
    let (result, reason) = match outcome {
        Ok(PassResult::Completed { .. }) => ("through", NO_REASON),
        Ok(PassResult::EndedEarly(ending)) => ("ended", ending.as_str()),
        Ok(PassResult::NotClaimed) => ("not_claimed", NO_REASON),
        Err(error) => ("failed", error.reason()),
    };
    counter!(PASSES, "result" => result, "reason" => reason).increment(1);
}

/// A pass broke down before it could end.
pub(crate) fn panicked() {
    counter!(PASSES, "result" => "panicked", "reason" => NO_REASON).increment(1);
}

/// The budget for automatic destruction was asked.
pub(crate) fn permit(permit: Permit) {
    let [granted, braked, over_budget] = PERMIT_ANSWERS;
    let answer = match permit {
        Permit::Granted => granted,
        Permit::Braked => braked,
        Permit::OverBudget => over_budget,
        // A lost race, which is counted as the end of the pass.
        Permit::Stale | Permit::LeaseLost => return,
    };
    counter!(PERMITS, "answer" => answer).increment(1);
}

/// A lease was taken over.
pub(crate) fn taken_over() {
    counter!(TAKEOVERS).increment(1);
}

/// A change was committed; if it was one of phase, the phase before is over.
pub(crate) fn changed(before: &ProvisionedResource, after: &ProvisionedResource) {
    if before.phase() != after.phase() {
        let spent = after.phase_entered_at() - before.phase_entered_at();
        let phase = before.phase().as_str();
        histogram!(TIME_IN_PHASE, "phase" => phase).record(spent.as_seconds_f64().max(0.0));
    }
}

/// A sweep ended.
pub(crate) fn swept(took: Duration, swept: &Result<(Vec<Work>, SweepReport), Error>) {
    let result = match swept {
        Ok((_, report)) if report.complete => "complete",
        Ok(_) => "partial",
        Err(_) => "failed",
    };
    histogram!(SWEEP_DURATION, "result" => result).record(took.as_secs_f64());
    let Ok((_, report)) = swept else { return };
    let found = [report.settled, report.waiting, report.handed_over, report.errors.len()];
    for (name, count) in findings().into_iter().zip(found) {
        gauge!(SWEPT_ROWS, "found" => name).set(number(count));
    }
    for trouble in report.errors.values().chain(report.unlisted_kinds.values()) {
        counter!(TROUBLES, "reason" => trouble.reason).increment(1);
    }
    gauge!(MISSING).set(number(report.missing));
    for (what, count) in drifts().into_iter().zip([report.drifted, report.missing_configs]) {
        gauge!(DRIFT, "what" => what).set(number(count));
    }
    let of_project = report.brakes.iter().filter(|brake| brake.project.is_some()).count();
    let counts = [report.brakes.len() - of_project, of_project];
    for (reach, count) in reaches().into_iter().zip(counts) {
        gauge!(BRAKE, "reach" => reach).set(number(count));
    }
    if report.complete {
        complete_sweep(report);
    }
}

fn complete_sweep(report: &SweepReport) {
    for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted) {
        let count = report.phases.get(&phase).copied().unwrap_or_default();
        gauge!(RESOURCES, "phase" => phase.as_str()).set(number(count));
    }
    for state in OrphanState::ALL {
        let count = report.orphans.iter().filter(|orphan| orphan.state == *state).count();
        gauge!(ORPHANS, "state" => state.as_str()).set(number(count));
    }
}

/// A round of the relay ended.
pub(crate) fn relayed(report: &RelayReport) {
    let RelayReport { delivered, lost_claims, delayed, rejected, dead_letter, .. } = report;
    let counts = [*delivered, *lost_claims, *delayed, *rejected, *dead_letter];
    for (result, count) in deliveries().into_iter().zip(counts).filter(|(_, count)| *count > 0) {
        counter!(EVENTS, "result" => result).increment(count as u64);
    }
}

/// How much waits in the outbox.
pub(crate) fn backlog(backlog: &Backlog, now: OffsetDateTime) {
    let Backlog { depth, dead_letter, oldest, .. } = backlog;
    let counts = [depth.saturating_sub(*dead_letter), *dead_letter];
    for (state, count) in outbox_states().into_iter().zip(counts) {
        gauge!(OUTBOX_DEPTH, "state" => state).set(number(count));
    }
    let age = oldest.map_or(0.0, |oldest| (now - oldest).as_seconds_f64().max(0.0));
    gauge!(OUTBOX_AGE).set(age);
}

/// Something was removed from the store.
pub(crate) fn purged(resources: u64, events: u64) {
    for (what, count) in purged_things().into_iter().zip([resources, events]) {
        counter!(PURGED, "what" => what).increment(count);
    }
}

/// Recorders take floating point numbers; counts stay below what those can tell apart.
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 resources")]
fn number(count: impl TryInto<u64>) -> f64 {
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
