//! Contract suites: named cases, each run in its own world, and a report.

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

/// A violated guarantee, with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    /// A violation with a message.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Any other error in a case is a violation, too.
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

/// One guarantee: its name, and its check in a fresh world `W`.
pub struct Case<W> {
    name: &'static str,
    check: Box<dyn for<'a> Fn(&'a W) -> Running<'a> + Send + Sync>,
}

impl<W> Case<W> {
    /// A case; the name states the guarantee.
    pub fn new(
        name: &'static str,
        check: impl for<'a> Fn(&'a W) -> Running<'a> + Send + Sync + 'static,
    ) -> Self {
        Self { name, check: Box::new(check) }
    }

    /// The name of the guarantee.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// The default timeout of a case. Only a hung adapter reaches it.
pub const TIMEOUT: Duration = Duration::from_mins(5);

/// The cases of one port.
pub struct Suite<W> {
    cases: Vec<Case<W>>,
    timeout: Duration,
}

impl<W> Suite<W> {
    /// A suite of cases with the timeout [`TIMEOUT`].
    pub fn new(cases: impl IntoIterator<Item = Case<W>>) -> Self {
        Self { cases: cases.into_iter().collect(), timeout: TIMEOUT }
    }

    /// Sets the timeout of each case, including the creation of its world.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The names of all cases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.cases.iter().map(Case::name)
    }

    /// Runs every case in a fresh world. A case that fails, panics or hangs does not stop the others.
    ///
    /// Needs a Tokio runtime with time. The timeout works at await points; an adapter that blocks its thread hangs the
    /// suite.
    pub async fn run<F: Future<Output = W>>(&self, fresh: impl Fn() -> F) -> Report {
        let mut outcomes = Vec::with_capacity(self.cases.len());
        for case in &self.cases {
            let running = async {
                let world = fresh().await;
                (case.check)(&world).await
            };
            let finished = AssertUnwindSafe(timeout(self.timeout, running)).catch_unwind().await;
            let outcome = match finished {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(Violation(format!("did not end within {:?}", self.timeout))),
                Err(panic) => Err(Violation(panic_message(&*panic))),
            };
            outcomes.push((case.name, outcome));
        }
        Report { outcomes }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panicked: {}", text.unwrap_or("no message"))
}

/// The outcomes of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an unchecked report proves nothing"]
pub struct Report {
    outcomes: Vec<(&'static str, Result<(), Violation>)>,
}

impl Report {
    /// The number of cases that ran.
    pub fn ran(&self) -> usize {
        self.outcomes.len()
    }

    /// The failed cases with their violations.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, &Violation)> {
        self.outcomes.iter().filter_map(|(name, outcome)| Some((*name, outcome.as_ref().err()?)))
    }

    /// Panics if a case failed, with one line for each.
    ///
    /// # Panics
    ///
    /// When a case failed, or the suite is empty.
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn report_names_each_failed_case_and_runs_all() {
        let suite = Suite::new(vec![
            Case::new("fails", |()| Box::pin(async { Err(Violation::new("no")) })),
            Case::new("panics", |()| Box::pin(async { panic!("oh") })),
            Case::new("hangs", |()| Box::pin(pending())),
            Case::new("passes", |()| Box::pin(async { Ok(()) })),
        ]);
        let report = suite.with_timeout(Duration::from_secs(7)).run(async || ()).await;
        let expected = "BROKEN fails: no\nBROKEN panics: panicked: oh\n\
                        BROKEN hangs: did not end within 7s\nok    passes\n";
        assert_eq!(report.to_string(), expected);
    }
}
