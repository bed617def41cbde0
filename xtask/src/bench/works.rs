//! The works that are measured as a whole, and the bars that each of them is held to.

use super::ratio::{Measurement, Way, counted, exponent, growth, ratio};
use super::table::{cases, shown};

/// A work of the program `whole`.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: &'static str,
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
    /// In every case ours sends no request and writes nothing.
    Silent,
    /// Ours grows with no greater exponent.
    Growth(f64),
}

/// Below this the handful of questions that any sweep asks weighs more than the rows.
const MANY: &[&str] = &["1,000", "10,000", "100,000, cluster in memory"];

pub(super) const WORKS: [Work; 9] = [
    Work {
        name: "sweep",
        bars: &[Bar::Silent, Bar::Naive("1,000", 50.0), Bar::Floor(MANY, 3.0), Bar::Growth(1.1)],
    },
    Work { name: "cold", bars: &[] },
    Work { name: "crowd", bars: &[Bar::Growth(1.1)] },
    Work { name: "converge", bars: &[Bar::Share(0.7)] },
    Work { name: "watch", bars: &[Bar::Floor(&["p99"], 10.0)] },
    Work { name: "teardown", bars: &[] },
    Work { name: "declare", bars: &[] },
    Work { name: "drain", bars: &[Bar::Share(0.5)] },
    Work { name: "claim", bars: &[] },
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
            Self::Silent => {
                let each = cases(of).into_iter().filter_map(|(_, of)| counted(&of, Way::Ours));
                let most = each.max();
                let said = most.map(|it| format!("{} requests, {} rows", it.requests, it.rows));
                (most.is_some_and(|it| it.requests + it.rows == 0), said.unwrap_or_default())
            }
            Self::Growth(bound) => {
                compared(exponent(&growth(of, Way::Ours)), |found, bound| found <= bound, bound)
            }
        }
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
            Work { name: "any", bars }.judged(&times),
            "- at most 3.00 times the floor, in every case: **missed**, 4.00\n\
             - at most 3.00 times the floor (10): met, 1.50\n\
             - the naive way takes at least 50.0 times as long (100): met, 50.0\n\
             - the naive way takes at least 50.0 times as long (1,000): **missed**, not measured\n\
             - at least 20% of the floor: met, 25%\n\
             - no request, and nothing written: met, 0 requests, 0 rows\n\
             - grows with an exponent of at most 1.10: **missed**, 1.43\n"
        );
    }
}
