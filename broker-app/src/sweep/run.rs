//! The state of one sweep, page after page, and the brakes and orphan scan at its end.

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

pub(super) struct SweepRun<'a> {
    ports: &'a TimedPorts,
    config: &'a BrokerConfig,
    cluster: ClusterId,
    snapshots: SnapshotReader<'a>,
    /// Fingerprints of the last sweep.
    before: Memory,
    /// The sweep continues one that ran out of time.
    resumed: bool,
    now: Memory,
    kinds: Kinds,
    swept: Swept,
    losses: Losses,
    /// Rows whose pass would create, re-create or roll back, and whether each was applied before.
    destructive: BTreeMap<ProvisionedResourceId, bool>,
    work: Vec<Work>,
    report: SweepReport,
    orphans_failed: bool,
}

impl<'a> SweepRun<'a> {
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
            snapshots: SnapshotReader::new(ports).on(cluster),
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

    /// Processes a page of rows. An unreadable row becomes an error; its objects still count as accounted for.
    pub(super) async fn visit_page(&mut self, page: SweepPage) -> Result<(), Error> {
        let SweepPage { rows, unreadable, now, .. } = page;
        for UnreadableRow { id, error: source, .. } in unreadable {
            self.swept.account_for([id]);
            self.report.looked_at += 1;
            self.report.record_error(id, &Error::Port { port: PortName::Repository, source });
        }
        let (rows, elsewhere): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| self.is_here(row));
        for row in &elsewhere {
            self.swept.visit(row);
            self.report.count_visited(row.phase);
        }
        for SnapshotRow { row, snapshot } in self.snapshots.of_page(&rows, &self.kinds).await? {
            self.swept.visit(row);
            self.report.count_visited(row.phase);
            if row.paused {
                self.report.paused.insert(row.id);
            }
            let snapshot = match snapshot {
                Ok(snapshot) => snapshot,
                Err(error) => {
                    self.report.record_error(row.id, &error);
                    continue;
                }
            };
            self.losses.count(row, &snapshot.cached, snapshot.namespace_ready());
            self.report.drift(row.phase, &snapshot.cached);
            self.report.problem(row, &snapshot.cached);
            if !snapshot.namespace_ready() {
                self.report.without_namespace.insert(row.id, row.version);
            }
            let absent = row.phase.is_converging() && matches!(snapshot.cached, CachedXr::Absent);
            if absent || row.phase == Phase::Failed {
                self.destructive.insert(row.id, row.applied.is_some());
            }
            let fingerprint = snapshot.fingerprint();
            let unchanged = self.before.get(row.id) == Some(&fingerprint);
            self.now.insert(row.id, fingerprint);
            match triage(&snapshot.triage_input(row, unchanged, now)) {
                Triage::None => self.report.settled += 1,
                Triage::Waiting => self.report.count_waiting(row.id),
                Triage::Pass(lane) => {
                    self.work.push(Work { resource: row.id, project: row.project_id, lane });
                }
            }
        }
        Ok(())
    }

    /// The replicas of the row's own cluster handle a row that is bound to another one.
    fn is_here(&self, row: &CompactRow) -> bool {
        row.cluster.as_ref().is_none_or(|bound| *bound == self.cluster)
    }

    /// Sets brakes for implausible losses and holds back destructive work. A brake stays until an operator releases
    /// it.
    pub(super) async fn brake(&mut self) -> Result<(), Error> {
        let (cluster, now) = (self.cluster.clone(), self.ports.clock.now());
        self.report.missing = self.losses.len();
        if !self.losses.brakes(now).is_empty() {
            self.forget_explained_losses().await?;
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

    /// Drops losses of removed kinds and losses that an operator accepted. Accepted losses are read last, so a
    /// release that commits during the earlier reads still counts. One that commits between this read and `set_brake`
    /// is overwritten: the operator releases again.
    async fn forget_explained_losses(&mut self) -> Result<(), Error> {
        for (blueprint, id) in self.losses.samples() {
            // A failed read explains no loss.
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
        tracing::error!(%cluster, project, absent, expected, "too many composite resources are lost at once: the brake is set");
        if self.config.mode == Mode::DryRun {
            return Ok(());
        }
        let at = self.ports.clock.now().unix_timestamp();
        let correlation = CorrelationId::new(format!("sweep:{}:{at}", self.config.worker))?;
        let by = Attribution::new(Actor::system(), correlation);
        self.ports.schedule.write(|it| it.set_brake(cluster, brake, &by)).await
    }

    /// Scans for objects that no row accounts for. A failure goes into the report and keeps the sweep's other
    /// results.
    pub(super) async fn scan_for_orphans(&mut self) {
        if self.resumed {
            // An optimisation: an object without an accounted row is looked up before the broker decides about it.
            self.swept.account_for(self.before.ids());
        }
        let scanned = self.kinds.scan(
            self.ports,
            self.config,
            &self.cluster,
            &mut self.swept,
            &mut self.snapshots,
            &mut self.report,
        );
        if let Err(error) = scanned.await {
            self.orphans_failed = true;
            self.report.unlisted("every kind".to_owned(), &error);
        }
    }

    /// Completes the report and the state for the next sweep.
    pub(super) fn end(
        mut self,
        deferred: Option<ProvisionedResourceId>,
    ) -> (Known, Vec<Work>, SweepReport) {
        self.report.deferred_after = deferred;
        let whole = deferred.is_none() && !self.resumed;
        self.report.complete = whole && !self.orphans_failed;
        self.report.hand_over(&self.work);
        // Rows that this sweep did not reach keep their earlier fingerprint.
        let rows = if whole { self.now } else { self.before.updated_by(self.now) };
        let known = Known { rows, resume_after: deferred, kinds: self.kinds };
        (known, take_turns(self.work), self.report)
    }
}

/// Interleaves Projects, so a large one does not delay the others.
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
