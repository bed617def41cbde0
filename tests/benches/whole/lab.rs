//! How a workload is measured: rounds in which each way runs once, with duration, requests and writes.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::processor::{self, Spent};
use super::stand::{Counted, Stand};
use super::{claim, cold, converge, crowd, declare, drain, life, sweep, teardown, watch};

/// The minimum for a median and a spread.
const ROUNDS: usize = 5;

type Start = fn(Lab) -> Pin<Box<dyn Future<Output = ()>>>;

const WORKS: [(&str, Start); 10] = [
    ("sweep", |lab| Box::pin(sweep::run(lab))),
    ("cold", |lab| Box::pin(cold::run(lab))),
    ("crowd", |lab| Box::pin(crowd::run(lab))),
    ("converge", |lab| Box::pin(converge::run(lab))),
    ("watch", |lab| Box::pin(watch::run(lab))),
    ("teardown", |lab| Box::pin(teardown::run(lab))),
    ("declare", |lab| Box::pin(declare::run(lab))),
    ("life", |lab| Box::pin(life::run(lab))),
    ("drain", |lab| Box::pin(drain::run(lab))),
    ("claim", |lab| Box::pin(claim::run(lab))),
];

pub(crate) fn run(arguments: &[String]) {
    let named = arguments.first().map(String::as_str);
    let work = WORKS.iter().find(|(name, _)| Some(*name) == named);
    let Some((_, start)) = work else {
        for (name, _) in WORKS {
            println!("{name}");
        }
        return;
    };
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(start(Lab { quick }));
}

#[derive(Clone, Copy)]
pub(super) struct Lab {
    quick: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Floor,
    Ours,
    Naive,
}

/// One case of a workload: its name and its size.
pub(super) struct Case<'a> {
    lab: Lab,
    stand: &'a Stand,
    name: String,
    pub(super) many: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    case: &'a Case<'a>,
    /// Round 0 is the warm-up: its measurements are not reported.
    number: usize,
}

impl Lab {
    /// `many`, or a few in a quick run.
    pub(super) fn many(self, many: usize) -> usize {
        if self.quick { many.min(40) } else { many }
    }

    pub(super) fn case(self, stand: &Stand, name: impl Into<String>, many: usize) -> Case<'_> {
        Case { lab: self, stand, name: name.into(), many }
    }
}

impl Case<'_> {
    pub(super) fn rounds(&self) -> impl Iterator<Item = Round<'_>> {
        let last = if self.lab.quick { 2 } else { ROUNDS };
        (0..=last).map(|number| Round { case: self, number })
    }
}

impl Round<'_> {
    /// Runs the workload in one way and reports duration, API server requests and writes. A slow workload
    /// skips the warm-up.
    pub(super) async fn measure(self, way: Way, work: impl Future<Output = ()>) {
        self.measure_counted(way, work, |counted| counted).await;
    }

    /// The same for a caller that counts by itself.
    pub(super) async fn measure_counted(
        self,
        way: Way,
        work: impl Future<Output = ()>,
        count: impl FnOnce(Counted) -> Counted,
    ) {
        let Self { case: Case { stand, .. }, number } = self;
        if number == 0 && way == Way::Naive {
            return;
        }
        let before = stand.mark().await;
        let spent = processor::spent();
        let started = Instant::now();
        work.await;
        let took = started.elapsed();
        let spent = processor::between(&spent, &processor::spent());
        let since = count(stand.since(&before, way).await);
        self.tell(way, took, &since, &spent);
    }

    pub(super) fn tell(self, way: Way, took: Duration, counted: &Counted, spent: &Spent) {
        let Self { case: Case { name, many, .. }, number } = self;
        if number == 0 {
            return;
        }
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap();
        let line = json!({
            "case": name, "many": many, "way": way, "round": number,
            "nanoseconds": nanoseconds, "counted": counted, "spent": spent,
        });
        println!("{line}");
    }
}
