//! The works that are measured as a whole, and the bars that each of them is held to.

use super::page::grouped;
use super::ratio::{Counted, Measurement, Way, exponent, growth, most, ratio, steepest};
use super::table::{cases, shown};

/// A work of the program `whole`.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
    /// What there is more and more of.
    pub(super) axis: &'static str,
    bars: &'static [Bar],
}

/// What a work is held to.
#[derive(Debug, Clone, Copy)]
enum Bar {
    /// In this case the naive way takes so many times as long, at the least.
    Naive(&'static str, f64),
    /// In these cases ours takes so many times as long as the floor, at the most.
    Floor(&'static [&'static str], f64),
    /// In every case ours does so much of the floor in the same time, at the least.
    Share(f64),
    /// In no round of any case does ours send a request or write something.
    Silent,
    /// From one amount to the next, ours grows with no greater exponent.
    Growth(f64),
}

/// Below this the handful of questions that any sweep asks weighs more than the rows.
const MANY: &[&str] = &["1,000", "10,000", "100,000, cluster in memory"];

pub(super) const WORKS: [Work; 10] = [
    Work {
        name: "sweep",
        axis: "resources",
        bars: &[Bar::Silent, Bar::Naive("1,000", 50.0), Bar::Floor(MANY, 3.0), Bar::Growth(1.1)],
    },
    Work { name: "cold", axis: "resources", bars: &[] },
    Work { name: "crowd", axis: "resources", bars: &[Bar::Growth(1.1)] },
    Work { name: "converge", axis: "machines", bars: &[Bar::Share(0.7)] },
    Work { name: "watch", axis: "changes", bars: &[Bar::Floor(&["p99"], 10.0)] },
    Work { name: "teardown", axis: "machines", bars: &[] },
    Work { name: "declare", axis: "declarations", bars: &[] },
    Work { name: "life", axis: "machines", bars: &[] },
    Work { name: "drain", axis: "events", bars: &[Bar::Share(0.5)] },
    Work { name: "claim", axis: "workers", bars: &[] },
];

impl Work {
    /// Each bar in words, and whether it was met.
    pub(super) fn judged(&self, of: &[Measurement]) -> String {
        let lines = self.bars.iter().map(|bar| {
            let (met, found) = bar.judge(of);
            let verdict = if met { "met" } else { "**missed**" };
            format!("- {}: {verdict}, {found}\n", bar.in_words())
        });
        lines.collect()
    }
}

impl Bar {
    fn in_words(self) -> String {
        match self {
            Self::Naive(case, bound) => {
                format!("the naive way takes at least {} times as long ({case})", shown(bound))
            }
            Self::Floor([], bound) => {
                format!("at most {} times the floor, in every case", shown(bound))
            }
            Self::Floor(cases, bound) => {
                format!("at most {} times the floor ({})", shown(bound), cases.join(", "))
            }
            Self::Share(bound) => format!("at least {:.0}% of the floor", bound * 100.0),
            Self::Silent => "no request, and nothing written".to_owned(),
            Self::Growth(bound) => format!("grows with an exponent of at most {}", shown(bound)),
        }
    }

    /// Whether it is met, and what was found; by the case that is furthest from it.
    fn judge(self, of: &[Measurement]) -> (bool, String) {
        let floors = |wanted: &[&str]| {
            let wanted = move |name: &str| wanted.is_empty() || wanted.contains(&name);
            let each = cases(of).into_iter().filter(move |(name, _)| wanted(name));
            each.filter_map(|(_, of)| Some(ratio(&of, Way::Ours, Way::Floor)?.median))
                .max_by(f64::total_cmp)
        };
        let compared = |found: Option<f64>, met: fn(f64, f64) -> bool, bound: f64| match found {
            Some(found) => (met(found, bound), shown(found)),
            None => (false, "not measured".to_owned()),
        };
        match self {
            Self::Naive(wanted, bound) => {
                let case = cases(of).into_iter().find(|(name, _)| *name == wanted);
                let found = case.and_then(|(_, of)| ratio(&of, Way::Naive, Way::Ours));
                compared(found.map(|it| it.median), |found, bound| found >= bound, bound)
            }
            Self::Floor(wanted, bound) => {
                compared(floors(wanted), |found, bound| found <= bound, bound)
            }
            Self::Share(bound) => match floors(&[]).map(f64::recip) {
                Some(share) => (share >= bound, format!("{:.0}%", share * 100.0)),
                None => (false, "not measured".to_owned()),
            },
            Self::Silent => silent(most(of, Way::Ours)),
            Self::Growth(bound) => {
                let points = growth(of, Way::Ours);
                // What any amount costs anyhow flattens the least one. A single step says more about two runs.
                let least = usize::from(points.len() > 2);
                let Some((line, step)) = exponent(&points[least..]).zip(steepest(&points)) else {
                    return (false, "not measured".to_owned());
                };
                let (met, line, step) = (line <= bound, shown(line), shown(step));
                (met, format!("{line} without the least amount, {step} at its steepest step"))
            }
        }
    }
}

/// Whether nothing was asked for, and what was. Nobody can say so who did not count.
fn silent(most: Option<Counted>) -> (bool, String) {
    match most {
        Some(Counted { requests: Some(requests), commits: Some(commits), rows: Some(rows) }) => {
            let [asked, committed, written] = [requests, commits, rows].map(grouped);
            let found = format!("{asked} requests, {committed} commits, {written} rows");
            (requests + commits + rows == 0, found)
        }
        Some(_) => (false, "not counted".to_owned()),
        None => (false, "not measured".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ratio::tests::took;
    use super::*;

    #[test]
    fn a_bar_is_judged_by_the_case_that_is_furthest_from_it() {
        let times = [
            took(10, Way::Floor, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(100, Way::Floor, 1, 1_000),
            took(100, Way::Ours, 1, 4_000),
            took(100, Way::Naive, 1, 200_000),
        ];
        let bars = &[
            Bar::Floor(&[], 3.0),
            Bar::Floor(&["10"], 3.0),
            Bar::Naive("100", 50.0),
            Bar::Naive("1,000", 50.0),
            Bar::Share(0.2),
            Bar::Silent,
            Bar::Growth(1.1),
        ];
        assert_eq!(
            Work { name: "any", axis: "any", bars }.judged(&times),
            "- at most 3.00 times the floor, in every case: **missed**, 4.00\n\
             - at most 3.00 times the floor (10): met, 1.50\n\
             - the naive way takes at least 50.0 times as long (100): met, 50.0\n\
             - the naive way takes at least 50.0 times as long (1,000): **missed**, not measured\n\
             - at least 20% of the floor: met, 25%\n\
             - no request, and nothing written: **missed**, 0 requests, 1 commits, 0 rows\n\
             - grows with an exponent of at most 1.10: **missed**, 1.43 without the least amount, 1.43 at its steepest step\n"
        );
    }

    #[test]
    fn silence_is_judged_by_the_loudest_round_and_only_if_it_was_counted() {
        let quiet = Counted { requests: Some(0), commits: Some(0), rows: Some(0) };
        let with = |last: Counted| {
            let mut times = [1, 2, 3].map(|round| took(10, Way::Ours, round, 1));
            for it in &mut times {
                it.counted = quiet;
            }
            times[2].counted = last;
            Bar::Silent.judge(&times)
        };
        for (last, met, found, why) in [
            (quiet, true, "0 requests, 0 commits, 0 rows", "nothing"),
            (Counted { requests: Some(1), ..quiet }, false, "1 requests, 0 commits, 0 rows", "one"),
            (Counted { commits: Some(1), ..quiet }, false, "0 requests, 1 commits, 0 rows", "one"),
            (Counted { rows: Some(1), ..quiet }, false, "0 requests, 0 commits, 1 rows", "one"),
            (Counted { requests: None, ..quiet }, false, "not counted", "nobody looked"),
            (Counted { commits: None, ..quiet }, false, "not counted", "nobody looked"),
            (Counted { rows: None, ..quiet }, false, "not counted", "nobody looked"),
        ] {
            assert_eq!(with(last), (met, found.to_owned()), "{why}");
        }
        assert_eq!(Bar::Silent.judge(&[]), (false, "not measured".to_owned()));
    }

    #[test]
    fn growth_is_judged_without_the_least_amount() {
        // What every amount costs anyhow hides the last steps from the line through all of them, which is 0.67.
        let times = [(10, 900), (100, 1_000), (1_000, 20_000)];
        let times = times.map(|(many, nanoseconds)| took(many, Way::Ours, 1, nanoseconds));
        let found = "1.30 without the least amount, 1.30 at its steepest step".to_owned();
        assert_eq!(Bar::Growth(1.1).judge(&times), (false, found));
        assert_eq!(Bar::Growth(1.1).judge(&times[..1]), (false, "not measured".to_owned()));
    }
}
