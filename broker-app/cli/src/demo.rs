//! `provisioning-broker demo`: the real broker over a simulated world; the demo checks its own result.
//!
//! Each round has the same steps: users act, the broker sweeps and runs passes, time advances. Nothing runs
//! concurrently, so a seed repeats a run exactly.

mod agents;
mod catalog;
mod journal;
mod output;
mod scenario;
mod run_result;
pub(crate) mod world;

use std::io::{self, stdout};
use std::time::Duration;

use broker_app::Error;
use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::{ClaimEvents, Outbox, PageSize, PortError, Repository, WorkerId};

use agents::{AgentError, Agents};
use journal::{DemoChange, JournalEntry, note};
use output::{DemoOutput, Header, JsonLines, LiveTable, PlainLines};
use run_result::{Outcome, RunResult};
use scenario::{DemoPlan, ROUNDS_AT_READY, Scenario};
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
    #[error("cannot {operation} {resource}")]
    Broker {
        /// The operation, as a verb.
        operation: &'static str,
        resource: String,
        #[source]
        source: Error,
    },
    #[error("cannot sweep")]
    Sweep(#[source] Error),
    /// The sweep could not read a resource.
    #[error("the sweep cannot read {resource}: {message}")]
    ResourceError { resource: String, message: String },
    #[error("cannot read the audit or the outbox")]
    Store(#[from] PortError),
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
    Mismatch(String),
}

/// Simulated time per round; at normal speed also real time.
const ROUND: Duration = Duration::from_millis(500);

/// The round that explains the resource without a namespace.
const EXPLAIN_ROUND: u32 = 8;

/// The limit for a run: 19.5 seconds.
const MAX_ROUNDS: u32 = 39;

pub(crate) fn run(arguments: &DemoArguments, terminal: Option<Terminal>) -> Result<(), DemoError> {
    let DemoArguments { seed, resources, speed, plain, json } = *arguments;
    let out = stdout().lock();
    let mut output: Box<dyn DemoOutput> = match terminal {
        _ if json => Box::new(JsonLines(out)),
        Some(terminal) if !plain => Box::new(LiveTable::new(out, terminal, Size::now)),
        Some(_) | None => Box::new(PlainLines(out)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(DemoError::Runtime)?;
    runtime.block_on(async {
        let mut demo = Demo::new(seed, resources)?;
        output.begin(Header { seed, resources })?;
        while demo.run_round(&mut *output).await? == Progress::Running {
            sleep_one_round(speed).await;
        }
        let result = demo.result().await?;
        output.end(&result)?;
        result.mismatch().map_or(Ok(()), |mismatch| Err(DemoError::Mismatch(mismatch)))
    })
}

async fn sleep_one_round(speed: Pace) {
    match speed {
        Pace::Times(times) => tokio::time::sleep(ROUND.div_f64(times)).await,
        Pace::Max => {}
    }
}

struct Demo {
    world: World,
    plan: DemoPlan,
    agents: Agents,
    entries: Vec<JournalEntry>,
    /// The number of audit lines read for each entry.
    lines_read: Vec<usize>,
    round: u32,
    /// The scenarios that were explained.
    explained: Vec<Scenario>,
}

/// Whether another round follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Running,
    Finished,
}

impl Demo {
    fn new(seed: u32, resources: u16) -> Result<Self, DemoError> {
        Ok(Self {
            world: World::new(seed)?,
            plan: DemoPlan::from_seed(seed, resources),
            agents: Agents::default(),
            entries: Vec::new(),
            lines_read: Vec::new(),
            round: 0,
            explained: Vec::new(),
        })
    }

    /// Runs one round: users act, the broker works, time advances.
    async fn run_round(&mut self, output: &mut dyn DemoOutput) -> Result<Progress, DemoError> {
        self.declare(output).await?;
        if self.round == self.plan.namespace_ready_in {
            self.world.create_delayed_namespace();
            output.namespace_ready(self.world.elapsed(), LATE_PROJECT)?;
        }
        self.tear_down(output).await?;
        self.reconcile(output).await?;
        self.explain(output).await?;
        output.round_finished(self.world.elapsed(), &self.entries)?;

        let all_declared = self.entries.len() == self.plan.resources.len();
        if (all_declared && self.entries.iter().all(JournalEntry::is_finished))
            || self.round == MAX_ROUNDS
        {
            return Ok(Progress::Finished);
        }
        self.world.advance(ROUND);
        self.boot_agents()?;
        self.round += 1;
        Ok(Progress::Running)
    }

    async fn declare(&mut self, output: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let due: Vec<_> = self
            .plan
            .resources
            .iter()
            .filter(|planned| planned.declared_in == self.round)
            .cloned()
            .collect();
        for planned in due {
            let declared = self.world.declare(&planned).await;
            let declared =
                declared.map_err(|source| broker_error("declare", &planned.name, source))?;
            self.entries.push(JournalEntry::new(&planned.name, planned.scenario, declared.id()));
            self.lines_read.push(0);
            self.record_new_history(self.entries.len() - 1, output).await?;
        }
        Ok(())
    }

    /// Requests the deletion of each teardown resource that was Ready for long enough.
    async fn tear_down(&mut self, output: &mut dyn DemoOutput) -> Result<(), DemoError> {
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            let (since, phase) = entry.current_phase();
            let is_due = self.world.elapsed() >= since + ROUND * ROUNDS_AT_READY;
            if phase == Phase::Ready && entry.scenario.last_phase() == Phase::Deleted && is_due {
                let deprovisioned = self.world.deprovision(entry.id).await;
                deprovisioned.map_err(|source| broker_error("deprovision", &entry.name, source))?;
                self.record_new_history(index, output).await?;
            }
        }
        Ok(())
    }

    /// Explains one resource that waits, one that failed and one that is being deleted.
    async fn explain(&mut self, output: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let is_due = |entry: &JournalEntry| match (entry.scenario, entry.current_phase().1) {
            (Scenario::Namespace, Phase::Pending) => self.round == EXPLAIN_ROUND,
            (Scenario::Rollback, Phase::Failed) | (Scenario::Teardown, Phase::Deprovisioning) => {
                true
            }
            _ => false,
        };
        let explained = &self.explained;
        let due: Vec<_> = self
            .entries
            .iter()
            .filter(|entry| !explained.contains(&entry.scenario) && is_due(entry))
            .cloned()
            .collect();
        for entry in due {
            if self.explained.contains(&entry.scenario) {
                continue;
            }
            let explained = self.world.explain(entry.id).await;
            let explained =
                explained.map_err(|source| broker_error("explain", &entry.name, source))?;
            output.explained(self.world.elapsed(), &entry, &explained)?;
            self.explained.push(entry.scenario);
        }
        Ok(())
    }

    /// Runs one sweep, and a pass over every resource that it returns.
    async fn reconcile(&mut self, output: &mut dyn DemoOutput) -> Result<(), DemoError> {
        let (work, report) = self.world.sweeper.sweep().await.map_err(DemoError::Sweep)?;
        if let Some((id, error)) = report.errors.first_key_value() {
            let (resource, message) = (self.name_of(*id), error.message.clone());
            return Err(DemoError::ResourceError { resource, message });
        }
        for work in work {
            let result = self.world.reconciler.reconcile(work.resource).await;
            result.map_err(|source| {
                broker_error("reconcile", &self.name_of(work.resource), source)
            })?;
            if let Some(index) = self.index_of(work.resource) {
                self.record_new_history(index, output).await?;
            }
        }
        Ok(())
    }

    /// Reads what the broker committed about a resource: its audit and its events.
    async fn record_new_history(
        &mut self,
        index: usize,
        output: &mut dyn DemoOutput,
    ) -> Result<(), DemoError> {
        let (id, scenario) = (self.entries[index].id, self.entries[index].scenario);
        let resource = self.world.get(id).await;
        let resource =
            resource.map_err(|source| broker_error("read", &self.entries[index].name, source))?;
        let history = self.world.store.history(id).await?;
        let already_read = std::mem::replace(&mut self.lines_read[index], history.len());
        for line in history.into_iter().skip(already_read) {
            let (from, to) = (line.entry.previous_phase, line.entry.new_phase);
            if let Some(to) = to.filter(|_| from != to) {
                let note = note(scenario, from, to, &resource);
                self.record(index, &DemoChange::Phase { from, to, note }, output)?;
            }
        }
        self.relay(output).await
    }

    /// Empties the outbox. Each claim returns at most one event per resource, which keeps the order.
    async fn relay(&mut self, output: &mut dyn DemoOutput) -> Result<(), DemoError> {
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
                    self.record(
                        index,
                        &DemoChange::Event { event_type, sequence, payload },
                        output,
                    )?;
                }
                self.world.store.acknowledge_event(&event.claim).await?;
            }
        }
    }

    fn record(
        &mut self,
        index: usize,
        change: &DemoChange,
        output: &mut dyn DemoOutput,
    ) -> Result<(), DemoError> {
        let (at, entry) = (self.world.elapsed(), &mut self.entries[index]);
        entry.record(at, change);
        Ok(output.changed(at, entry, change)?)
    }

    fn boot_agents(&mut self) -> Result<(), DemoError> {
        let Self { world, plan, entries, agents, .. } = self;
        // Resources are declared in order, so a planned resource and its entry have the same index.
        let boot_rounds = |id| {
            let entry = entries.iter().position(|entry| entry.id == id);
            entry.map_or(1, |index| plan.resources[index].boot_rounds)
        };
        let enrolled = agents.run_round(&world.cluster, &world.mesh, boot_rounds);
        enrolled.map_err(|(id, source)| DemoError::Agent { resource: self.name_of(id), source })
    }

    /// The outcome of every resource, and the number of resources that a last sweep returns.
    async fn result(&self) -> Result<RunResult, DemoError> {
        let mut outcomes = Vec::new();
        for entry in &self.entries {
            let resource = self.world.get(entry.id).await;
            let resource = resource.map_err(|source| broker_error("read", &entry.name, source))?;
            outcomes.push(Outcome {
                entry: entry.clone(),
                objects_left: self.world.count_objects(&resource),
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

fn broker_error(operation: &'static str, resource: &str, source: Error) -> DemoError {
    DemoError::Broker { operation, resource: resource.to_owned(), source }
}

#[cfg(test)]
mod tests;
