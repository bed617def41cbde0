//! What a counted benchmark is held to, whatever it was before: a figure that creeps up by a twentieth each time is no step
//! back once.

use super::page::grouped;

/// The most that a figure may be; it is judged by the dearest case.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bar {
    /// Instructions for each decision. A case makes as many as its name says: `Pending, 48 decisions`.
    Decision(u64),
    /// Bytes per resource, in the cases whose name begins like this; an empty text is all of them.
    Resource(u64, &'static str),
}

/// Whether a bar was met, and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    met: bool,
    in_words: String,
    found: String,
}

impl Bar {
    pub(super) fn judge(self, figures: &[(String, u64)]) -> Judged {
        let (in_words, most, found) = match self {
            Self::Decision(most) => {
                let each = figures.iter().map(|(case, figure)| per_decision(case, *figure));
                (
                    format!("at most {} instructions for each decision", grouped(most)),
                    most,
                    dearest(each),
                )
            }
            Self::Resource(most, begins) => {
                let each = figures.iter().filter(|(case, _)| case.starts_with(begins));
                let each = each.map(|(_, figure)| Ok(*figure));
                (format!("at most {} bytes per resource", grouped(most)), most, dearest(each))
            }
        };
        let met = found.as_ref().is_ok_and(|found| *found <= most);
        Judged { met, in_words, found: found.map_or_else(|not| not, grouped) }
    }
}

impl Judged {
    /// As the page says it.
    pub(super) fn line(&self) -> String {
        let Self { met, in_words, found } = self;
        format!("- {in_words}: {}, {found}\n", if *met { "met" } else { "**missed**" })
    }

    /// As whoever compares says it; nothing if it was met.
    pub(super) fn complaint(&self, name: &str) -> Option<String> {
        let Self { met, in_words, found } = self;
        (!met).then(|| format!("{name}: {in_words}: missed, {found}"))
    }
}

/// The greatest; or what kept one from being known, for that one may be it.
fn dearest(each: impl Iterator<Item = Result<u64, String>>) -> Result<u64, String> {
    let each: Vec<_> = each.collect::<Result<_, _>>()?;
    each.into_iter().max().ok_or_else(|| "not measured".to_owned())
}

/// Rounded up: a bar is not met by leaving something out.
fn per_decision(case: &str, figure: u64) -> Result<u64, String> {
    let words = case.strip_suffix(" decisions").or_else(|| case.strip_suffix(" decision"));
    let many = words.and_then(|words| words.rsplit(' ').next());
    let many = many.and_then(|many| many.replace(',', "").parse().ok()).filter(|many| *many > 0);
    let many: u64 = many.ok_or_else(|| format!("`{case}` does not say how many it makes"))?;
    Ok(figure.div_ceil(many))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(bar: Bar, figures: &[(&str, u64)]) -> String {
        let owned = |(case, figure): &(&str, u64)| ((*case).to_owned(), *figure);
        bar.judge(&figures.iter().map(owned).collect::<Vec<_>>()).line()
    }

    #[test]
    fn a_decision_is_judged_by_the_dearest_phase() {
        let bar = Bar::Decision(100);
        let said = "- at most 100 instructions for each decision:";
        for (figures, verdict, why) in [
            (
                &[("Pending, 48 decisions", 4_800), ("Ready, 10 decisions", 20)][..],
                "met, 100",
                "both fit",
            ),
            (
                &[("Pending, 48 decisions", 4_801), ("Ready, 10 decisions", 20)],
                "**missed**, 101",
                "rounded up",
            ),
            (&[("all 1,024 decisions", 2_048)], "met, 2", "a number for people"),
            (&[("Failed, 1 decision", 7)], "met, 7", "a single one"),
            (
                &[("Ready, 10 decisions", 20), ("Failed", 7)],
                "**missed**, `Failed` does not say how many it makes",
                "unknown",
            ),
            (
                &[("Failed, 0 decisions", 7)],
                "**missed**, `Failed, 0 decisions` does not say how many it makes",
                "none",
            ),
            (&[], "**missed**, not measured", "nothing to judge by"),
        ] {
            assert_eq!(judged(bar, figures), format!("{said} {verdict}\n"), "{why}");
        }
    }

    #[test]
    fn only_what_is_kept_per_resource_is_judged() {
        let bar = Bar::Resource(1_024, "heap per resource");
        let said = "- at most 1,024 bytes per resource:";
        for (figures, verdict, why) in [
            (
                &[("heap per resource, of 9", 1_024), ("resident with 9", 99_999)][..],
                "met, 1,024",
                "the process is not",
            ),
            (
                &[("heap per resource, of 1", 9), ("heap per resource, of 9", 1_025)],
                "**missed**, 1,025",
                "the dearest",
            ),
            (&[("resident with 9", 1)], "**missed**, not measured", "nothing to judge by"),
        ] {
            assert_eq!(judged(bar, figures), format!("{said} {verdict}\n"), "{why}");
        }
    }

    #[test]
    fn a_missed_bar_is_complained_about() {
        let complaint =
            |figure| Bar::Resource(10, "").judge(&[("any".to_owned(), figure)]).complaint("x");
        assert_eq!(complaint(10), None);
        assert_eq!(complaint(11).unwrap(), "x: at most 10 bytes per resource: missed, 11");
    }
}
