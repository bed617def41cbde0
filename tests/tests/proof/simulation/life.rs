//! One life: a story on one thread, with a clock that advances only when every task waits.

mod callers;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_ports::{Cluster, Schedule};
use broker_testkit::builders::worker;
use broker_testkit::faults::{Answered, Fault, Late};
use broker_tests::world::{World, config_with, operator};
use tokio::runtime::Builder;
use tokio::task::{AbortHandle, JoinSet};

use super::promises;
use super::story::{REPLICAS, Step, Story};
use crate::panics;
use callers::Callers;
pub(crate) use callers::Declared;

#[derive(Default)]
pub(crate) struct Life {
    pub(crate) trace: String,
    pub(super) faults: BTreeMap<&'static str, u64>,
    /// How often a declaration was stored and its caller got no answer.
    pub(super) unheard: u64,
    pub(crate) complaint: Option<String>,
    pub(crate) panics: Vec<String>,
}

impl Life {
    /// The prefix of a complaint: the violated promise.
    pub(super) fn reason(&self) -> Option<&str> {
        self.complaint.as_deref()?.split(':').next()
    }
}

/// Runs a story to its end, or until the simulation itself panics.
pub(super) fn live(story: &Story) -> Life {
    live_in(story, World::with_faults(story.faults()))
}

pub(super) fn live_in(story: &Story, world: World) -> Life {
    let told = catch_unwind(AssertUnwindSafe(|| tell(story, world, async |_, _| ())));
    told.unwrap_or_else(|_| {
        let panics = panics::heard();
        Life { complaint: panic_report(&panics), panics, ..Life::default() }
    })
}

/// A panic in a task becomes an error and is retried, so it must be reported here.
fn panic_report(panics: &[String]) -> Option<String> {
    let first = panics.first()?;
    Some(format!("a panic: {} of them, the first: {first}", panics.len()))
}

/// The same in a given world, with a final inspection.
pub(crate) fn tell(
    story: &Story,
    world: World,
    look: impl AsyncFnOnce(&World, &[Declared]),
) -> Life {
    let _listening = panics::listen();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut stage = Stage::new(world);
        let played = stage.play(story).await.err();
        let mut panics = panics::heard();
        let complaint = panic_report(&panics).or(played);
        look(&stage.world, &stage.callers.declared()).await;
        panics.extend(panics::heard());
        let (mut faults, mut unheard) = (BTreeMap::new(), 0);
        for fired in stage.world.faults.log().entries() {
            *faults.entry(kind(fired.fault)).or_default() += 1;
            unheard += u64::from((fired.method, fired.fault) == ("create", Fault::AfterEffect));
        }
        Life { trace: stage.trace, faults, unheard, complaint, panics }
    })
}

pub(super) const KINDS: [&str; 7] = [
    "before effect",
    "after effect",
    "never arrives",
    "lands late",
    "twice, first answer",
    "twice, second answer",
    "stale read",
];

const fn kind(fault: Fault) -> &'static str {
    match fault {
        Fault::BeforeEffect => KINDS[0],
        Fault::AfterEffect => KINDS[1],
        Fault::Delay { late: Late::Never, .. } => KINDS[2],
        Fault::Delay { late: Late::Completes, .. } => KINDS[3],
        Fault::Duplicate { answered: Answered::First } => KINDS[4],
        Fault::Duplicate { answered: Answered::Second } => KINDS[5],
        Fault::StaleRead => KINDS[6],
    }
}

struct Stage {
    world: World,
    callers: Callers,
    replicas: JoinSet<()>,
    handles: Vec<AbortHandle>,
    trace: String,
    /// The part of the fault log that is already in the trace.
    told: usize,
    elapsed: Duration,
}

/// The interval at which the simulation checks whether everything has settled.
const A_ROUND: Duration = Duration::from_secs(10);
/// The step of simulated time.
const A_BIT: Duration = Duration::from_secs(2);

impl Stage {
    fn new(world: World) -> Self {
        let mut stage = Self {
            callers: Callers::of(&world),
            world,
            replicas: JoinSet::new(),
            handles: Vec::new(),
            trace: String::new(),
            told: 0,
            elapsed: Duration::ZERO,
        };
        for number in 0..REPLICAS {
            let handle = stage.start(number);
            stage.handles.push(handle);
        }
        stage
    }

    /// A replica under a supervisor: it is restarted if it refuses to start.
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

    async fn play(&mut self, story: &Story) -> Result<(), String> {
        for step in &story.steps {
            self.tell(&step.to_string());
            let taken = self.take(*step).await;
            self.record_state().await;
            taken?;
        }
        self.world.faults.heal();
        self.world.cluster.catch_up_cache();
        let landed = self.world.faults.complete_pending().await;
        self.tell(&format!("the faults end; {landed} late requests arrived"));
        self.retry_unanswered().await?;
        self.come_to_rest(story.timeout).await
    }

    async fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Declare(kind) => {
                let number = self.callers.want(kind);
                self.insist(number).await?;
            }
            Step::Delete(which) => {
                if !self.callers.want_no_more(which) {
                    return Ok(());
                }
                self.insist(which).await?;
            }
            Step::Meddle(which) => {
                if let Some(xr) = self.xr(which).await {
                    self.world.cluster.delete_in_background(&xr);
                }
            }
            Step::Pause(which) => {
                if let Some(xr) = self.xr(which).await {
                    self.world.cluster.pause(&xr);
                    self.let_pass(Duration::from_secs(3)).await;
                    self.world.cluster.unpause(&xr);
                }
            }
            Step::Kill(which) => {
                self.handles[which].abort();
                self.handles[which] = self.start(which);
            }
            Step::Land => drop(self.world.faults.land_next().await),
            Step::FreezeWatch => self.world.cluster.freeze_cache(),
            Step::CatchUp => self.world.cluster.catch_up_cache(),
            Step::EndWatch => self.world.cluster.end_hints(),
            Step::Wait { millis } => self.let_pass(Duration::from_millis(millis)).await,
        }
        self.let_pass(A_BIT).await;
        Ok(())
    }

    /// The composite resource, if it was armed: only the cluster knows a shell.
    async fn xr(&self, which: usize) -> Option<broker_domain::ObjectReference> {
        let row = self.world.get(self.callers.id(which)?).await;
        let xr = self.world.xr(&row);
        let armed = self.world.cluster.object(&xr)?;
        armed.pointer("/metadata/annotations/plexsphere.io~1armed").map(|_| xr)
    }

    async fn let_pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let bit = left.min(A_BIT);
            tokio::time::sleep(bit).await;
            self.outside(bit).await;
            left -= bit;
        }
    }

    async fn outside(&mut self, time: Duration) {
        self.world.clock.advance(time);
        self.callers.doom(&self.world).await;
        self.world.cluster.tick();
        self.world.boot_agents();
        self.elapsed += time;
    }

    async fn record_state(&mut self) {
        let log = self.world.faults.log();
        for fired in &log.entries()[self.told..] {
            self.tell(&format!("  {fired}"));
        }
        self.told = log.entries().len();
        let mut line = String::from("  ");
        for (number, id) in self.callers.ids().enumerate() {
            match id {
                Some(id) => {
                    let phase = self.world.get(id).await.phase();
                    let _ = write!(line, " #{number} {phase}");
                }
                None => drop(write!(line, " #{number} unknown to its caller")),
            }
        }
        self.tell(&line);
    }

    fn tell(&mut self, line: &str) {
        let _ = writeln!(self.trace, "{:>9.1}s {line}", self.elapsed.as_secs_f64());
    }

    async fn come_to_rest(&mut self, timeout: u32) -> Result<(), String> {
        let declared = self.callers.declared();
        let cluster = self.world.cluster.identity().await.map_err(|error| error.to_string())?;
        let (mut wrong, mut releases) = (Ok(()), 0);
        for round in 0..=timeout {
            // An operator releases the brake. Events need no help: no sink fault rejects an event.
            let service = &self.world.service;
            let brakes = self.world.store.brakes(&cluster).await;
            for brake in brakes.map_err(|error| error.to_string())? {
                releases += 1;
                if releases > MOST_RELEASES {
                    return Err(
                        "S17: a brake is set again for losses that were accepted".to_owned()
                    );
                }
                let answer = service.release_brake(&operator(), &cluster, brake.project).await;
                answer.map_err(|error| error.to_string())?;
            }
            wrong = promises::at_rest(&self.world, &declared).await;
            if wrong.is_ok() || round == timeout {
                break;
            }
            self.let_pass(A_ROUND).await;
        }
        self.record_state().await;
        wrong?;
        // A sweep that began earlier may still request the deletion of an orphan that is gone: its
        // snapshot is old.
        self.let_pass(config().sweep_interval).await;
        // A settled world stays settled.
        let before = promises::picture(&self.world, &declared).await;
        self.let_pass(Duration::from_secs(40)).await;
        let after = promises::picture(&self.world, &declared).await;
        if before != after {
            return Err(format!("S12: a settled world changed: {before} became {after}"));
        }
        self.callers.no_duplicates(&self.world).await?;
        promises::kept(&self.world, &declared).await
    }
}

/// One for losses during the faults, one for losses not yet counted.
const MOST_RELEASES: usize = 2;

fn config() -> BrokerConfig {
    config_with(|config| {
        config.sweep_interval = Duration::from_secs(20);
        config.poll_interval = Duration::from_secs(4);
    })
}
