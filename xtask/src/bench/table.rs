//! What a work came to, as the page shows it: ratios with their spread, and beside them what was asked for.

use super::page::grouped;
use super::ratio::{Counted, Measurement, Spread, Way, counted, ratio, spent};

/// The measurements of each case, in the order in which the cases came.
pub(super) fn cases(of: &[Measurement]) -> Vec<(&str, Vec<&Measurement>)> {
    let mut cases: Vec<(&str, Vec<&Measurement>)> = Vec::new();
    for it in of {
        match cases.iter_mut().find(|(name, _)| *name == it.case) {
            Some((_, case)) => case.push(it),
            None => cases.push((&it.case, vec![it])),
        }
    }
    cases
}

/// The table of a work.
pub(super) fn table(of: &[Measurement]) -> String {
    let head = "| case | ours ÷ floor | naive ÷ ours | requests | commits | rows written |\n\
                |---|---:|---:|---:|---:|---:|\n";
    let row = |(name, of): (&str, Vec<&Measurement>)| {
        let spread = |one, other| ratio(&of, one, other).map_or("–".to_owned(), with_spread);
        let each = |count: fn(Counted) -> Option<u64>| {
            let ways = Way::ALL
                .map(|way| counted(&of, way).and_then(count).map_or("–".to_owned(), grouped));
            ways.join(" / ")
        };
        format!(
            "| {name} | {} | {} | {} | {} | {} |\n",
            spread(Way::Ours, Way::Floor),
            spread(Way::Naive, Way::Ours),
            each(|it| it.requests),
            each(|it| it.commits),
            each(|it| it.rows),
        )
    };
    let rows: String = cases(of).into_iter().map(row).collect();
    format!("{head}{rows}")
}

/// Whose processor time each case took, a line for each way; nothing where nobody counted it.
pub(super) fn processor(of: &[Measurement]) -> String {
    let line = |name: &str, of: &[&Measurement], way: Way| {
        let spent = spent(of, way);
        let all: f64 = spent.values().sum();
        let parts = spent.iter().map(|(who, share)| format!("{who} {}", shown(*share)));
        let parts: Vec<_> = parts.collect();
        let told = format!("- {name}, {}: {} ({})\n", way.as_str(), shown(all), parts.join(", "));
        (!parts.is_empty()).then_some(told)
    };
    let lines: String = cases(of)
        .iter()
        .flat_map(|(name, of)| Way::ALL.into_iter().filter_map(|way| line(name, of, way)))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\nProcessor time, against all of the floor's:\n\n{lines}")
}

fn with_spread(spread: Spread) -> String {
    let Spread { median, least, greatest } = spread;
    format!("{} ({}–{})", shown(median), shown(least), shown(greatest))
}

/// Three digits are all that a ratio has to say.
pub(super) fn shown(figure: f64) -> String {
    if figure >= 100.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a ratio of times is neither negative nor that great"
        )]
        let whole = figure.round() as u64;
        grouped(whole)
    } else if figure >= 10.0 {
        format!("{figure:.1}")
    } else {
        format!("{figure:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::ratio::tests::took;
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_case_and_a_dash_for_what_was_not_done_or_counted() {
        let mut times = [
            took(10, Way::Floor, 1, 100),
            took(10, Way::Ours, 1, 150),
            took(20, Way::Floor, 1, 100),
            took(20, Way::Ours, 1, 100),
            took(10, Way::Floor, 2, 100),
            took(10, Way::Ours, 2, 250),
            took(20, Way::Naive, 1, 123_456),
        ];
        times[3].counted.requests = None;
        assert_eq!(
            table(&times),
            "| case | ours ÷ floor | naive ÷ ours | requests | commits | rows written |\n\
             |---|---:|---:|---:|---:|---:|\n\
             | 10 | 2.00 (1.50–2.50) | – | 0 / 0 / – | 2 / 2 / – | 0 / 0 / – |\n\
             | 20 | 1.00 (1.00–1.00) | 1,235 (1,235–1,235) | 0 / – / 0 | 1 / 1 / 1 | 0 / 0 / 0 |\n"
        );
    }

    #[test]
    fn processor_time_is_told_for_each_way_that_has_some() {
        let mut floor = took(10, Way::Floor, 1, 100);
        floor.spent = [("caller".to_owned(), 100), ("etcd".to_owned(), 300)].into();
        let mut ours = took(10, Way::Ours, 1, 150);
        ours.spent = [("etcd".to_owned(), 600)].into();
        assert_eq!(
            processor(&[floor, ours]),
            "\nProcessor time, against all of the floor's:\n\n\
             - 10, floor: 1.00 (caller 0.25, etcd 0.75)\n\
             - 10, ours: 1.50 (etcd 1.50)\n"
        );
        assert_eq!(processor(&[took(10, Way::Ours, 1, 150)]), "");
    }

    #[test]
    fn a_ratio_has_three_digits() {
        for (figure, text) in [(0.031, "0.03"), (9.994, "9.99"), (50.04, "50.0"), (1234.5, "1,235")]
        {
            assert_eq!(shown(figure), text);
        }
    }
}
