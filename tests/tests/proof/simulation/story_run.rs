//! Runs a story on one thread, with a clock that advances only when every task waits.

mod callers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_ports::{Cluster, Schedule};
use broker_testkit::builders::worker;
use broker_testkit::faults::{DuplicateResponse, Fault, LateArrival};
use broker_tests::world::{World, config_with, operator};
use tokio::runtime::Builder;
use tokio::task::{AbortHandle, JoinSet};

use super::promises;
use super::story::{REPLICAS, Step, Story};
use crate::panics;
use callers::Callers;
pub(crate) use callers::Declared;

#[derive(Default)]
pub(crate) struct StoryResult {
    pub(crate) trace: String,
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// How often a declaration was stored and its caller got no response.
    pub(super) lost_responses: u64,
    pub(crate) failure: Option<String>,
    pub(crate) panics: Vec<String>,
}

impl StoryResult {
    /// The prefix of the failure: the violated promise.
    pub(super) fn reason(&self) -> Option<&str> {
        self.failure.as_deref()?.split(':').next()
    }
}

/// Runs a story to its end, or until the simulation itself panics.
pub(super) fn run(story: &Story) -> StoryResult {
    run_in(story, World::with_faults(story.faults()))
}

pub(super) fn run_in(story: &Story, world: World) -> StoryResult {
    let result = catch_unwind(AssertUnwindSafe(|| run_and_inspect(story, world, async |_, _| ())));
    result.unwrap_or_else(|_| {
        let panics = panics::take_captured();
        StoryResult { failure: panic_report(&panics), panics, ..StoryResult::default() }
    })
}

/// Describes the first panic. The runner turns panics of its tasks into errors and retries.
fn panic_report(panics: &[String]) -> Option<String> {
    let first = panics.first()?;
    Some(format!("a panic: {} of them, the first: {first}", panics.len()))
}

/// Runs a story in a world, and inspects the world at the end.
pub(crate) fn run_and_inspect(
    story: &Story,
    world: World,
    inspect: impl AsyncFnOnce(&World, &[Declared]),
) -> StoryResult {
    let _capture = panics::capture();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut run = StoryRun::new(world);
        let failed = run.perform_steps(story).await.err();
        let mut panics = panics::take_captured();
        let failure = panic_report(&panics).or(failed);
        inspect(&run.world, &run.callers.declared()).await;
        panics.extend(panics::take_captured());
        let (mut faults, mut lost_responses) = (BTreeMap::new(), 0);
        for fired in run.world.faults.log().entries() {
            *faults.entry(fault_name(fired.fault)).or_default() += 1;
            lost_responses +=
                u64::from((fired.method, fired.fault) == ("create", Fault::AfterEffect));
        }
        StoryResult { trace: run.trace, faults, lost_responses, failure, panics }
    })
}

pub(super) const FAULT_NAMES: [&str; 7] = [
    "before effect",
    "after effect",
    "never arrives",
    "arrives late",
    "twice, first response",
    "twice, second response",
    "stale read",
];

const fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::BeforeEffect => FAULT_NAMES[0],
        Fault::AfterEffect => FAULT_NAMES[1],
        Fault::Delay { late: LateArrival::Never, .. } => FAULT_NAMES[2],
        Fault::Delay { late: LateArrival::Completes, .. } => FAULT_NAMES[3],
        Fault::Duplicate { response: DuplicateResponse::First } => FAULT_NAMES[4],
        Fault::Duplicate { response: DuplicateResponse::Second } => FAULT_NAMES[5],
        Fault::StaleRead => FAULT_NAMES[6],
    }
}

struct StoryRun {
    world: World,
    callers: Callers,
    replicas: JoinSet<()>,
    handles: Vec<AbortHandle>,
    trace: String,
    /// The number of fault log entries that are already in the trace.
    traced: usize,
    elapsed: Duration,
}

/// The interval at which the simulation checks whether everything has settled.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The step of simulated time.
const TIME_STEP: Duration = Duration::from_secs(2);

impl StoryRun {
    fn new(world: World) -> Self {
        let mut run = Self {
            callers: Callers::new(&world),
            world,
            replicas: JoinSet::new(),
            handles: Vec::new(),
            trace: String::new(),
            traced: 0,
            elapsed: Duration::ZERO,
        };
        for number in 0..REPLICAS {
            let handle = run.start(number);
            run.handles.push(handle);
        }
        run
    }

    /// Starts a replica, and restarts it if it fails.
    fn start(&mut self, number: usize) -> AbortHandle {
        let mut config = config();
        config.worker = worker(&format!("replica-{number}"));
        let runner = self.world.runner_maker(self.world.relay(), config);
        self.replicas.spawn(async move {
            while runner().run(std::future::pending()).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }

    async fn perform_steps(&mut self, story: &Story) -> Result<(), String> {
        for step in &story.steps {
            self.trace_line(&step.to_string());
            let performed = self.perform(*step).await;
            self.record_state().await;
            performed?;
        }
        self.world.faults.heal();
        self.world.cluster.catch_up_cache();
        let arrived = self.world.faults.complete_pending().await;
        self.trace_line(&format!("the faults end; {arrived} late requests arrived"));
        self.retry_without_response().await?;
        self.settle(story.timeout).await
    }

    async fn perform(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Declare(kind) => {
                let number = self.callers.add_order(kind);
                self.request_with_retries(number).await?;
            }
            Step::Delete(number) => {
                if !self.callers.order_deletion(number) {
                    return Ok(());
                }
                self.request_with_retries(number).await?;
            }
            Step::DeleteXr(number) => {
                if let Some(xr) = self.xr(number).await {
                    self.world.cluster.delete_in_background(&xr);
                }
            }
            Step::Pause(number) => {
                if let Some(xr) = self.xr(number).await {
                    self.world.cluster.pause(&xr);
                    self.let_time_pass(Duration::from_secs(3)).await;
                    self.world.cluster.unpause(&xr);
                }
            }
            Step::Kill(number) => {
                self.handles[number].abort();
                self.handles[number] = self.start(number);
            }
            Step::LateArrival => drop(self.world.faults.complete_next().await),
            Step::FreezeWatch => self.world.cluster.freeze_cache(),
            Step::CatchUp => self.world.cluster.catch_up_cache(),
            Step::EndWatch => self.world.cluster.end_hints(),
            Step::Wait { millis } => self.let_time_pass(Duration::from_millis(millis)).await,
        }
        self.let_time_pass(TIME_STEP).await;
        Ok(())
    }

    /// The composite resource, if it is armed. No other party acts on a shell.
    async fn xr(&self, number: usize) -> Option<broker_domain::ObjectReference> {
        let row = self.world.get(self.callers.id(number)?).await;
        let xr = self.world.xr(&row);
        let armed = self.world.cluster.object(&xr)?;
        armed.pointer("/metadata/annotations/plexsphere.io~1armed").map(|_| xr)
    }

    async fn let_time_pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(TIME_STEP);
            tokio::time::sleep(step).await;
            self.advance_environment(step).await;
            left -= step;
        }
    }

    async fn advance_environment(&mut self, time: Duration) {
        self.world.clock.advance(time);
        self.callers.fail_compositions(&self.world).await;
        self.world.cluster.tick();
        self.world.boot_agents();
        self.elapsed += time;
    }

    async fn record_state(&mut self) {
        let log = self.world.faults.log();
        for fired in &log.entries()[self.traced..] {
            self.trace_line(&format!("  {fired}"));
        }
        self.traced = log.entries().len();
        let mut line = String::from("  ");
        for (number, id) in self.callers.ids().enumerate() {
            match id {
                Some(id) => {
                    let phase = self.world.get(id).await.phase();
                    let _ = write!(line, " #{number} {phase}");
                }
                None => drop(write!(line, " #{number} without an id at its caller")),
            }
        }
        self.trace_line(&line);
    }

    fn trace_line(&mut self, line: &str) {
        let _ = writeln!(self.trace, "{:>9.1}s {line}", self.elapsed.as_secs_f64());
    }

    async fn settle(&mut self, timeout: u32) -> Result<(), String> {
        let declared = self.callers.declared();
        let cluster = self.world.cluster.identity().await.map_err(|error| error.to_string())?;
        let (mut settled, mut releases) = (Ok(()), 0);
        for round in 0..=timeout {
            // An operator releases the brake. No event is dead-lettered, because no fault of the sink
            // is a rejection.
            let service = &self.world.service;
            let brakes = self.world.store.brakes(&cluster).await;
            for brake in brakes.map_err(|error| error.to_string())? {
                releases += 1;
                if releases > MAX_RELEASES {
                    return Err(
                        "S17: a brake is set again for losses that were accepted".to_owned()
                    );
                }
                let outcome = service.release_brake(&operator(), &cluster, brake.project).await;
                outcome.map_err(|error| error.to_string())?;
            }
            settled = promises::check_settled(&self.world, &declared).await;
            if settled.is_ok() || round == timeout {
                break;
            }
            self.let_time_pass(CHECK_INTERVAL).await;
        }
        self.record_state().await;
        settled?;
        // A sweep with an older snapshot may still delete an orphan that no longer exists.
        self.let_time_pass(config().sweep_interval).await;
        // A settled world stays settled.
        let before = promises::snapshot(&self.world, &declared).await;
        self.let_time_pass(Duration::from_secs(40)).await;
        let after = promises::snapshot(&self.world, &declared).await;
        if before != after {
            return Err(format!("S12: a settled world changed: {before} became {after}"));
        }
        self.callers.no_duplicates(&self.world).await?;
        promises::check_history(&self.world, &declared).await
    }
}

/// The maximum number of releases: one for losses during the faults, one for losses that no sweep had counted.
const MAX_RELEASES: usize = 2;

fn config() -> BrokerConfig {
    config_with(|config| {
        config.sweep_interval = Duration::from_secs(20);
        config.poll_interval = Duration::from_secs(4);
    })
}
