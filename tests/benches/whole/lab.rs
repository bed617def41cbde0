//! How a work is measured: rounds in which each way has its turn, and what each of them took and asked for.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;

use super::processor::{self, Spent};
use super::stand::{Counted, Stand};
use super::{claim, cold, converge, crowd, declare, drain, life, sweep, teardown, watch};

/// At least as many rounds as a median and a spread need.
const ROUNDS: usize = 5;

/// What a work does once it is wanted.
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

/// Does what the arguments say: names the works, or measures one.
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

/// Where a work is measured.
#[derive(Clone, Copy)]
pub(super) struct Lab {
    quick: bool,
}

/// In which way a work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Floor,
    Ours,
    Naive,
}

/// One case of a work: what it is called, and how much of it there is.
pub(super) struct Case<'a> {
    lab: Lab,
    stand: &'a Stand,
    name: String,
    pub(super) many: usize,
}

/// A turn of every way.
#[derive(Clone, Copy)]
pub(super) struct Round<'a> {
    case: &'a Case<'a>,
    /// The first one only warms up: its measurements are not told.
    number: usize,
}

impl Lab {
    /// So many, or, to be quick, a few.
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
    /// Lets one way do the work, and tells how long it took, what it asked the API server for, and what it wrote. What is
    /// slow by itself is not warmed up.
    pub(super) async fn measure(self, way: Way, work: impl Future<Output = ()>) {
        self.measure_counted(way, work, |counted| counted).await;
    }

    /// The same where somebody knows better what was counted.
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

    /// Tells a time that a work has taken.
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
