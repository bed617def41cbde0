//! One sweep under way: what it has seen, and what it makes of it.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ClusterId, Phase, ProvisionedResourceId};
use broker_ports::{
    Actor, Attribution, Brake, CompactRow, CorrelationId, PortName, ReconcilerPorts, SweepPage,
    UnreadableRow,
};

use super::attention::{Attention, attention, is_missing};
use super::belongings::{Kinds, Swept};
use super::glance::{Looked, Observations};
use super::memory::Memory;
use super::report::SweepReport;
use super::{Known, Work};
use crate::call::{Kind, call};
use crate::config::ReconcilerConfig;
use crate::error::Error;

/// More than this many, and more than a tenth, must be missing before the brake is pulled.
const FEW: u64 = 5;

/// One sweep under way.
pub(super) struct Round<'a> {
    ports: &'a ReconcilerPorts,
    config: &'a ReconcilerConfig,
    cluster: ClusterId,
    observations: Observations<'a>,
    /// What the sweep before saw.
    before: Memory,
    /// It began where the sweep before ran out of time.
    resumed: bool,
    now: Memory,
    kinds: Kinds,
    swept: Swept,
    missing: BTreeSet<ProvisionedResourceId>,
    expected: u64,
    work: Vec<Work>,
    report: SweepReport,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        ports: &'a ReconcilerPorts,
        config: &'a ReconcilerConfig,
        cluster: ClusterId,
        Known { rows: before, resume_after, kinds }: Known,
    ) -> Self {
        Self {
            ports,
            config,
            cluster,
            observations: Observations::new(ports, config.deadlines),
            before,
            resumed: resume_after.is_some(),
            now: Memory::default(),
            kinds,
            swept: Swept::default(),
            missing: BTreeSet::new(),
            expected: 0,
            work: Vec::new(),
            report: SweepReport::default(),
        }
    }

    /// Looks at a page of rows. One that cannot be read is in trouble by itself; its objects stay what they are.
    pub(super) async fn look_at(&mut self, page: SweepPage) -> Result<(), Error> {
        let SweepPage { rows, unreadable, now, .. } = page;
        for UnreadableRow { id, error: source, .. } in unreadable {
            self.swept.account_for([id]);
            self.report.looked_at += 1;
            self.report.trouble(id, &Error::Port { port: PortName::Repository, source });
        }
        for Looked { row, glance } in self.observations.of_page(&rows).await? {
            self.swept.saw(row);
            self.report.looked_at(row.phase);
            let facts = match glance {
                Ok(facts) => facts,
                Err(error) => {
                    self.report.trouble(row.id, &error);
                    continue;
                }
            };
            self.expected += u64::from(is_expected(row));
            if is_missing(row, &facts.cached) {
                self.missing.insert(row.id);
            }
            let fingerprint = facts.fingerprint();
            let unchanged = self.before.get(row.id) == Some(&fingerprint);
            self.now.insert(row.id, fingerprint);
            match attention(&facts.as_seen_by(row, unchanged, now)) {
                Attention::None => self.report.settled += 1,
                Attention::Waiting => self.report.waits(row.id),
                Attention::Pass(lane) => {
                    self.work.push(Work { resource: row.id, project: row.project_id, lane });
                }
            }
        }
        Ok(())
    }

    /// Too many composite resources are missing at once to believe it: nothing is created until a person has
    /// looked, or they are back.
    pub(super) async fn brake(&mut self) -> Result<(), Error> {
        let (cluster, expected) = (&self.cluster, self.expected);
        let absent = self.missing.len() as u64;
        let patience = self.config.deadlines.store;
        if absent > FEW.max(expected / 10) {
            let brake = Brake::new(absent, expected, self.ports.clock.now());
            let correlation = CorrelationId::new(format!("sweep:{}", self.config.worker))?;
            let by = Attribution::new(Actor::system(), correlation);
            tracing::error!(%cluster, absent, expected, "too much is missing at once: the brake is on");
            let set = self.ports.schedule.set_brake(cluster, Some(&brake), &by);
            call(PortName::Schedule, Kind::Write, patience, set).await?;
        }
        let brake = self.ports.schedule.brake(cluster);
        self.report.brake = call(PortName::Schedule, Kind::Read, patience, brake).await?;
        if self.report.brake.is_some() {
            let missing = &self.missing;
            self.work.retain(|work| !missing.contains(&work.resource));
        }
        Ok(())
    }

    /// Looks for objects with our labels that none of the rows accounts for.
    pub(super) async fn look_for_orphans(&mut self) -> Result<(), Error> {
        if self.resumed {
            // Only to save questions: whatever no row accounts for is looked up before it is judged.
            self.swept.account_for(self.before.ids());
        }
        self.kinds
            .look(
                self.ports,
                self.config,
                &self.cluster,
                &mut self.swept,
                &mut self.observations,
                &mut self.report,
            )
            .await
    }

    /// What is left when everything was looked at, or time was up.
    pub(super) fn end(
        mut self,
        deferred: Option<ProvisionedResourceId>,
    ) -> (Known, Vec<Work>, SweepReport) {
        self.report.missing = self.missing.len();
        self.report.deferred_after = deferred;
        self.report.complete = deferred.is_none() && !self.resumed;
        self.report.hand_over(&self.work);
        // Rows that this sweep did not come to are remembered as the one before saw them.
        let rows = if self.report.complete { self.now } else { self.before.updated_by(self.now) };
        let known = Known { rows, resume_after: deferred, kinds: self.kinds };
        (known, take_turns(self.work), self.report)
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

const fn is_expected(row: &CompactRow) -> bool {
    match row.phase {
        Phase::Provisioning | Phase::Enrolling | Phase::Ready => true,
        Phase::Pending
        | Phase::Failed
        | Phase::Deregistering
        | Phase::Deprovisioning
        | Phase::Deleted => false,
    }
}
