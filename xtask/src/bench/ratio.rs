//! What becomes of times: ratios within a round, their median and spread, and how a way grows. A time by itself says
//! something about the machine and about what else it does; whatever that is, it meets all ways of a round alike.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A line that the program prints: one way, once.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Measurement {
    pub(super) case: String,
    /// How much of it there was.
    pub(super) many: u64,
    pub(super) way: Way,
    pub(super) round: u64,
    pub(super) nanoseconds: u64,
    pub(super) counted: Counted,
    /// Whose processor time it took, in ticks; nothing where a work is told by itself.
    #[serde(default)]
    pub(super) spent: BTreeMap<String, u64>,
}

/// In which way a work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Floor,
    Ours,
    Naive,
}

impl Way {
    pub(super) const ALL: [Self; 3] = [Self::Floor, Self::Ours, Self::Naive];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Ours => "ours",
            Self::Naive => "naive",
        }
    }
}

/// What was asked of the servers meanwhile; `None` is what nobody counted, which is not the same as nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct Counted {
    pub(super) requests: Option<u64>,
    pub(super) commits: Option<u64>,
    pub(super) rows: Option<u64>,
}

/// The middle of some figures, and the least and greatest of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Spread {
    /// Nothing has no middle.
    pub(super) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<_> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (least, greatest) = (*figures.first()?, *figures.last()?);
        let (low, high) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), least, greatest })
    }
}

/// How many times as long one way took as another, round by round.
pub(super) fn ratio(of: &[&Measurement], one: Way, other: Way) -> Option<Spread> {
    let time = |round: u64, way: Way| {
        let of = of.iter().find(|it| it.round == round && it.way == way);
        of.map(|it| seconds(it.nanoseconds))
    };
    let rounds = of.iter().filter(|it| it.way == one).map(|it| it.round);
    Spread::of(rounds.filter_map(|round| Some(time(round, one)? / time(round, other)?)))
}

/// What a way asked for, in the middle one of its rounds.
pub(super) fn counted(of: &[&Measurement], way: Way) -> Option<Counted> {
    let mut counts: Vec<_> = of.iter().filter(|it| it.way == way).map(|it| it.counted).collect();
    counts.sort();
    counts.get(counts.len() / 2).copied()
}

/// The most of each that a way asked for, in any round of any case. What was not counted once is not known.
pub(super) fn most(of: &[Measurement], way: Way) -> Option<Counted> {
    let greatest = |one: Option<u64>, other: Option<u64>| Some(one?.max(other?));
    let each = of.iter().filter(|it| it.way == way).map(|it| it.counted);
    each.reduce(|one, other| Counted {
        requests: greatest(one.requests, other.requests),
        commits: greatest(one.commits, other.commits),
        rows: greatest(one.rows, other.rows),
    })
}

/// The kernel counts in hundredths of a second: with fewer of them, a share says more about when it counted.
const LEAST_TICKS: u64 = 100;

/// What each party spent in a way, against all that was spent on the floor in the same rounds; nothing where that was too
/// little to be compared with.
pub(super) fn spent(of: &[&Measurement], way: Way) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::<String, u64>::new();
    let mut floor = 0;
    for it in of {
        for (who, ticks) in &it.spent {
            floor += if it.way == Way::Floor { *ticks } else { 0 };
            *sums.entry(who.clone()).or_default() += if it.way == way { *ticks } else { 0 };
        }
    }
    sums.retain(|_, ticks| floor >= LEAST_TICKS && *ticks > 0);
    sums.into_iter().map(|(who, ticks)| (who, amount(ticks) / amount(floor))).collect()
}

/// How long a way took in the middle, for each amount, in order.
pub(super) fn growth(of: &[Measurement], way: Way) -> Vec<(f64, f64)> {
    let mut amounts: Vec<_> = of.iter().filter(|it| it.way == way).map(|it| it.many).collect();
    amounts.sort_unstable();
    amounts.dedup();
    let middle = |many: u64| {
        let times = of.iter().filter(|it| it.way == way && it.many == many);
        Spread::of(times.map(|it| seconds(it.nanoseconds))).map(|it| it.median)
    };
    amounts.into_iter().filter_map(|many| Some((amount(many), middle(many)?))).collect()
}

/// The exponent with which something grows: the slope of the line through its logarithms.
pub(super) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logarithms: Vec<_> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = amount(logarithms.len() as u64);
    let mean = |of: fn(&(f64, f64)) -> f64| logarithms.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let across: f64 = logarithms.iter().map(|it| (it.0 - x).powi(2)).sum();
    let along: f64 = logarithms.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
    (across > 0.0).then(|| along / across)
}

/// The greatest exponent between neighbouring amounts: what a small amount costs anyhow makes the line through all of
/// them flatter than its end is.
pub(super) fn steepest(points: &[(f64, f64)]) -> Option<f64> {
    points.windows(2).filter_map(exponent).max_by(f64::total_cmp)
}

#[expect(clippy::cast_precision_loss, reason = "nobody reads the sixteenth digit of a ratio")]
const fn amount(number: u64) -> f64 {
    number as f64
}

const fn seconds(nanoseconds: u64) -> f64 {
    amount(nanoseconds) / 1e9
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::bench) fn took(many: u64, way: Way, round: u64, nanoseconds: u64) -> Measurement {
        let counted = Counted { requests: Some(0), commits: Some(round), rows: Some(0) };
        let spent = BTreeMap::new();
        Measurement { case: many.to_string(), many, way, round, nanoseconds, counted, spent }
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let spread = |figures: &[f64]| Spread::of(figures.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { median: 3.0, least: 3.0, greatest: 3.0 }));
        assert_eq!(
            spread(&[9.0, 1.0, 2.0, 4.0]),
            Some(Spread { median: 3.0, least: 1.0, greatest: 9.0 })
        );
    }

    #[test]
    fn ratios_are_made_within_rounds() {
        // A machine that becomes ten times slower after the first round changes nothing.
        let times = [
            took(9, Way::Floor, 1, 100),
            took(9, Way::Ours, 1, 200),
            took(9, Way::Floor, 2, 1_000),
            took(9, Way::Ours, 2, 3_000),
        ];
        let times: Vec<_> = times.iter().collect();
        let spread = ratio(&times, Way::Ours, Way::Floor).unwrap();
        assert_eq!(spread, Spread { median: 2.5, least: 2.0, greatest: 3.0 });
        assert_eq!(ratio(&times, Way::Naive, Way::Ours), None);
        assert_eq!(counted(&times, Way::Ours).unwrap().commits, Some(2));
    }

    #[test]
    fn the_most_is_taken_from_all_rounds_and_cases() {
        let mut times = [
            took(10, Way::Ours, 3, 1),
            took(10, Way::Ours, 1, 1),
            took(20, Way::Ours, 2, 1),
            took(20, Way::Floor, 9, 1),
        ];
        times[2].counted.requests = Some(7);
        let expected = Counted { requests: Some(7), commits: Some(3), rows: Some(0) };
        assert_eq!(most(&times, Way::Ours), Some(expected));
        assert_eq!(most(&times, Way::Naive), None);
        times[1].counted.requests = None;
        assert_eq!(most(&times, Way::Ours), Some(Counted { requests: None, ..expected }));
    }

    #[test]
    fn what_nobody_counted_is_read_as_such() {
        let line = r#"{"work": "any", "case": "9", "many": 9, "way": "ours", "round": 1,
            "nanoseconds": 5, "counted": {"requests": null, "commits": 0, "rows": 3}}"#;
        let read: Measurement = serde_json::from_str(line).unwrap();
        assert_eq!(read.counted, Counted { requests: None, commits: Some(0), rows: Some(3) });
    }

    #[test]
    fn what_was_spent_is_told_against_all_of_the_floor() {
        let mut floor = took(9, Way::Floor, 1, 1);
        floor.spent = BTreeMap::from([("etcd".to_owned(), 300), ("caller".to_owned(), 100)]);
        let mut ours = took(9, Way::Ours, 1, 1);
        ours.spent = BTreeMap::from([("etcd".to_owned(), 400), ("Postgres".to_owned(), 200)]);
        let of = [&floor, &ours];
        let named = |who: &str, share| (who.to_owned(), share);
        assert_eq!(spent(&of, Way::Floor), [named("caller", 0.25), named("etcd", 0.75)].into());
        assert_eq!(spent(&of, Way::Ours), [named("Postgres", 0.5), named("etcd", 1.0)].into());
        assert_eq!(spent(&[&ours], Way::Ours), BTreeMap::new(), "without a floor");
        floor.spent = BTreeMap::from([("etcd".to_owned(), LEAST_TICKS - 1)]);
        assert_eq!(spent(&[&floor, &ours], Way::Ours), BTreeMap::new(), "too little of a floor");
    }

    #[test]
    fn the_exponent_of_what_doubles_with_its_amount_is_one() {
        let times = [
            took(10, Way::Ours, 1, 70),
            took(10, Way::Ours, 2, 50),
            took(10, Way::Ours, 3, 40),
            took(20, Way::Ours, 1, 100),
            took(40, Way::Ours, 1, 200),
            took(40, Way::Floor, 1, 1),
        ];
        let points = growth(&times, Way::Ours);
        assert_eq!(points.len(), 3);
        assert!((exponent(&points).unwrap() - 1.0).abs() < 1e-9);
        let square = [(1.0, 3.0), (10.0, 300.0)];
        assert!((exponent(&square).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(exponent(&square[..1]), None, "one point has no slope");
    }

    #[test]
    fn the_steepest_step_is_not_flattened_by_what_a_small_amount_costs_anyhow() {
        let points = [(1.0, 9.0), (10.0, 10.0), (100.0, 1_000.0), (1_000.0, 1_000.0)];
        assert!((steepest(&points).unwrap() - 2.0).abs() < 1e-9);
        assert!(exponent(&points).unwrap() < 1.0);
        assert_eq!(steepest(&points[..1]), None, "one point has no step");
    }
}
