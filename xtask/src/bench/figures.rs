//! Turns times into ratios within a round, with median and spread, and into growth exponents. Machine and load affect all
//! ways of a round alike, so ratios are comparable and times are not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use super::grouped;

/// One line of the program: one way in one round.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Measurement {
    case: String,
    /// The value on the workload's axis.
    size: u64,
    way: Way,
    round: u64,
    nanoseconds: u64,
    counts: ServerCounts,
    /// Processor time per process, in ticks; empty if not measured.
    #[serde(default)]
    processor_ticks: BTreeMap<String, u64>,
}

/// The implementation that ran the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    Baseline,
    Ours,
    Naive,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Baseline, "baseline"), (Way::Ours, "ours"), (Way::Naive, "naive")];

/// Requests and writes on the servers; `None` means not counted, which differs from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct ServerCounts {
    requests: Option<u64>,
    commits: Option<u64>,
    rows: Option<u64>,
}

impl ServerCounts {
    const fn each(self) -> [Option<u64>; 3] {
        [self.requests, self.commits, self.rows]
    }
}

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// `None` without figures.
    fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<_> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), min, max })
    }
}

/// The limit of a workload. The worst case decides.
#[derive(Debug, Clone, Copy)]
pub(super) enum Threshold {
    /// In this case the naive way takes at least this many times as long.
    NaiveAtLeast(&'static str, f64),
    /// In these cases ours takes at most this many times as long as the baseline.
    BaselineAtMost(&'static [&'static str], f64),
    /// In every case ours achieves at least this share of the baseline's throughput.
    ThroughputAtLeast(f64),
    /// In no round of any case does ours send a request or write.
    NoRequestsOrWrites,
    /// Ours grows with at most this exponent from one size to the next.
    ExponentAtMost(f64),
}

impl Threshold {
    /// A line of the page.
    fn line(self, of: &[Measurement]) -> String {
        let words = match self {
            Self::NaiveAtLeast(case, least) => {
                format!("the naive way takes at least {} times as long ({case})", shown(least))
            }
            Self::BaselineAtMost(cases, most) => {
                format!("at most {} times the baseline ({})", shown(most), cases.join(", "))
            }
            Self::ThroughputAtLeast(least) => {
                format!("at least {:.0}% of the baseline's throughput", least * 100.0)
            }
            Self::NoRequestsOrWrites => "no requests and no writes".to_owned(),
            Self::ExponentAtMost(most) => format!("growth exponent of at most {}", shown(most)),
        };
        let (met, found) = self.judge(of).unwrap_or_else(|| (false, "not measured".to_owned()));
        format!("- {words}: {}, {found}\n", if met { "met" } else { "**missed**" })
    }

    /// Whether the threshold is met, and the result; `None` if it was not measured.
    fn judge(self, of: &[Measurement]) -> Option<(bool, String)> {
        let slowdown = |wanted: &[&str]| {
            let wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
            let each = cases(of).into_iter().filter(|(name, _)| wanted(name));
            let each = each.filter_map(|(_, of)| ratio(&of, Way::Ours, Way::Baseline));
            each.map(|spread| spread.median).max_by(f64::total_cmp)
        };
        match self {
            Self::NaiveAtLeast(wanted, least) => {
                let case = cases(of).into_iter().find(|(name, _)| *name == wanted)?.1;
                let found = ratio(&case, Way::Naive, Way::Ours)?.median;
                Some((found >= least, shown(found)))
            }
            Self::BaselineAtMost(wanted, most) => {
                slowdown(wanted).map(|found| (found <= most, shown(found)))
            }
            Self::ThroughputAtLeast(least) => {
                let share = slowdown(&[])?.recip();
                Some((share >= least, format!("{:.0}%", share * 100.0)))
            }
            // The round with the most requests decides. An uncounted round does not meet the threshold.
            Self::NoRequestsOrWrites => {
                let ours: Vec<_> = of.iter().filter(|it| it.way == Way::Ours).collect();
                let most = [0, 1, 2].map(|place| {
                    let each = ours.iter().map(|it| it.counts.each()[place]);
                    each.reduce(|one, other| Some(one?.max(other?))).flatten()
                });
                let [Some(requests), Some(commits), Some(rows)] = most else { return None };
                let total = requests + commits + rows;
                let [requests, commits, rows] = [requests, commits, rows].map(grouped);
                let found = format!("{requests} requests, {commits} commits, {rows} rows");
                Some((total == 0, found))
            }
            Self::ExponentAtMost(most) => {
                let points = growth(of, Way::Ours);
                // Constant cost flattens the first step, so the fit excludes it. One step alone reflects only two runs.
                let line = exponent(&points[usize::from(points.len() > 2)..])?;
                let step = points.windows(2).filter_map(exponent).max_by(f64::total_cmp)?;
                let (met, line, step) = (line <= most, shown(line), shown(step));
                Some((
                    met,
                    format!("{line} without the smallest size, {step} in the steepest step"),
                ))
            }
        }
    }
}

/// The result of a workload as the page shows it.
pub(super) fn text(of: &[Measurement], axis: &str, thresholds: &[Threshold]) -> String {
    let lines: String = thresholds.iter().map(|threshold| threshold.line(of)).collect();
    let separator = if lines.is_empty() { "" } else { "\n" };
    format!("{}{separator}{lines}{}{}", table(of), processor(of), times(of, axis))
}

/// The measurements per case, in case order.
fn cases(of: &[Measurement]) -> Vec<(&str, Vec<&Measurement>)> {
    let mut cases: Vec<(&str, Vec<&Measurement>)> = Vec::new();
    for it in of {
        match cases.iter_mut().find(|(name, _)| *name == it.case) {
            Some((_, case)) => case.push(it),
            None => cases.push((&it.case, vec![it])),
        }
    }
    cases
}

/// The time ratio of two ways, per round.
fn ratio(of: &[&Measurement], one: Way, other: Way) -> Option<Spread> {
    let time = |round: u64, way: Way| {
        let of = of.iter().find(|it| it.round == round && it.way == way);
        of.map(|it| as_float(it.nanoseconds))
    };
    let rounds = of.iter().filter(|it| it.way == one).map(|it| it.round);
    Spread::of(rounds.filter_map(|round| Some(time(round, one)? / time(round, other)?)))
}

/// Ratios with their spread, and the counts of each way's median round.
fn table(of: &[Measurement]) -> String {
    let head = "| case | ours ÷ baseline | naive ÷ ours | requests | commits | rows written |\n\
                |---|---:|---:|---:|---:|---:|\n";
    let rows = cases(of).into_iter().map(|(name, of)| {
        let spread = |one, other| {
            let Some(Spread { median, min, max }) = ratio(&of, one, other) else {
                return "–".to_owned();
            };
            format!("{} ({}–{})", shown(median), shown(min), shown(max))
        };
        let counts = WAYS.map(|(way, _)| {
            let mut counts: Vec<_> =
                of.iter().filter(|it| it.way == way).map(|it| it.counts).collect();
            counts.sort();
            counts.get(counts.len() / 2).map_or([None; 3], |counts| counts.each())
        });
        let [requests, commits, rows] = [0, 1, 2].map(|place: usize| {
            counts.map(|it| it[place].map_or("–".to_owned(), grouped)).join(" / ")
        });
        let (ours, naive) = (spread(Way::Ours, Way::Baseline), spread(Way::Naive, Way::Ours));
        format!("| {name} | {ours} | {naive} | {requests} | {commits} | {rows} |\n")
    });
    format!("{head}{}", rows.collect::<String>())
}

/// The kernel counts in hundredths of a second; with fewer ticks a share is noise.
const MIN_TICKS: u64 = 100;

/// Processor time per case and way, relative to the baseline's total in the same rounds; empty if that is below
/// [`MIN_TICKS`].
fn processor(of: &[Measurement]) -> String {
    let mut lines = String::new();
    for (name, of) in cases(of) {
        let ticks_by_process = |way: Way| {
            let mut sums = BTreeMap::<&str, u64>::new();
            for (process, ticks) in
                of.iter().filter(|it| it.way == way).flat_map(|it| &it.processor_ticks)
            {
                *sums.entry(process).or_default() += ticks;
            }
            sums
        };
        let baseline: u64 = ticks_by_process(Way::Baseline).values().sum();
        for (way, title) in WAYS.into_iter().filter(|_| baseline >= MIN_TICKS) {
            let mut ticks_by_process = ticks_by_process(way);
            ticks_by_process.retain(|_, ticks| *ticks > 0);
            let share = |ticks: u64| shown(as_float(ticks) / as_float(baseline));
            let parts = ticks_by_process
                .iter()
                .map(|(process, ticks)| format!("{process} {}", share(*ticks)));
            let (parts, all) =
                (parts.collect::<Vec<_>>().join(", "), share(ticks_by_process.values().sum()));
            if !ticks_by_process.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "- {name}, {title}: {all} ({parts})");
            }
        }
    }
    let head = "\nProcessor time, relative to the baseline's total:\n\n";
    if lines.is_empty() { lines } else { format!("{head}{lines}") }
}

/// Time per way and size, relative to the shortest; empty for fewer than three sizes.
fn times(of: &[Measurement], axis: &str) -> String {
    let ways = WAYS.map(|(way, _)| growth(of, way));
    let sizes: BTreeSet<u64> = of.iter().map(|it| it.size).collect();
    let shortest = ways.iter().flatten().map(|(_, time)| *time).min_by(f64::total_cmp);
    let Some(shortest) = shortest.filter(|_| sizes.len() > 2) else { return String::new() };
    let rows = sizes.into_iter().map(|size| {
        let times = ways.each_ref().map(|points| {
            let point = points.iter().find(|(of, _)| (of - as_float(size)).abs() < 0.5);
            point.map_or("–".to_owned(), |(_, time)| shown(time / shortest))
        });
        format!("| {} | {} |\n", grouped(size), times.join(" | "))
    });
    let rows: String = rows.collect();
    format!(
        "\nTime, relative to the shortest:\n\n| {axis} | baseline | ours | naive |\n|---:|---:|---:|---:|\n{rows}"
    )
}

/// The median time of a way per size.
fn growth(of: &[Measurement], way: Way) -> Vec<(f64, f64)> {
    let mut times = BTreeMap::<u64, Vec<f64>>::new();
    for it in of.iter().filter(|it| it.way == way) {
        times.entry(it.size).or_default().push(as_float(it.nanoseconds));
    }
    let median = |(size, times): (u64, Vec<f64>)| Some((as_float(size), Spread::of(times)?.median));
    times.into_iter().filter_map(median).collect()
}

/// The growth exponent: the slope of the regression line through the logarithms.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logarithms: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = as_float(logarithms.len() as u64);
    let mean = |of: fn(&(f64, f64)) -> f64| logarithms.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let across: f64 = logarithms.iter().map(|it| (it.0 - x).powi(2)).sum();
    let along: f64 = logarithms.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    (across > 0.0).then(|| along / across)
}

/// Ratios are shown with three digits.
fn shown(figure: f64) -> String {
    if figure >= 100.0 {
        grouped(format!("{figure:.0}"))
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio is shown with three digits")]
const fn as_float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(size: u64, way: Way, round: u64, nanoseconds: u64) -> Measurement {
        let counts = ServerCounts { requests: Some(0), commits: Some(0), rows: Some(0) };
        let processor_ticks = BTreeMap::new();
        Measurement {
            case: size.to_string(),
            size,
            way,
            round,
            nanoseconds,
            counts,
            processor_ticks,
        }
    }

    #[test]
    fn threshold_with_several_cases_judges_the_worst() {
        let times = [
            took(10, Way::Baseline, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(100, Way::Baseline, 1, 1_000),
            took(100, Way::Ours, 1, 4_000),
            took(100, Way::Naive, 1, 200_000),
            took(1_000, Way::Ours, 1, 80_000),
        ];
        let growth =
            "at most 1.10: **missed**, 1.30 without the smallest size, 1.43 in the steepest step";
        for (threshold, expected) in [
            (
                Threshold::BaselineAtMost(&["10", "100"], 3.0),
                "3.00 times the baseline (10, 100): **missed**, 4.00",
            ),
            (
                Threshold::BaselineAtMost(&["10"], 3.0),
                "at most 3.00 times the baseline (10): met, 1.50",
            ),
            (Threshold::NaiveAtLeast("100", 50.0), "at least 50.0 times as long (100): met, 50.0"),
            (Threshold::NaiveAtLeast("1,000", 50.0), "(1,000): **missed**, not measured"),
            (
                Threshold::ThroughputAtLeast(0.2),
                "at least 20% of the baseline's throughput: met, 25%",
            ),
            (Threshold::ExponentAtMost(1.1), growth),
        ] {
            assert!(threshold.line(&times).contains(expected), "{}", threshold.line(&times));
        }
        assert!(
            Threshold::ExponentAtMost(1.1)
                .line(&times[..2])
                .ends_with("**missed**, not measured\n")
        );
        let mut twice = [10, 10].map(|size| took(size, Way::Ours, 1, 1));
        for (requests, expected) in [
            (Some(0), "met, 0 requests, 0 commits, 0 rows\n"),
            (Some(1), "**missed**, 1 requests, 0 commits, 0 rows\n"),
            (None, "**missed**, not measured\n"),
        ] {
            twice[1].counts.requests = requests;
            let line = Threshold::NoRequestsOrWrites.line(&twice);
            assert!(line.ends_with(expected), "{requests:?}: {line}");
        }
        // A machine that becomes ten times slower after the first round must not change the result.
        let rounds = [
            took(10, Way::Baseline, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(10, Way::Baseline, 2, 1_000),
            took(10, Way::Ours, 2, 2_500),
        ];
        assert!(Threshold::ThroughputAtLeast(0.5).line(&rounds).ends_with("met, 50%\n"));
    }
}
