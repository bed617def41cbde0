//! Registers every counter at zero at the start. Otherwise a rate would miss the first increment.

use broker_app::{Label, METRICS, MetricKind};
use metrics::counter;

/// Most of the many reasons never occur, so only the combination without a reason starts at zero.
const REASON: &str = "reason";
const NO_REASON: &str = "none";

pub(super) fn register_at_zero() {
    for metric in METRICS.iter().filter(|metric| metric.kind == MetricKind::Counter) {
        for labels in combinations(metric.labels) {
            counter!(metric.name, &labels).increment(0);
        }
    }
}

/// Every combination of label values.
fn combinations(labels: &[Label]) -> Vec<Vec<(&'static str, &'static str)>> {
    labels.iter().fold(vec![Vec::new()], |combinations, label| {
        let values = if label.name == REASON { vec![NO_REASON] } else { (label.values)() };
        let with_value = |value| {
            let add = move |mut combination: Vec<_>| {
                combination.push((label.name, value));
                combination
            };
            combinations.clone().into_iter().map(add)
        };
        values.into_iter().flat_map(with_value).collect()
    })
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn every_counter_starts_at_zero() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, register_at_zero);
        let scrape = recorder.handle().render();
        for line in [
            "provisioning_broker_lease_takeovers_total 0",
            "provisioning_broker_passes_total{result=\"panicked\",reason=\"none\"} 0",
            "provisioning_broker_purged_total{what=\"events\"} 0",
            "provisioning_broker_events_total{result=\"dead_letter\"} 0",
        ] {
            assert!(scrape.lines().any(|found| found == line), "{line} is not in:\n{scrape}");
        }
        let counters = METRICS.iter().filter(|metric| metric.kind == MetricKind::Counter);
        for metric in counters {
            assert!(scrape.contains(metric.name), "{}", metric.name);
        }
        assert!(scrape.lines().count() < 60, "too many series at zero");
    }
}
