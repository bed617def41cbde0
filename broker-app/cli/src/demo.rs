//! `provisioning-broker demo`: the real broker over a simulated world; the demo checks its own result.
//!
//! One loop runs every round in the same order: users act, the broker sweeps and passes, time advances. Nothing runs
//! concurrently, so a seed repeats a run exactly.

mod agents;
mod catalog;
mod journal;
mod show;
mod story;
mod run_result;
pub(crate) mod world;

use std::io::{self, stdout};
use std::time::Duration;

use broker_app::Error;
use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{ClaimEvents, Outbox, PageSize, PortError, Repository, WorkerId};

use agents::{AgentError, Agents};
use journal::{DemoChange, Entry, note};
use run_result::{Outcome, RunResult};
use show::{DemoOutput, Header, Json, Live, Plain};
use story::{REST_AT_READY, Role, Script};
use world::{LATE_PROJECT, World};

use crate::cli::DemoArguments;
use crate::terminal::{Size, Terminal};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// This many times real time.
    Times(f64),
    Max,
}

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    #[error("cannot write the output")]
    Output(#[from] io::Error),
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot set up the simulated world")]
    World(#[from] broker_domain::Error),
    /// The service or a pass failed.
    #[error("cannot {doing} {resource}")]
    Broker {
        /// The operation, as a verb.
        doing: &'static str,
        resource: String,
        #[source]
        source: Error,
    },
    #[error("cannot sweep")]
    Sweep(#[source] Error),
    /// The sweep could not read a resource.
    #[error("the sweep cannot read {resource}: {message}")]
    ResourceError { resource: String, message: String },
    #[error("cannot follow what happens")]
    Follow(#[from] PortError),
    /// An agent could not enrol or join.
    #[error("{resource} does not become a Node")]
    Agent {
        resource: String,
        #[source]
        source: AgentError,
    },
    /// An event payload is not JSON.
    #[error("event {sequence} of {resource} is not JSON")]
    Payload {
        resource: String,
        sequence: u64,
        #[source]
        source: serde_json::Error,
    },
    /// The run ended without an error, but not as the script expects.
    #[error("the demo did not end as expected: {0}")]
    Story(String),
}

/// Simulated time per round; at normal speed also real time.
const ROUND: Duration = Duration::from_millis(500);

/// The round in which the demo explains the resource that waits for its namespace.
const ASKED_IN: u32 = 8;

/// The limit for a run: 19.5 seconds.
const MOST_ROUNDS: u32 = 39;

pub(crate) fn run(arguments: &DemoArguments, terminal: Option<Terminal>) -> Result<(), DemoError> {
    let DemoArguments { seed, resources, speed, plain, json } = *arguments;
    let out = stdout().lock();
    let mut show: Box<dyn DemoOutput> = match terminal {
        _ if json => Box::new(Json(out)),
        Some(terminal) if !plain => Box::new(Live::new(out, terminal, Size::now)),
        Some(_) | None => Box::new(Plain(out)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(DemoError::Runtime)?;
    runtime.block_on(async {
        let mut demo = Demo::new(seed, resources)?;
        show.begin(Header { seed, resources })?;
        while demo.round(&mut *show).await? == Story::GoesOn {
            pause(speed).await;
        }
        let ending = demo.ending().await?;
        show.end(&ending)?;
        ending.flaw().map_or(Ok(()), |flaw| Err(DemoError::Story(flaw)))
    })
}

async fn pause(speed: Pace) {
    match speed {
        Pace::Times(times) => tokio::time::sleep(ROUND.div_f64(times)).await,
        Pace::Max => {}
    }
}

/// The state of a run.
struct Demo {
    world: World,
    script: Script,
    agents: Agents,
    entries: Vec<Entry>,
    /// How many audit lines of each entry were read.
    read: Vec<usize>,
    round: u32,
    /// The roles that were explained.
    explained: Vec<Role>,
}

/// Whether another round follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Story {
    GoesOn,
    IsOver,
}

impl Demo {
    fn new(seed: u32, resources: u16) -> Result<Self, DemoError> {
        Ok(Self {
            world: World::new(seed)?,
            script: Script::drawn(seed, resources),
            agents: Agents::default(),
            entries: Vec::new(),
            read: Vec::new(),
            round: 0,
            explained: Vec::new(),
        })
    }

    /// Runs one round: users act, the broker works, time advances.
    async fn round(&mut self, show: &mut dyn DemoOutput) -> Result<Story, DemoError> {
        self.declare(show).await?;
        if self.round == self.script.namespace_ready_in {
            self.world.ready_late_namespace();
            show.namespace_ready(self.world.elapsed(), LATE_PROJECT)?;
        }
        self.tear_down(show).await?;
        self.reconcile(show).await?;
        self.explain(show).await?;
        show.round(self.world.elapsed(), &self.entries)?;

        let all_declared = self.entries.len() == self.script.parts.len();
        if (all_declared && self.entries.iter().all(Entry::is_over)) || self.round == MOST_ROUNDS {
            return Ok(Story::IsOver);
        }
        self.world.pass_time(ROUND);
        self.boot_agents()?;
        self.round += 1;
        Ok(Story::GoesOn)
    }

    async fn declare(&mut self, show: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let due: Vec<_> = self
            .script
            .parts
            .iter()
            .filter(|part| part.declared_in == self.round)
            .cloned()
            .collect();
        for part in due {
            let declared = self.world.declare(&part).await;
            let declared = declared.map_err(|source| broker("declare", &part.name, source))?;
            self.entries.push(Entry::new(&part.name, part.role, declared.id()));
            self.read.push(0);
            self.follow(self.entries.len() - 1, show).await?;
        }
        Ok(())
    }

    /// Requests the deletion of each teardown resource that was Ready for long enough.
    async fn tear_down(&mut self, show: &mut dyn DemoOutput) -> Result<(), DemoError> {
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            let (since, phase) = entry.now();
            let rested = self.world.elapsed() >= since + ROUND * REST_AT_READY;
            if phase == Phase::Ready && entry.role.last_phase() == Phase::Deleted && rested {
                let asked = self.world.deprovision(entry.id).await;
                asked.map_err(|source| broker("deprovision", &entry.name, source))?;
                self.follow(index, show).await?;
            }
        }
        Ok(())
    }

    /// Explains one resource that waits, one that failed and one that is being deleted.
    async fn explain(&mut self, show: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let is_due = |entry: &Entry| match (entry.role, entry.now().1) {
            (Role::Namespace, Phase::Pending) => self.round == ASKED_IN,
            (Role::Rollback, Phase::Failed) | (Role::Teardown, Phase::Deprovisioning) => true,
            _ => false,
        };
        let explained = &self.explained;
        let asked: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| !explained.contains(&entry.role) && is_due(entry))
            .cloned()
            .collect();
        for entry in asked {
            if self.explained.contains(&entry.role) {
                continue;
            }
            let explained = self.world.explain(entry.id).await;
            let explained = explained.map_err(|source| broker("explain", &entry.name, source))?;
            show.explained(self.world.elapsed(), &entry, &explained)?;
            self.explained.push(entry.role);
        }
        Ok(())
    }

    /// Runs one sweep, and a pass over every resource that it returns.
    async fn reconcile(&mut self, show: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let (work, report) = self.world.sweeper.sweep().await.map_err(DemoError::Sweep)?;
        if let Some((id, error)) = report.errors.first_key_value() {
            let (resource, message) = (self.name_of(*id), error.message.clone());
            return Err(DemoError::ResourceError { resource, message });
        }
        for work in work {
            let passed = self.world.reconciler.reconcile(work.resource).await;
            passed.map_err(|source| broker("reconcile", &self.name_of(work.resource), source))?;
            if let Some(index) = self.index_of(work.resource) {
                self.follow(index, show).await?;
            }
        }
        Ok(())
    }

    /// Reads what the broker committed about a resource: its audit and its events.
    async fn follow(&mut self, index: usize, show: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let (id, role) = (self.entries[index].id, self.entries[index].role);
        let resource = self.world.get(id).await;
        let resource =
            resource.map_err(|source| broker("read", &self.entries[index].name, source))?;
        let history = self.world.store.history(id).await?;
        let seen = std::mem::replace(&mut self.read[index], history.len());
        for line in history.into_iter().skip(seen) {
            let (from, to) = (line.entry.previous_phase, line.entry.new_phase);
            if let Some(to) = to.filter(|_| from != to) {
                let note = note(role, from, to, &resource);
                self.record(index, &DemoChange::Phase { from, to, note }, show)?;
            }
        }
        self.relay(show).await
    }

    /// Empties the outbox. Each claim returns at most one event per resource, which keeps the order.
    async fn relay(&mut self, show: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let request = ClaimEvents::new(WorkerId::new("demo-relay")?, PageSize::MAX, ROUND);
        loop {
            let claimed = self.world.store.claim_events(&request).await?;
            if claimed.is_empty() {
                return Ok(());
            }
            for event in claimed {
                let (event_type, sequence) = (event.event_type, event.sequence);
                let payload = serde_json::from_slice(&event.payload).map_err(|source| {
                    DemoError::Payload { resource: self.name_of(event.resource), sequence, source }
                })?;
                if let Some(index) = self.index_of(event.resource) {
                    self.record(index, &DemoChange::Event { event_type, sequence, payload }, show)?;
                }
                self.world.store.acknowledge_event(&event.claim).await?;
            }
        }
    }

    fn record(
        &mut self,
        index: usize,
        change: &DemoChange,
        show: &mut dyn DemoOutput,
    ) -> Result<(), DemoError> {
        let (at, entry) = (self.world.elapsed(), &mut self.entries[index]);
        entry.record(at, change);
        Ok(show.changed(at, entry, change)?)
    }

    fn boot_agents(&mut self) -> Result<(), DemoError> {
        let Self { world, script, entries, agents, .. } = self;
        // Parts are declared in order, so a part and its entry have the same index.
        let boots_for = |id| {
            let entry = entries.iter().position(|entry| entry.id == id);
            entry.map_or(1, |index| script.parts[index].boots_for)
        };
        let refused = agents.work(&world.cluster, &world.mesh, boots_for);
        refused.map_err(|(id, source)| DemoError::Agent { resource: self.name_of(id), source })
    }

    /// The outcome of every resource, and how much work a last sweep finds.
    async fn ending(&self) -> Result<RunResult, DemoError> {
        let mut outcomes = Vec::new();
        for entry in &self.entries {
            let resource = self.world.get(entry.id).await;
            let resource = resource.map_err(|source| broker("read", &entry.name, source))?;
            outcomes.push(Outcome {
                entry: entry.clone(),
                objects_left: self.world.standing(&resource),
                live_node: self.world.has_live_node(&resource),
            });
        }
        let (work, _) = self.world.sweeper.sweep().await.map_err(DemoError::Sweep)?;
        Ok(RunResult { after: self.world.elapsed(), outcomes, unsettled: work.len() })
    }

    fn index_of(&self, id: ProvisionedResourceId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.id == id)
    }

    fn name_of(&self, id: ProvisionedResourceId) -> String {
        self.index_of(id).map_or_else(|| id.to_string(), |index| self.entries[index].name.clone())
    }
}

fn broker(doing: &'static str, resource: &str, source: Error) -> DemoError {
    DemoError::Broker { doing, resource: resource.to_owned(), source }
}

#[cfg(test)]
mod tests;
