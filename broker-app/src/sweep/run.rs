//! One sweep under way: what it has seen, and what it makes of it.

use std::collections::BTreeMap;

use broker_domain::{ClusterId, Phase, ProvisionedResourceId};
use broker_ports::{
    Actor, Attribution, Brake, CachedXr, CompactRow, CorrelationId, PortName, SweepPage,
    UnreadableRow, XrReading,
};

use super::losses::Losses;
use super::memory::Memory;
use super::orphan_scan::{Kinds, Swept};
use super::report::SweepReport;
use super::snapshot::{SnapshotReader, SnapshotRow};
use super::triage::{Triage, triage};
use super::{Known, Work};
use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::decide::Mode;
use crate::error::Error;
use crate::observe::read_applied;

/// One sweep under way.
pub(super) struct Round<'a> {
    ports: &'a TimedPorts,
    config: &'a BrokerConfig,
    cluster: ClusterId,
    observations: SnapshotReader<'a>,
    /// What the sweep before saw.
    before: Memory,
    /// It began where the sweep before ran out of time.
    resumed: bool,
    now: Memory,
    kinds: Kinds,
    swept: Swept,
    losses: Losses,
    /// What a pass would re-create, create or roll back, and whether it was applied before.
    destructive: BTreeMap<ProvisionedResourceId, bool>,
    work: Vec<Work>,
    report: SweepReport,
    orphans_failed: bool,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        ports: &'a TimedPorts,
        config: &'a BrokerConfig,
        cluster: ClusterId,
        Known { rows: before, resume_after, kinds }: Known,
    ) -> Self {
        Self {
            ports,
            config,
            cluster: cluster.clone(),
            observations: SnapshotReader::new(ports).on(cluster),
            before,
            resumed: resume_after.is_some(),
            now: Memory::default(),
            kinds,
            swept: Swept::default(),
            losses: Losses::default(),
            destructive: BTreeMap::new(),
            work: Vec::new(),
            report: SweepReport::default(),
            orphans_failed: false,
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
        let (rows, elsewhere): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| self.is_here(row));
        for row in &elsewhere {
            self.swept.saw(row);
            self.report.looked_at(row.phase);
        }
        for SnapshotRow { row, input } in self.observations.of_page(&rows, &self.kinds).await? {
            self.swept.saw(row);
            self.report.looked_at(row.phase);
            let facts = match input {
                Ok(facts) => facts,
                Err(error) => {
                    self.report.trouble(row.id, &error);
                    continue;
                }
            };
            self.losses.count(row, &facts.cached, facts.namespace_ready());
            self.report.drift(row.phase, &facts.cached);
            let absent = row.phase.is_converging() && matches!(facts.cached, CachedXr::Absent);
            if absent || row.phase == Phase::Failed {
                self.destructive.insert(row.id, row.applied.is_some());
            }
            let fingerprint = facts.fingerprint();
            let unchanged = self.before.get(row.id) == Some(&fingerprint);
            self.now.insert(row.id, fingerprint);
            match triage(&facts.as_seen_by(row, unchanged, now)) {
                Triage::None => self.report.settled += 1,
                Triage::Waiting => self.report.waits(row.id),
                Triage::Pass(lane) => {
                    self.work.push(Work { resource: row.id, project: row.project_id, lane });
                }
            }
        }
        Ok(())
    }

    /// A row that is bound to another cluster is left to the replicas of that one: its objects are not missing here.
    fn is_here(&self, row: &CompactRow) -> bool {
        row.cluster.as_ref().is_none_or(|bound| *bound == self.cluster)
    }

    /// Too many composite resources are lost at once to believe it: nothing is re-created until an operator has
    /// looked, or they are back.
    pub(super) async fn brake(&mut self) -> Result<(), Error> {
        let (cluster, now) = (self.cluster.clone(), self.ports.clock.now());
        self.report.missing = self.losses.len();
        if !self.losses.brakes(now).is_empty() {
            self.forget_what_is_explained().await?;
            for brake in self.losses.brakes(now) {
                self.set_brake(&brake).await?;
            }
        }
        self.report.brakes = self.ports.schedule.read(|it| it.brakes(&cluster)).await?;
        let (brakes, destructive) = (&self.report.brakes, &self.destructive);
        self.work.retain(|work| {
            let applied = destructive.get(&work.resource).copied();
            let held = |applied| brakes.iter().any(|brake| brake.holds(work.project, applied));
            !applied.is_some_and(held)
        });
        Ok(())
    }

    /// Losses of kinds that were withdrawn, and those that an operator accepted, set no brake. The accepted ones are read
    /// last, so that a release which commits during the reads before is not undone. One that commits between this read and
    /// `set_brake` still is: the operator releases again.
    async fn forget_what_is_explained(&mut self) -> Result<(), Error> {
        for (blueprint, id) in self.losses.samples() {
            // What could not be learnt explains no loss.
            let read = read_applied(self.ports, id).await;
            if let Ok(Some((_, XrReading::KindAbsent))) = read {
                self.losses.forget_blueprint(blueprint);
            }
        }
        let accepted = self.ports.schedule.read(|it| it.accepted_losses(&self.cluster)).await?;
        self.losses.forget_accepted(&accepted);
        Ok(())
    }

    async fn set_brake(&self, brake: &Brake) -> Result<(), Error> {
        let Brake { absent, expected, project, .. } = brake;
        let (cluster, project) = (&self.cluster, project.map(|project| project.to_string()));
        tracing::error!(%cluster, project, absent, expected, "too much is lost at once: the brake is set");
        if self.config.mode == Mode::DryRun {
            return Ok(());
        }
        let at = self.ports.clock.now().unix_timestamp();
        let correlation = CorrelationId::new(format!("sweep:{}:{at}", self.config.worker))?;
        let by = Attribution::new(Actor::system(), correlation);
        self.ports.schedule.write(|it| it.set_brake(cluster, brake, &by)).await
    }

    /// Looks for objects with our labels that none of the rows accounts for. A failure is named in the report:
    /// what the sweep found before is worth no less for it.
    pub(super) async fn look_for_orphans(&mut self) {
        if self.resumed {
            // Only to save questions: whatever no row accounts for is looked up before it is judged.
            self.swept.account_for(self.before.ids());
        }
        let looked = self.kinds.look(
            self.ports,
            self.config,
            &self.cluster,
            &mut self.swept,
            &mut self.observations,
            &mut self.report,
        );
        if let Err(error) = looked.await {
            self.orphans_failed = true;
            self.report.unlisted("every kind".to_owned(), &error);
        }
    }

    /// What is left when everything was looked at, or time was up.
    pub(super) fn end(
        mut self,
        deferred: Option<ProvisionedResourceId>,
    ) -> (Known, Vec<Work>, SweepReport) {
        self.report.deferred_after = deferred;
        let whole = deferred.is_none() && !self.resumed;
        self.report.complete = whole && !self.orphans_failed;
        self.report.hand_over(&self.work);
        // Rows that this sweep did not come to are remembered as the one before saw them.
        let rows = if whole { self.now } else { self.before.updated_by(self.now) };
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
