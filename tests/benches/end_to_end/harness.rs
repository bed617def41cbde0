//! Measures a workload: each way runs once per round. Reports duration, requests and writes.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::fixture::{Fixture, ServerCounts};
use super::processor_time::{self, ProcessorTicks};
use super::{
    claim, cold, converge, declare, drain, lifecycle, million_rows, sweep, teardown, watch,
};

/// The number of measured rounds: the minimum for a median and a spread.
const ROUNDS: usize = 5;

type Workload = fn(BenchOptions) -> Pin<Box<dyn Future<Output = ()>>>;

const WORKLOADS: [(&str, Workload); 10] = [
    ("sweep", |options| Box::pin(sweep::run(options))),
    ("cold", |options| Box::pin(cold::run(options))),
    ("million_rows", |options| Box::pin(million_rows::run(options))),
    ("converge", |options| Box::pin(converge::run(options))),
    ("watch", |options| Box::pin(watch::run(options))),
    ("teardown", |options| Box::pin(teardown::run(options))),
    ("declare", |options| Box::pin(declare::run(options))),
    ("lifecycle", |options| Box::pin(lifecycle::run(options))),
    ("drain", |options| Box::pin(drain::run(options))),
    ("claim", |options| Box::pin(claim::run(options))),
];

pub(crate) fn run(arguments: &[String]) {
    let named = arguments.first().map(String::as_str);
    let workload = WORKLOADS.iter().find(|(name, _)| Some(*name) == named);
    let Some((_, workload)) = workload else {
        for (name, _) in WORKLOADS {
            println!("{name}");
        }
        return;
    };
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(workload(BenchOptions { quick }));
}

#[derive(Clone, Copy)]
pub(super) struct BenchOptions {
    quick: bool,
}

/// The way in which a workload is done; see the crate's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Baseline,
    Ours,
    Naive,
}

/// One case of a workload: its name and its size.
pub(super) struct Case<'a> {
    options: BenchOptions,
    fixture: &'a Fixture,
    name: String,
    pub(super) size: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    case: &'a Case<'a>,
    /// Round 0 is the warm-up: its measurements are not reported.
    number: usize,
}

impl BenchOptions {
    /// `full`, or at most 40 in a quick run.
    pub(super) fn size(self, full: usize) -> usize {
        if self.quick { full.min(40) } else { full }
    }

    pub(super) fn case(self, fixture: &Fixture, name: impl Into<String>, size: usize) -> Case<'_> {
        Case { options: self, fixture, name: name.into(), size }
    }
}

impl Case<'_> {
    pub(super) fn rounds(&self) -> impl Iterator<Item = Round<'_>> {
        let last = if self.options.quick { 2 } else { ROUNDS };
        (0..=last).map(|number| Round { case: self, number })
    }
}

impl Round<'_> {
    /// Runs the workload in one way and reports duration, API server requests and writes. The naive way skips the
    /// warm-up, because it is slow.
    pub(super) async fn measure(self, way: Way, run: impl Future<Output = ()>) {
        self.measure_counted(way, run, |counts| counts).await;
    }

    /// The same; `adjust` corrects the counts.
    pub(super) async fn measure_counted(
        self,
        way: Way,
        run: impl Future<Output = ()>,
        adjust: impl FnOnce(ServerCounts) -> ServerCounts,
    ) {
        let Self { case: Case { fixture, .. }, number } = self;
        if number == 0 && way == Way::Naive {
            return;
        }
        let start = fixture.start_counting().await;
        let ticks = processor_time::total();
        let started = Instant::now();
        run.await;
        let took = started.elapsed();
        let ticks = processor_time::between(&ticks, &processor_time::total());
        let counts = adjust(fixture.counts_since(&start, way).await);
        self.report(way, took, &counts, &ticks);
    }

    pub(super) fn report(
        self,
        way: Way,
        took: Duration,
        counts: &ServerCounts,
        ticks: &ProcessorTicks,
    ) {
        let Self { case: Case { name, size, .. }, number } = self;
        if number == 0 {
            return;
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap();
        let line = json!({
            "case": name, "size": size, "way": way, "round": number,
            "nanoseconds": nanoseconds, "counts": counts, "processor_ticks": ticks,
        });
        println!("{line}");
    }
}
