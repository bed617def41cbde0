//! What benchmarks are held to, whatever they were before: a figure that creeps up by a twentieth each time is no step
//! back once.

use super::figures::{Measurement, Way, cases, exponent, growth, ratio, shown};
use super::page::grouped;

/// A bound. It is judged by the case that is furthest from it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bar {
    /// At most so many instructions for each decision. A case makes as many as its name says: `Pending, 48 decisions`.
    Decision(u64),
    /// At most so many bytes per resource, in the cases whose name begins like this; an empty text is all of them.
    Resource(u64, &'static str),
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

/// Whether a bar is met, and what was found; nothing where it was not measured.
type Verdict = Option<(bool, String)>;

impl Bar {
    fn in_words(self) -> String {
        match self {
            Self::Decision(most) => {
                format!("at most {} instructions for each decision", grouped(most))
            }
            Self::Resource(most, _) => format!("at most {} bytes per resource", grouped(most)),
            Self::Naive(case, least) => {
                format!("the naive way takes at least {} times as long ({case})", shown(least))
            }
            Self::Floor(cases, most) => {
                format!("at most {} times the floor ({})", shown(most), cases.join(", "))
            }
            Self::Share(least) => format!("at least {:.0}% of the floor", least * 100.0),
            Self::Silent => "no request, and nothing written".to_owned(),
            Self::Growth(most) => format!("grows with an exponent of at most {}", shown(most)),
        }
    }

    /// A line of the page.
    fn line(self, verdict: Verdict) -> String {
        let (met, found) = verdict.unwrap_or_else(|| (false, "not measured".to_owned()));
        let met = if met { "met" } else { "**missed**" };
        format!("- {}: {met}, {found}\n", self.in_words())
    }

    /// By what was counted.
    pub(super) fn of_counted(self, figures: &[(String, u64)]) -> String {
        let begins = if let Self::Resource(_, begins) = self { begins } else { "" };
        let each = figures.iter().filter(|(case, _)| case.starts_with(begins));
        let is_decision = matches!(self, Self::Decision(_));
        let each = each.map(|(case, figure)| {
            if is_decision { per_decision(case, *figure).ok_or(case) } else { Ok(*figure) }
        });
        // The dearest; or what kept one from being known, for that one may be it.
        let dearest = each.collect::<Result<Vec<_>, _>>().map(|each| each.into_iter().max());
        let (Self::Decision(most) | Self::Resource(most, _)) = self else { return self.line(None) };
        self.line(match dearest {
            Ok(found) => found.map(|found| (found <= most, grouped(found))),
            Err(case) => Some((false, format!("`{case}` does not say how many it makes"))),
        })
    }

    /// By what was measured.
    pub(super) fn of_measured(self, of: &[Measurement]) -> String {
        self.line(self.judge(of))
    }

    fn judge(self, of: &[Measurement]) -> Verdict {
        let median = |of: &[&Measurement], one, other| ratio(of, one, other).map(|it| it.median);
        let floors = |wanted: &[&str]| {
            let wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
            let each = cases(of).into_iter().filter(|(name, _)| wanted(name));
            each.filter_map(|(_, of)| median(&of, Way::Ours, Way::Floor)).max_by(f64::total_cmp)
        };
        match self {
            Self::Decision(_) | Self::Resource(..) => None,
            Self::Naive(wanted, least) => {
                let case = cases(of).into_iter().find(|(name, _)| *name == wanted)?.1;
                let found = median(&case, Way::Naive, Way::Ours)?;
                Some((found >= least, shown(found)))
            }
            Self::Floor(wanted, most) => floors(wanted).map(|found| (found <= most, shown(found))),
            Self::Share(least) => {
                let share = floors(&[])?.recip();
                Some((share >= least, format!("{:.0}%", share * 100.0)))
            }
            Self::Silent => silent(of),
            Self::Growth(most) => {
                let points = growth(of, Way::Ours);
                // What any amount costs anyhow flattens the least one. A single step says more about two runs.
                let line = exponent(&points[usize::from(points.len() > 2)..])?;
                let step = points.windows(2).filter_map(exponent).max_by(f64::total_cmp)?;
                let (met, line, step) = (line <= most, shown(line), shown(step));
                Some((met, format!("{line} without the least amount, {step} at its steepest step")))
            }
        }
    }
}

/// Judged by the loudest round of any case. Silence that was not counted is none.
fn silent(of: &[Measurement]) -> Verdict {
    let ours: Vec<_> = of.iter().filter(|it| it.way == Way::Ours).collect();
    ours.first()?;
    let most = [0, 1, 2].map(|place| {
        let each = ours.iter().map(|it| it.counted.each()[place]);
        each.reduce(|one, other| Some(one?.max(other?))).flatten()
    });
    let [Some(requests), Some(commits), Some(rows)] = most else {
        return Some((false, "not counted".to_owned()));
    };
    let [asked, committed, written] = [requests, commits, rows].map(grouped);
    let found = format!("{asked} requests, {committed} commits, {written} rows");
    Some((requests + commits + rows == 0, found))
}

/// Rounded up: a bar is not met by leaving something out.
fn per_decision(case: &str, figure: u64) -> Option<u64> {
    let words = case.strip_suffix(" decisions").or_else(|| case.strip_suffix(" decision"))?;
    let many: u64 = words.rsplit(' ').next()?.replace(',', "").parse().ok()?;
    (many > 0).then(|| figure.div_ceil(many))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::took;
    use super::*;

    #[test]
    fn counted_bar_is_judged_by_the_dearest_case_that_it_is_about() {
        type Case<'a> = (Bar, &'a [(&'a str, u64)], &'a str);
        let decision = Bar::Decision(100);
        let heap = Bar::Resource(1_024, "heap per resource");
        let rows: &[Case<'_>] = &[
            (
                decision,
                &[("Pending, 48 decisions", 4_800), ("Ready, 10 decisions", 20)],
                "met, 100",
            ),
            (decision, &[("Pending, 48 decisions", 4_801)], "**missed**, 101"),
            (decision, &[("all 1,024 decisions", 2_048)], "met, 2"),
            (decision, &[("Failed, 1 decision", 7)], "met, 7"),
            (
                decision,
                &[("Ready, 1 decision", 2), ("Failed", 7)],
                "`Failed` does not say how many",
            ),
            (decision, &[("Failed, 0 decisions", 7)], "does not say how many it makes"),
            (decision, &[], "**missed**, not measured"),
            (heap, &[("heap per resource, of 9", 1_024), ("resident", 99_999)], "met, 1,024"),
            (heap, &[("heap per resource, of 9", 1_025)], "**missed**, 1,025"),
            (heap, &[("resident with 9", 1)], "**missed**, not measured"),
        ];
        for (bar, figures, expected) in rows {
            let figures: Vec<_> =
                figures.iter().map(|(case, it)| ((*case).to_owned(), *it)).collect();
            let line = bar.of_counted(&figures);
            assert!(line.contains(expected), "{figures:?}: {line}");
        }
    }

    #[test]
    fn measured_bar_is_judged_by_the_case_that_is_furthest_from_it() {
        let times = [
            took(10, Way::Floor, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(100, Way::Floor, 1, 1_000),
            took(100, Way::Ours, 1, 4_000),
            took(100, Way::Naive, 1, 200_000),
            took(1_000, Way::Ours, 1, 80_000),
        ];
        let growth = "grows with an exponent of at most 1.10: **missed**, 1.30 without the least amount, \
                      1.43 at its steepest step";
        for (bar, expected) in [
            (
                Bar::Floor(&["10", "100"], 3.0),
                "at most 3.00 times the floor (10, 100): **missed**, 4.00",
            ),
            (Bar::Floor(&["10"], 3.0), "at most 3.00 times the floor (10): met, 1.50"),
            (Bar::Naive("100", 50.0), "at least 50.0 times as long (100): met, 50.0"),
            (Bar::Naive("1,000", 50.0), "(1,000): **missed**, not measured"),
            (Bar::Share(0.2), "at least 20% of the floor: met, 25%"),
            (Bar::Silent, "nothing written: **missed**, 0 requests, 1 commits, 0 rows"),
            (Bar::Growth(1.1), growth),
        ] {
            assert!(bar.of_measured(&times).contains(expected), "{}", bar.of_measured(&times));
        }
        let none = Bar::Growth(1.1).of_measured(&times[..2]);
        assert!(none.ends_with("**missed**, not measured\n"), "{none}");
    }

    #[test]
    fn silence_is_judged_by_the_loudest_round_and_only_if_it_was_counted() {
        let with = |[requests, commits, rows]: [Option<u64>; 3]| {
            let mut times = [1, 2, 3].map(|round| took(10, Way::Ours, round, 1));
            for it in &mut times {
                it.counted.commits = Some(0);
            }
            let last = &mut times[2].counted;
            (last.requests, last.commits, last.rows) = (requests, commits, rows);
            silent(&times).unwrap()
        };
        let (none, one) = (Some(0), Some(1));
        for (last, met, found) in [
            ([none, none, none], true, "0 requests, 0 commits, 0 rows"),
            ([one, none, none], false, "1 requests, 0 commits, 0 rows"),
            ([none, one, none], false, "0 requests, 1 commits, 0 rows"),
            ([none, none, one], false, "0 requests, 0 commits, 1 rows"),
            ([None, none, none], false, "not counted"),
            ([none, None, none], false, "not counted"),
            ([none, none, None], false, "not counted"),
        ] {
            assert_eq!(with(last), (met, found.to_owned()), "{last:?}");
        }
    }
}
