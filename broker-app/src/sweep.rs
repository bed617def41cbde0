//! The sweep: looks at everything that is not at rest and finds what needs a pass.
//!
//! A converged or a waiting world costs nothing but reading it: no lease, no write, no request beyond the
//! pages of rows and whatever the cluster's cache needs.

mod attention;
mod glance;
mod report;

use std::collections::BTreeMap;
use std::sync::Mutex;

use broker_domain::{ClusterId, ProjectId, ProvisionedResourceId};
use broker_ports::{
    Actor, Attribution, Brake, CompactRow, CorrelationId, Lane, PageSize, PortName,
    ReconcilerPorts, SweepQuery,
};

use attention::{Attention, attention, is_missing};
use glance::{Memory, Observations};
pub use report::{SweepReport, Trouble};

use crate::call::{Kind, call};
use crate::config::ReconcilerConfig;
use crate::error::Error;

/// Finds what needs a pass.
pub struct Sweeper {
    ports: ReconcilerPorts,
    config: ReconcilerConfig,
    /// What the last sweep saw of each row that waits for its next attempt.
    memory: Mutex<Memory>,
}

/// A resource that needs a pass, and the lane that it belongs into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project, for being fair.
    pub project: ProjectId,
    /// Its lane.
    pub lane: Lane,
}

/// Rows that are looked at together.
const PAGE: PageSize = PageSize::MAX;

/// More than this many, and more than a tenth, must be missing before the brake is pulled.
const FEW: u64 = 5;

impl Sweeper {
    /// A sweeper over the reconciler's ports.
    pub fn new(ports: ReconcilerPorts, config: ReconcilerConfig) -> Self {
        Self { ports, config, memory: Mutex::default() }
    }

    /// Looks at every page and answers what needs a pass, with a report of what was found.
    ///
    /// One resource that cannot be looked at is named in the report and does not stop the others.
    ///
    /// # Errors
    ///
    /// When store or cluster could not be asked at all.
    pub async fn sweep(&self) -> Result<(Vec<Work>, SweepReport), Error> {
        let cluster = self.ports.cluster.identity();
        let patience = self.config.deadlines.cluster_read;
        let cluster = call(PortName::Cluster, Kind::Read, patience, cluster).await?;

        let mut report = SweepReport::default();
        let mut work = Vec::new();
        let mut missing = Vec::new();
        let mut expected = 0;
        let mut remembered = BTreeMap::new();
        let mut observations = Observations::new(&self.ports, &self.config);
        let mut after = None;
        loop {
            let query = SweepQuery { after, limit: PAGE };
            let page = self.ports.repository.sweep_page(&query);
            let page =
                call(PortName::Repository, Kind::Read, self.config.deadlines.store, page).await?;
            for seen in observations.of_page(&page.rows).await? {
                let row = seen.row;
                report.looked_at += 1;
                let glance = match seen.glance {
                    Ok(glance) => glance,
                    Err(error) => {
                        report.trouble(row.id, &error);
                        continue;
                    }
                };
                expected += u64::from(is_expected(row));
                let unchanged = self.recall(row.id) == Some(glance.fingerprint());
                remembered.insert(row.id, glance.fingerprint());
                if is_missing(row, &glance.cached) {
                    missing.push(row.id);
                }
                match attention(&glance.as_seen_by(row, unchanged, page.now)) {
                    Attention::None => report.settled += 1,
                    Attention::Waiting => report.waiting += 1,
                    Attention::Pass(lane) => {
                        work.push(Work { resource: row.id, project: row.project_id, lane });
                    }
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        self.remember(remembered);
        self.brake(&cluster, &missing, expected, &mut work, &mut report).await?;
        report.handed_over = work.len();
        Ok((take_turns(work), report))
    }

    /// Too many composite resources are missing at once to believe it: nothing is created until a person has
    /// looked, or they are back.
    async fn brake(
        &self,
        cluster: &ClusterId,
        missing: &[ProvisionedResourceId],
        expected: u64,
        work: &mut Vec<Work>,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        report.missing = missing.len();
        let absent = missing.len() as u64;
        let patience = self.config.deadlines.store;
        if absent > FEW.max(expected / 10) {
            let brake = Brake { absent, expected, since: self.ports.clock.now() };
            let by = Attribution {
                actor: Actor::system(),
                correlation_id: CorrelationId::new(format!("sweep:{}", self.config.worker))?,
            };
            tracing::error!(%cluster, absent, expected, "too much is missing at once: the brake is on");
            let set = self.ports.schedule.set_brake(cluster, Some(&brake), &by);
            call(PortName::Schedule, Kind::Write, patience, set).await?;
        }
        let brake = self.ports.schedule.brake(cluster);
        report.brake = call(PortName::Schedule, Kind::Read, patience, brake).await?;
        if report.brake.is_some() {
            work.retain(|work| !missing.contains(&work.resource));
        }
        Ok(())
    }

    fn recall(&self, id: ProvisionedResourceId) -> Option<glance::Fingerprint> {
        self.memory.lock().ok()?.get(&id).cloned()
    }

    fn remember(&self, memory: Memory) {
        if let Ok(mut last) = self.memory.lock() {
            *last = memory;
        }
    }
}

/// Projects take turns, so that one with much to do does not hold up another.
fn take_turns(work: Vec<Work>) -> Vec<Work> {
    let mut turns = BTreeMap::<_, usize>::new();
    let mut numbered: Vec<_> = work
        .into_iter()
        .map(|work| {
            let turn = turns.entry(work.project).or_default();
            *turn += 1;
            (*turn, work)
        })
        .collect();
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, work)| work).collect()
}

fn is_expected(row: &CompactRow) -> bool {
    use broker_domain::Phase::{
        Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Pending, Provisioning, Ready,
    };
    match row.phase {
        Provisioning | Enrolling | Ready => true,
        Pending | Failed | Deregistering | Deprovisioning | Deleted => false,
    }
}
