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
    pub(super) rows: Vec<Row>,
}

impl Report {
    /// Everything that makes the run a failure.
    pub(super) fn complaints(&self) -> Vec<String> {
        self.rows.iter().flat_map(complaints).collect()
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
        let sum = |rows: &[Row], of: fn(&Row) -> usize| rows.iter().map(of).sum::<usize>();
        let (passed, failed) = (|row: &Row| row.outcome.passed, |row: &Row| row.outcome.failed);
        for rows in self.rows.chunk_by(|one, next| one.tier == next.tier) {
            let (executed, failed) = (sum(rows, passed) + sum(rows, failed), sum(rows, failed));
            let time = elapsed(rows.iter().map(|row| row.time).sum());
            writeln!(f, "{:12} {executed:>8} {failed:>8} {time:>9}", rows[0].tier)?;
        }
        let (passed, failed) = (sum(&self.rows, passed), sum(&self.rows, failed));
        writeln!(f, "\n{passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(tier: &str, promised: usize, outcome: Outcome) -> Row {
        let (tier, suite) = (tier.to_owned(), "s".to_owned());
        Row { tier, suite, promised, outcome, time: Duration::from_secs(12) }
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
        let failed = row("unit", 2, outcome(1, 1, 0));
        let rows =
            vec![row("unit", 3, outcome(3, 0, 0)), failed, row("servers", 4, outcome(4, 0, 0))];
        let report = Report { rows };
        assert_eq!(
            report.to_string(),
            "tier         executed   failed      time\n\
             unit                5        1       24s\n\
             servers             4        0       12s\n\
             \n8 passed, 1 failed\n"
        );
    }
}
