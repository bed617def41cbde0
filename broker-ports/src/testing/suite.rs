//! What every contract suite is made of: named cases, each run in a world of its own, and a report.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use futures_util::FutureExt;

/// A promise that was broken, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    /// A violation in words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whatever goes wrong on the way to a check is a violation, too: a port has to answer.
impl<E: std::error::Error> From<E> for Violation {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self(text)
    }
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Violation>> + Send + 'a>>;

/// One promise: its name, and how it is checked in a world `W` that nobody else uses.
pub struct Case<W> {
    name: &'static str,
    check: Box<dyn for<'a> Fn(&'a W) -> Running<'a> + Send + Sync>,
}

impl<W> Case<W> {
    /// A case; the name says what is promised.
    pub fn new(
        name: &'static str,
        check: impl for<'a> Fn(&'a W) -> Running<'a> + Send + Sync + 'static,
    ) -> Self {
        Self { name, check: Box::new(check) }
    }

    /// What is promised.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The cases of one port.
pub struct Suite<W> {
    cases: Vec<Case<W>>,
}

impl<W> Suite<W> {
    /// A suite of cases.
    pub fn new(cases: Vec<Case<W>>) -> Self {
        Self { cases }
    }

    /// The names of all cases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.cases.iter().map(Case::name)
    }

    /// Runs every case in a fresh world; a case that fails or panics does not stop the others.
    pub async fn run<F: Future<Output = W>>(&self, fresh: impl Fn() -> F) -> Report {
        let mut outcomes = Vec::with_capacity(self.cases.len());
        for case in &self.cases {
            let world = fresh().await;
            let outcome = AssertUnwindSafe((case.check)(&world)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|panic| Err(Violation::new(words(&*panic))));
            outcomes.push((case.name, outcome));
        }
        Report { outcomes }
    }
}

/// What a panic said.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("without a word"))
}

/// How the cases of a suite went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a report that nobody looks at proves nothing"]
pub struct Report {
    outcomes: Vec<(&'static str, Result<(), Violation>)>,
}

impl Report {
    /// How many cases ran.
    pub fn ran(&self) -> usize {
        self.outcomes.len()
    }

    /// The cases that failed, with what they found.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &Violation)> {
        self.outcomes.iter().filter_map(|(name, outcome)| Some((*name, outcome.as_ref().err()?)))
    }

    /// Fails the calling test if a case failed, with one line for each.
    ///
    /// # Panics
    ///
    /// When a case failed, or when there was none.
    pub fn assert_passed(&self) {
        assert!(!self.outcomes.is_empty(), "the suite has no case");
        let lines: Vec<_> =
            self.failures().map(|(name, violation)| format!("\n  {name}: {violation}")).collect();
        assert!(
            lines.is_empty(),
            "{} of {} cases failed:{}",
            lines.len(),
            self.ran(),
            lines.concat()
        );
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, outcome) in &self.outcomes {
            match outcome {
                Ok(()) => writeln!(f, "ok    {name}")?,
                Err(violation) => writeln!(f, "BROKEN {name}: {violation}")?,
            }
        }
        Ok(())
    }
}
