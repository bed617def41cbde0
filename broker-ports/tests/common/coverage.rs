//! What the runs against broken adapters add up to: every flaw is caught by the case that was written against
//! it, and there is no case that no flaw fails. Such a case would prove nothing.

use std::collections::BTreeSet;
use std::fmt::Debug;

/// The cases of some suites, and how the flaws fared so far.
pub(crate) struct Coverage {
    cases: BTreeSet<&'static str>,
    ever_failed: BTreeSet<&'static str>,
    flaws: usize,
    /// How many cases one flaw may fail. An adapter that fails more does not break a promise, it does not work,
    /// and its failing says nothing about any one case.
    at_most: usize,
    wrong: Vec<String>,
}

impl Coverage {
    pub(crate) fn of(cases: impl IntoIterator<Item = &'static str>, at_most: usize) -> Self {
        let cases = cases.into_iter().collect();
        Self { cases, ever_failed: BTreeSet::new(), flaws: 0, at_most, wrong: Vec::new() }
    }

    /// Notes what an adapter with a flaw fails; the named case has to be among it.
    pub(crate) fn note(&mut self, flaw: impl Debug, named: &str, failed: Vec<&'static str>) {
        println!("{flaw:?} fails {}: {}", failed.len(), failed.join(", "));
        self.flaws += 1;
        if !self.cases.contains(named) {
            self.wrong.push(format!("there is no case {named}"));
        } else if !failed.contains(&named) {
            self.wrong.push(format!("{flaw:?} passes {named}; it fails {failed:?}"));
        }
        if failed.len() > self.at_most {
            self.wrong.push(format!("{flaw:?} fails {} cases", failed.len()));
        }
        self.ever_failed.extend(failed);
    }

    /// Fails the test if a flaw was not caught, or if a case was never failed.
    pub(crate) fn assert_complete(mut self) {
        let never: Vec<_> = self.cases.difference(&self.ever_failed).copied().collect();
        println!("{} cases, {} flaws, {} never failed", self.cases.len(), self.flaws, never.len());
        self.wrong.extend(never.into_iter().map(|case| format!("no flaw fails {case}")));
        assert!(self.wrong.is_empty(), "\n{}", self.wrong.join("\n"));
    }
}
