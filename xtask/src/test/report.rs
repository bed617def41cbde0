//! What was promised against what was done.

use std::fmt;
use std::time::Duration;

use broker_test_servers::progress::elapsed;

use super::suite::Outcome;

/// One suite that ran.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) tier: String,
    pub(super) suite: String,
    pub(super) promised: usize,
    pub(super) outcome: Outcome,
    pub(super) time: Duration,
}

/// All suites that ran. Its text is a table of tiers and a last line `N passed, N failed`.
#[derive(Debug, Default)]
pub(super) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// What ran beside these.
    pub(super) fn extend(&mut self, other: Self) {
        self.rows.extend(other.rows);
    }

    /// Everything that makes the run a failure.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.rows.iter().flat_map(complaints).collect()
    }

    /// The tiers in the order in which they ran.
    fn tiers(&self) -> Vec<&str> {
        let mut tiers: Vec<&str> = self.rows.iter().map(|row| row.tier.as_str()).collect();
        tiers.dedup();
        tiers
    }

    fn sum(&self, tier: Option<&str>) -> (Outcome, Duration) {
        let rows = self.rows.iter().filter(|row| tier.is_none_or(|tier| row.tier == tier));
        rows.fold((Outcome::default(), Duration::ZERO), |(sum, time), row| {
            let Outcome { passed, failed, ignored, exited_well: _ } = row.outcome;
            let sum = Outcome {
                passed: sum.passed + passed,
                failed: sum.failed + failed,
                ignored: sum.ignored + ignored,
                exited_well: true,
            };
            (sum, time + row.time)
        })
    }
}

/// Invariant: nothing is skipped. What was listed is executed, whatever the exit code says.
fn complaints(row: &Row) -> Vec<String> {
    let Row { tier, suite, promised, outcome, time: _ } = row;
    let Outcome { passed, failed, ignored, exited_well } = outcome;
    let mut complaints = Vec::new();
    if *failed > 0 {
        complaints.push(format!("{failed} failed"));
    }
    if *ignored > 0 {
        complaints.push(format!("{ignored} ignored, and no test may be"));
    }
    let executed = passed + failed;
    if executed + ignored != *promised {
        complaints.push(format!("{promised} listed but {executed} executed"));
    }
    if !exited_well && complaints.is_empty() {
        complaints.push("the test binary ended with an error".to_owned());
    }
    complaints.into_iter().map(|complaint| format!("{tier}: {suite}: {complaint}")).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:12} {:>8} {:>8} {:>9}", "tier", "executed", "failed", "time")?;
        for tier in self.tiers() {
            let (outcome, time) = self.sum(Some(tier));
            let executed = outcome.passed + outcome.failed;
            writeln!(f, "{tier:12} {executed:>8} {:>8} {:>9}", outcome.failed, elapsed(time))?;
        }
        let (all, _) = self.sum(None);
        writeln!(f, "\n{} passed, {} failed", all.passed, all.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tier: &str, promised: usize, outcome: Outcome) -> Row {
        Row {
            tier: tier.to_owned(),
            suite: "s".to_owned(),
            promised,
            outcome,
            time: Duration::from_secs(12),
        }
    }

    fn outcome(passed: usize, failed: usize, ignored: usize) -> Outcome {
        Outcome { passed, failed, ignored, exited_well: failed == 0 }
    }

    #[test]
    fn nothing_is_skipped() {
        let table = [
            ("all done", 3, outcome(3, 0, 0), vec![]),
            ("a failure", 3, outcome(2, 1, 0), vec!["unit: s: 1 failed"]),
            ("ignored", 3, outcome(2, 0, 1), vec!["unit: s: 1 ignored, and no test may be"]),
            ("left out", 3, outcome(2, 0, 0), vec!["unit: s: 3 listed but 2 executed"]),
            ("out of nowhere", 3, outcome(4, 0, 0), vec!["unit: s: 3 listed but 4 executed"]),
            (
                "a harness that fails without a failed test",
                3,
                Outcome { exited_well: false, ..outcome(3, 0, 0) },
                vec!["unit: s: the test binary ended with an error"],
            ),
        ];
        for (why, promised, outcome, expected) in table {
            assert_eq!(complaints(&row("unit", promised, outcome)), expected, "{why}");
        }
    }

    #[test]
    fn the_table_adds_up_by_tier_and_ends_with_the_totals() {
        let mut report = Report::default();
        report.add(row("unit", 3, outcome(3, 0, 0)));
        report.add(row("unit", 2, outcome(1, 1, 0)));
        report.add(row("servers", 4, outcome(4, 0, 0)));
        assert_eq!(
            report.to_string(),
            "tier         executed   failed      time\n\
             unit                5        1       24s\n\
             servers             4        0       12s\n\
             \n8 passed, 1 failed\n"
        );
    }
}
