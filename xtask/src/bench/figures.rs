//! Turns times into ratios: within a round, with median and spread, and growth exponents. Machine and load affect every
//! way of a round alike, so ratios are comparable and times are not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Deserialize;

use super::grouped;

/// One line of the program: one way in one round.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Measurement {
    case: String,
    /// The amount on the work's axis.
    many: u64,
    way: Way,
    round: u64,
    nanoseconds: u64,
    counted: Counted,
    /// Processor time per process, in ticks; empty if not measured.
    #[serde(default)]
    spent: BTreeMap<String, u64>,
}

/// The implementation that did the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Way {
    Floor,
    Ours,
    Naive,
}

const WAYS: [(Way, &str); 3] = [(Way::Floor, "floor"), (Way::Ours, "ours"), (Way::Naive, "naive")];

/// Requests and writes on the servers; `None` means not counted, which differs from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Counted {
    requests: Option<u64>,
    commits: Option<u64>,
    rows: Option<u64>,
}

impl Counted {
    const fn each(self) -> [Option<u64>; 3] {
        [self.requests, self.commits, self.rows]
    }
}

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy)]
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    /// `None` without figures.
    fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<_> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (least, greatest) = (*figures.first()?, *figures.last()?);
        let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), least, greatest })
    }
}

/// The limit of a work. The worst case decides.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bar {
    /// In this case the naive way takes at least this many times as long.
    Naive(&'static str, f64),
    /// In these cases ours takes at most this many times as long as the floor.
    Floor(&'static [&'static str], f64),
    /// In every case ours achieves at least this share of the floor's throughput.
    Share(f64),
    /// In no round of any case does ours send a request or write.
    Silent,
    /// Ours grows with at most this exponent from one amount to the next.
    Growth(f64),
}

impl Bar {
    /// A line of the page.
    fn line(self, of: &[Measurement]) -> String {
        let words = match self {
            Self::Naive(case, least) => {
                format!("the naive way takes at least {} times as long ({case})", shown(least))
            }
            Self::Floor(cases, most) => {
                format!("at most {} times the floor ({})", shown(most), cases.join(", "))
            }
            Self::Share(least) => format!("at least {:.0}% of the floor", least * 100.0),
            Self::Silent => "no request, and nothing written".to_owned(),
            Self::Growth(most) => format!("grows with an exponent of at most {}", shown(most)),
        };
        let (met, found) = self.judge(of).unwrap_or_else(|| (false, "not measured".to_owned()));
        format!("- {words}: {}, {found}\n", if met { "met" } else { "**missed**" })
    }

    /// Whether the bar is met, and the result; `None` if it was not measured.
    fn judge(self, of: &[Measurement]) -> Option<(bool, String)> {
        let floors = |wanted: &[&str]| {
            let wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
            let each = cases(of).into_iter().filter(|(name, _)| wanted(name));
            let each = each.filter_map(|(_, of)| ratio(&of, Way::Ours, Way::Floor));
            each.map(|spread| spread.median).max_by(f64::total_cmp)
        };
        match self {
            Self::Naive(wanted, least) => {
                let case = cases(of).into_iter().find(|(name, _)| *name == wanted)?.1;
                let found = ratio(&case, Way::Naive, Way::Ours)?.median;
                Some((found >= least, shown(found)))
            }
            Self::Floor(wanted, most) => floors(wanted).map(|found| (found <= most, shown(found))),
            Self::Share(least) => {
                let share = floors(&[])?.recip();
                Some((share >= least, format!("{:.0}%", share * 100.0)))
            }
            // The round with the most requests decides. An uncounted round is not silent.
            Self::Silent => {
                let ours: Vec<_> = of.iter().filter(|it| it.way == Way::Ours).collect();
                let most = [0, 1, 2].map(|place| {
                    let each = ours.iter().map(|it| it.counted.each()[place]);
                    each.reduce(|one, other| Some(one?.max(other?))).flatten()
                });
                let [Some(requests), Some(commits), Some(rows)] = most else { return None };
                let [asked, committed, written] = [requests, commits, rows].map(grouped);
                let found = format!("{asked} requests, {committed} commits, {written} rows");
                Some((requests + commits + rows == 0, found))
            }
            Self::Growth(most) => {
                let points = growth(of, Way::Ours);
                // Constant cost flattens the first step, so the fit excludes it. One step alone reflects only two runs.
                let line = exponent(&points[usize::from(points.len() > 2)..])?;
                let step = points.windows(2).filter_map(exponent).max_by(f64::total_cmp)?;
                let (met, line, step) = (line <= most, shown(line), shown(step));
                Some((met, format!("{line} without the least amount, {step} at its steepest step")))
            }
        }
    }
}

/// The result of a work as the page shows it.
pub(super) fn text(of: &[Measurement], axis: &str, bars: &[Bar]) -> String {
    let bars: String = bars.iter().map(|bar| bar.line(of)).collect();
    let apart = if bars.is_empty() { "" } else { "\n" };
    format!("{}{apart}{bars}{}{}", table(of), processor(of), times(of, axis))
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
        of.map(|it| amount(it.nanoseconds))
    };
    let rounds = of.iter().filter(|it| it.way == one).map(|it| it.round);
    Spread::of(rounds.filter_map(|round| Some(time(round, one)? / time(round, other)?)))
}

/// Ratios with their spread, and the request counts of each way's median round.
fn table(of: &[Measurement]) -> String {
    let head = "| case | ours ÷ floor | naive ÷ ours | requests | commits | rows written |\n\
                |---|---:|---:|---:|---:|---:|\n";
    let rows = cases(of).into_iter().map(|(name, of)| {
        let spread = |one, other| {
            let Some(Spread { median, least, greatest }) = ratio(&of, one, other) else {
                return "–".to_owned();
            };
            format!("{} ({}–{})", shown(median), shown(least), shown(greatest))
        };
        let counted = WAYS.map(|(way, _)| {
            let mut counts: Vec<_> =
                of.iter().filter(|it| it.way == way).map(|it| it.counted).collect();
            counts.sort();
            counts.get(counts.len() / 2).map_or([None; 3], |counted| counted.each())
        });
        let [requests, commits, rows] = [0, 1, 2].map(|place: usize| {
            counted.map(|it| it[place].map_or("–".to_owned(), grouped)).join(" / ")
        });
        let (ours, naive) = (spread(Way::Ours, Way::Floor), spread(Way::Naive, Way::Ours));
        format!("| {name} | {ours} | {naive} | {requests} | {commits} | {rows} |\n")
    });
    format!("{head}{}", rows.collect::<String>())
}

/// The kernel counts in hundredths of a second; with fewer ticks a share is noise.
const LEAST_TICKS: u64 = 100;

/// Processor time per case and way, relative to the floor's total in the same rounds; empty if that is below
/// [`LEAST_TICKS`].
fn processor(of: &[Measurement]) -> String {
    let mut lines = String::new();
    for (name, of) in cases(of) {
        let spent = |way: Way| {
            let mut sums = BTreeMap::<&str, u64>::new();
            for (who, ticks) in of.iter().filter(|it| it.way == way).flat_map(|it| &it.spent) {
                *sums.entry(who).or_default() += ticks;
            }
            sums
        };
        let floor: u64 = spent(Way::Floor).values().sum();
        for (way, title) in WAYS.into_iter().filter(|_| floor >= LEAST_TICKS) {
            let mut spent = spent(way);
            spent.retain(|_, ticks| *ticks > 0);
            let share = |ticks: u64| shown(amount(ticks) / amount(floor));
            let parts = spent.iter().map(|(who, ticks)| format!("{who} {}", share(*ticks)));
            let (parts, all) = (parts.collect::<Vec<_>>().join(", "), share(spent.values().sum()));
            if !spent.is_empty() {
                // Writing to a string cannot fail.
                let _ = writeln!(lines, "- {name}, {title}: {all} ({parts})");
            }
        }
    }
    let head = "\nProcessor time, against all of the floor's:\n\n";
    if lines.is_empty() { lines } else { format!("{head}{lines}") }
}

/// Time per way and amount, relative to the least; empty for fewer than three amounts.
fn times(of: &[Measurement], axis: &str) -> String {
    let ways = WAYS.map(|(way, _)| growth(of, way));
    let amounts: BTreeSet<u64> = of.iter().map(|it| it.many).collect();
    let least = ways.iter().flatten().map(|(_, time)| *time).min_by(f64::total_cmp);
    let Some(least) = least.filter(|_| amounts.len() > 2) else { return String::new() };
    let rows = amounts.into_iter().map(|many| {
        let times = ways.each_ref().map(|points| {
            let point = points.iter().find(|(of, _)| (of - amount(many)).abs() < 0.5);
            point.map_or("–".to_owned(), |(_, time)| shown(time / least))
        });
        format!("| {} | {} |\n", grouped(many), times.join(" | "))
    });
    let rows: String = rows.collect();
    format!(
        "\nTime, against the least:\n\n| {axis} | floor | ours | naive |\n|---:|---:|---:|---:|\n{rows}"
    )
}

/// The median time of a way per amount.
fn growth(of: &[Measurement], way: Way) -> Vec<(f64, f64)> {
    let mut times = BTreeMap::<u64, Vec<f64>>::new();
    for it in of.iter().filter(|it| it.way == way) {
        times.entry(it.many).or_default().push(amount(it.nanoseconds));
    }
    let middle = |(many, times): (u64, Vec<f64>)| Some((amount(many), Spread::of(times)?.median));
    times.into_iter().filter_map(middle).collect()
}

/// The growth exponent: the slope of the regression line through the logarithms.
fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logarithms: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = amount(logarithms.len() as u64);
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
const fn amount(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(many: u64, way: Way, round: u64, nanoseconds: u64) -> Measurement {
        let counted = Counted { requests: Some(0), commits: Some(round), rows: Some(0) };
        let spent = BTreeMap::new();
        Measurement { case: many.to_string(), many, way, round, nanoseconds, counted, spent }
    }

    #[test]
    fn page_shows_ratios_counts_and_floor_shares() {
        let mut times = vec![
            // A machine that becomes ten times slower after the first round must not change the result.
            took(10, Way::Floor, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(10, Way::Floor, 2, 1_000),
            took(10, Way::Ours, 2, 2_500),
            took(20, Way::Floor, 1, 100),
            took(20, Way::Ours, 1, 100),
            took(20, Way::Naive, 1, 123_456),
            took(40, Way::Ours, 1, 200),
        ];
        times[5].counted.requests = None;
        let spent = |spent: &[(&str, u64)]| {
            spent.iter().map(|(who, ticks)| ((*who).to_owned(), *ticks)).collect()
        };
        times[0].spent = spent(&[("caller", 100), ("etcd", 300)]);
        times[1].spent = spent(&[("Postgres", 200), ("caller", 0), ("etcd", 400)]);
        // Too few ticks of the floor for a comparison.
        times[4].spent = spent(&[("etcd", LEAST_TICKS - 1)]);
        times[5].spent = spent(&[("etcd", 400)]);
        assert_eq!(
            text(&times, "things", &[Bar::Share(0.4)]),
            "| case | ours ÷ floor | naive ÷ ours | requests | commits | rows written |\n\
             |---|---:|---:|---:|---:|---:|\n\
             | 10 | 2.00 (1.50–2.50) | – | 0 / 0 / – | 2 / 2 / – | 0 / 0 / – |\n\
             | 20 | 1.00 (1.00–1.00) | 1,235 (1,235–1,235) | 0 / – / 0 | 1 / 1 / 1 | 0 / 0 / 0 |\n\
             | 40 | – | – | – / 0 / – | – / 1 / – | – / 0 / – |\n\n\
             - at least 40% of the floor: met, 50%\n\n\
             Processor time, against all of the floor's:\n\n\
             - 10, floor: 1.00 (caller 0.25, etcd 0.75)\n\
             - 10, ours: 1.50 (Postgres 0.50, etcd 1.00)\n\n\
             Time, against the least:\n\n\
             | things | floor | ours | naive |\n|---:|---:|---:|---:|\n\
             | 10 | 5.50 | 13.2 | – |\n| 20 | 1.00 | 1.00 | 1,235 |\n| 40 | – | 2.00 | – |\n"
        );
        assert!(!text(&times[..7], "things", &[]).contains("Time"), "two amounts are no growth");
    }

    #[test]
    fn bar_is_judged_by_its_worst_case() {
        let times = [
            took(10, Way::Floor, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(100, Way::Floor, 1, 1_000),
            took(100, Way::Ours, 1, 4_000),
            took(100, Way::Naive, 1, 200_000),
            took(1_000, Way::Ours, 1, 80_000),
        ];
        let growth =
            "at most 1.10: **missed**, 1.30 without the least amount, 1.43 at its steepest step";
        for (bar, expected) in [
            (Bar::Floor(&["10", "100"], 3.0), "3.00 times the floor (10, 100): **missed**, 4.00"),
            (Bar::Floor(&["10"], 3.0), "at most 3.00 times the floor (10): met, 1.50"),
            (Bar::Naive("100", 50.0), "at least 50.0 times as long (100): met, 50.0"),
            (Bar::Naive("1,000", 50.0), "(1,000): **missed**, not measured"),
            (Bar::Share(0.2), "at least 20% of the floor: met, 25%"),
            (Bar::Growth(1.1), growth),
        ] {
            assert!(bar.line(&times).contains(expected), "{}", bar.line(&times));
        }
        assert!(Bar::Growth(1.1).line(&times[..2]).ends_with("**missed**, not measured\n"));
    }

    #[test]
    fn silence_is_judged_by_the_loudest_counted_round() {
        let (none, one) = (Some(0), Some(1));
        for (last, expected) in [
            ([none, none, none], "met, 0 requests, 0 commits, 0 rows"),
            ([one, none, none], "**missed**, 1 requests, 0 commits, 0 rows"),
            ([none, one, none], "**missed**, 0 requests, 1 commits, 0 rows"),
            ([none, none, one], "**missed**, 0 requests, 0 commits, 1 rows"),
            ([none, None, none], "**missed**, not measured"),
        ] {
            let mut times = [0, 0, 0].map(|round| took(10, Way::Ours, round, 1));
            let counted = &mut times[2].counted;
            [counted.requests, counted.commits, counted.rows] = last;
            let line = Bar::Silent.line(&times);
            assert!(line.ends_with(&format!(": {expected}\n")), "{last:?}: {line}");
        }
    }
}
