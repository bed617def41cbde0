//! The state of one sweep, page after page, and the brakes and orphan scan at its end.

use std::collections::BTreeMap;

use broker_domain::{ClusterId, Phase, ProvisionedResourceId};
use broker_ports::{
    Actor, Attribution, Brake, CachedXr, CompactRow, CorrelationId, PortName, SweepPage,
    UnreadableRow, XrReading,
};

use super::losses::Losses;
use super::orphan_scan::{Kinds, VisitedRows};
use super::report::SweepReport;
use super::snapshot::{SnapshotReader, SweptRow};
use super::sorted_by_id::Fingerprints;
use super::triage::{Triage, triage};
use super::{SweepMemory, Work};
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
    previous: Fingerprints,
    /// The sweep continues one that ran out of time.
    resumed: bool,
    current: Fingerprints,
    kinds: Kinds,
    visited: VisitedRows,
    losses: Losses,
    /// Rows whose pass would create, re-create or roll back; the value says whether the row was applied before.
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
        SweepMemory { rows: previous, resume_after, kinds }: SweepMemory,
    ) -> Self {
        Self {
            ports,
            config,
            cluster: cluster.clone(),
            snapshots: SnapshotReader::new(ports).on_cluster(cluster),
            previous,
            resumed: resume_after.is_some(),
            current: Fingerprints::default(),
            kinds,
            visited: VisitedRows::default(),
            losses: Losses::default(),
            destructive: BTreeMap::new(),
            work: Vec::new(),
            report: SweepReport::default(),
            orphans_failed: false,
        }
    }

    /// Processes a page of rows. An unreadable row becomes an error, but it still accounts for its objects.
    pub(super) async fn visit_page(&mut self, page: SweepPage) -> Result<(), Error> {
        let SweepPage { rows, unreadable, now, .. } = page;
        for UnreadableRow { id, error: source, .. } in unreadable {
            self.visited.account_for([id]);
            self.report.looked_at += 1;
            self.report.record_error(id, &Error::Port { port: PortName::Repository, source });
        }
        let (rows, other_cluster_rows): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|row| self.is_on_this_cluster(row));
        for row in &other_cluster_rows {
            self.visited.visit(row);
            self.report.count_visited(row.phase);
        }
        for SweptRow { row, snapshot } in self.snapshots.of_page(&rows, &self.kinds).await? {
            self.visited.visit(row);
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
            self.report.count_drift(row.phase, &snapshot.cached);
            self.report.record_problem(row, &snapshot.cached);
            if !snapshot.namespace_ready() {
                self.report.without_namespace.insert(row.id, row.version);
            }
            let absent = row.phase.is_converging() && matches!(snapshot.cached, CachedXr::Absent);
            if absent || row.phase == Phase::Failed {
                self.destructive.insert(row.id, row.applied.is_some());
            }
            let fingerprint = snapshot.fingerprint();
            let unchanged = self.previous.get(row.id) == Some(&fingerprint);
            self.current.insert(row.id, fingerprint);
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

    /// Whether the row is bound to this cluster, or to none. Replicas of another cluster handle its rows.
    fn is_on_this_cluster(&self, row: &CompactRow) -> bool {
        row.cluster.as_ref().is_none_or(|bound| *bound == self.cluster)
    }

    /// Sets brakes if too much was lost at once, and removes the work that a brake forbids. A brake stays set until an
    /// operator releases it.
    pub(super) async fn set_brakes(&mut self) -> Result<(), Error> {
        let (cluster, now) = (self.cluster.clone(), self.ports.clock.now());
        self.report.missing = self.losses.len();
        if !self.losses.brakes(now).is_empty() {
            self.drop_explained_losses().await?;
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

    /// Drops losses of removed kinds and losses that an operator accepted. It reads accepted losses last, so that a
    /// release during the earlier reads counts. `set_brake` overwrites a later release, which the operator repeats.
    async fn drop_explained_losses(&mut self) -> Result<(), Error> {
        for (blueprint, id) in self.losses.samples() {
            // If the read fails, the loss counts.
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
            // Only saves lookups: before the broker decides about an unaccounted object, it reads the row.
            self.visited.account_for(self.previous.ids());
        }
        let scanned = self.kinds.scan(
            self.ports,
            self.config,
            &self.cluster,
            &mut self.visited,
            &mut self.snapshots,
            &mut self.report,
        );
        if let Err(error) = scanned.await {
            self.orphans_failed = true;
            self.report.record_unlisted("every kind".to_owned(), &error);
        }
    }

    /// Completes the report and the state for the next sweep.
    pub(super) fn finish(
        mut self,
        deferred: Option<ProvisionedResourceId>,
    ) -> (SweepMemory, Vec<Work>, SweepReport) {
        self.report.deferred_after = deferred;
        let is_full_run = deferred.is_none() && !self.resumed;
        self.report.complete = is_full_run && !self.orphans_failed;
        self.report.hand_over(&self.work);
        // Rows that this sweep did not reach keep their earlier fingerprint.
        let rows = if is_full_run { self.current } else { self.previous.updated_by(self.current) };
        let memory = SweepMemory { rows, resume_after: deferred, kinds: self.kinds };
        (memory, interleave_projects(self.work), self.report)
    }
}

/// Interleaves Projects, so a large one does not delay the others.
fn interleave_projects(work: Vec<Work>) -> Vec<Work> {
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
