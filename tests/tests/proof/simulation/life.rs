//! One life: a story, told on one thread, with a clock that moves only when everybody waits.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use broker_app::RunnerConfig;
use broker_domain::{OnFailure, ProvisionedResourceId};
use broker_ports::Resume;
use broker_ports::memory::Behaviour;
use broker_ports::testing::faults::{Answered, Fault, Late};
use broker_tests::world::{NODE, STANDALONE, World, declaration, operator, runner_config};
use tokio::runtime::Builder;
use tokio::task::{AbortHandle, JoinSet};

use super::promises;
use super::story::{Kind, REPLICAS, Step, Story};
use crate::panics;

/// What became of a story.
#[derive(Default)]
pub(crate) struct Life {
    pub(crate) trace: String,
    /// What went wrong by plan, and how often.
    pub(super) faults: BTreeMap<&'static str, u64>,
    pub(crate) complaint: Option<String>,
    /// Every panic.
    pub(crate) panics: Vec<String>,
}

impl Life {
    /// What a complaint begins with: the promise that was broken.
    pub(super) fn reason(&self) -> Option<&str> {
        self.complaint.as_deref()?.split(':').next()
    }
}

/// Tells a story to its end, or up to where the telling itself breaks down.
pub(super) fn live(story: &Story) -> Life {
    live_in(story, World::with_faults(story.faults()))
}

pub(super) fn live_in(story: &Story, world: World) -> Life {
    let told = catch_unwind(AssertUnwindSafe(|| tell(story, world, async |_, _| ())));
    told.unwrap_or_else(|_| {
        let panics = panics::heard();
        Life { complaint: broken_down(&panics), panics, ..Life::default() }
    })
}

/// A panic in a task becomes an error, and what failed is tried again: nobody would hear of it.
fn broken_down(panics: &[String]) -> Option<String> {
    let first = panics.first()?;
    Some(format!("a panic: {} of them, the first: {first}", panics.len()))
}

/// The same in a world of one's own, with a look at it in the end.
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
        let complaint = broken_down(&panics).or(played);
        look(&stage.world, &stage.declared).await;
        panics.extend(panics::heard());
        let mut faults = BTreeMap::new();
        for fired in stage.world.faults.log().entries() {
            *faults.entry(kind(fired.fault)).or_default() += 1;
        }
        Life { trace: stage.trace, faults, complaint, panics }
    })
}

/// Every kind of fault.
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
        Fault::Delay { late: Late::Lands, .. } => KINDS[3],
        Fault::Duplicate { answered: Answered::First } => KINDS[4],
        Fault::Duplicate { answered: Answered::Second } => KINDS[5],
        Fault::StaleRead => KINDS[6],
    }
}

/// A declared resource, and what its caller wants.
pub(crate) struct Declared {
    pub(crate) id: ProvisionedResourceId,
    pub(crate) kind: Kind,
    pub(crate) deleted: bool,
}

struct Stage {
    world: World,
    declared: Vec<Declared>,
    replicas: JoinSet<()>,
    handles: Vec<AbortHandle>,
    trace: String,
    /// How much of the faults' log is in the trace.
    told: usize,
    elapsed: Duration,
}

/// How long everybody is left alone between two looks at whether everything is at rest.
const A_ROUND: Duration = Duration::from_secs(10);
/// How far time moves at once.
const A_BIT: Duration = Duration::from_secs(2);

impl Stage {
    fn new(world: World) -> Self {
        let mut stage = Self {
            world,
            declared: Vec::new(),
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

    /// A replica, as a process under a supervisor: one that refuses to start is started again.
    fn start(&mut self, number: usize) -> AbortHandle {
        let runner = self.world.runner_maker(format!("replica-{number}"), config());
        self.replicas.spawn(async move {
            while runner().run(std::future::pending()).await.is_err() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }

    async fn play(&mut self, story: &Story) -> Result<(), String> {
        for step in &story.steps {
            self.tell(&step.to_string());
            self.take(*step).await;
            self.look().await;
        }
        self.world.faults.heal();
        self.world.cluster.catch_up_cache();
        let landed = self.world.faults.land_all().await;
        self.tell(&format!("nothing goes wrong any more; {landed} late requests arrived"));
        self.come_to_rest(story.patience).await
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Declare(kind) => self.declare(kind).await,
            Step::Delete(which) => {
                let Some(declared) = self.declared.get_mut(which) else { return };
                declared.deleted = true;
                self.world.service.deprovision(&operator(), declared.id).await.unwrap();
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
    }

    async fn declare(&mut self, kind: Kind) {
        let declaration = match kind {
            Kind::Node | Kind::Doomed => declaration(NODE),
            Kind::Standalone => declaration(STANDALONE),
            Kind::RolledBack => declaration(NODE).on_failure(OnFailure::Rollback),
        };
        let id = self.world.declare(&declaration).await.unwrap().id();
        if matches!(kind, Kind::Doomed | Kind::RolledBack) {
            self.world.cluster.behave_for(id, Behaviour::failing_after(1, "out of quota"));
        }
        self.declared.push(Declared { id, kind, deleted: false });
    }

    /// The composite resource, if it was armed: nobody knows of a shell.
    async fn xr(&self, which: usize) -> Option<broker_domain::ObjectReference> {
        let row = self.world.get(self.declared.get(which)?.id).await;
        let xr = self.world.xr(&row);
        let armed = self.world.cluster.object(&xr)?;
        armed.pointer("/metadata/annotations/plexsphere.io~1armed").map(|_| xr)
    }

    async fn let_pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let bit = left.min(A_BIT);
            tokio::time::sleep(bit).await;
            self.world.clock.advance(bit);
            self.world.cluster.tick();
            self.world.boot_agents();
            self.elapsed += bit;
            left -= bit;
        }
    }

    /// Puts into the trace what went wrong since, and where everything stands.
    async fn look(&mut self) {
        let log = self.world.faults.log();
        for fired in &log.entries()[self.told..] {
            self.tell(&format!("  {fired}"));
        }
        self.told = log.entries().len();
        let mut line = String::from("  ");
        for (number, declared) in self.declared.iter().enumerate() {
            let phase = self.world.get(declared.id).await.phase();
            let _ = write!(line, " #{number} {phase}");
        }
        self.tell(&line);
    }

    fn tell(&mut self, line: &str) {
        let _ = writeln!(self.trace, "{:>9.1}s {line}", self.elapsed.as_secs_f64());
    }

    async fn come_to_rest(&mut self, patience: u32) -> Result<(), String> {
        let mut wrong = Ok(());
        for round in 0..=patience {
            // Whoever was told too often that a sink is down is helped up by a person.
            for declared in &self.declared {
                let service = &self.world.service;
                let resumed = service.resume_events(&operator(), declared.id, Resume::Retry).await;
                resumed.map_err(|error| error.to_string())?;
            }
            wrong = promises::at_rest(&self.world, &self.declared).await;
            if wrong.is_ok() || round == patience {
                break;
            }
            self.let_pass(A_ROUND).await;
        }
        self.look().await;
        wrong?;
        // A sweep that began before may still ask for the deletion of an orphan that is gone: what it saw is from then.
        self.let_pass(config().sweep_interval).await;
        // And there it stays.
        let before = promises::picture(&self.world, &self.declared).await;
        self.let_pass(Duration::from_secs(40)).await;
        let after = promises::picture(&self.world, &self.declared).await;
        if before != after {
            return Err(format!("S12: a world at rest was changed: {before} became {after}"));
        }
        promises::kept(&self.world, &self.declared).await
    }
}

fn config() -> RunnerConfig {
    RunnerConfig {
        sweep_interval: Duration::from_secs(20),
        poll_interval: Duration::from_secs(4),
        ..runner_config()
    }
}
