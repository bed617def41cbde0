//! Counters that are there before anything was counted: whoever computes how much one grew needs to see it at zero
//! first, or misses the first time, which may be the only one.

use broker_app::{Label, METRICS, MetricKind};
use metrics::counter;

/// Reasons are many, and most of them never happen. Without one, each result is there at zero all the same.
const REASON: &str = "reason";
const NO_REASON: &str = "none";

/// Registers every counter, with each value of its labels.
pub(super) fn begin_at_zero() {
    for metric in METRICS.iter().filter(|metric| metric.kind == MetricKind::Counter) {
        for labels in combinations(metric.labels) {
            counter!(metric.name, &labels).increment(0);
        }
    }
}

/// Every combination of the labels' values.
fn combinations(labels: &[Label]) -> Vec<Vec<(&'static str, &'static str)>> {
    labels.iter().fold(vec![Vec::new()], |so_far, label| {
        let values = if label.name == REASON { vec![NO_REASON] } else { (label.values)() };
        let with = |value| {
            let add = move |mut one: Vec<_>| {
                one.push((label.name, value));
                one
            };
            so_far.clone().into_iter().map(add)
        };
        values.into_iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn every_counter_is_there_at_zero() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, begin_at_zero);
        let scrape = recorder.handle().render();
        for line in [
            "provisioning_broker_lease_takeovers_total 0",
            "provisioning_broker_passes_total{result=\"panicked\",reason=\"none\"} 0",
            "provisioning_broker_purged_total{what=\"events\"} 0",
            "provisioning_broker_events_total{result=\"dead_letter\"} 0",
        ] {
            assert!(scrape.lines().any(|it| it == line), "{line} is not in:\n{scrape}");
        }
        let counters = METRICS.iter().filter(|metric| metric.kind == MetricKind::Counter);
        for metric in counters {
            assert!(scrape.contains(metric.name), "{}", metric.name);
        }
        assert!(scrape.lines().count() < 60, "too many series for something that never happened");
    }
}
