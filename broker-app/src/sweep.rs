//! The sweep: reads every row that is not terminal and reports which ones need a pass.
//!
//! A sweep over a settled fleet takes no lease and writes nothing. It reads pages of rows, the cluster's watch cache
//! and the mesh. After a complete run over the rows it scans for orphans: labelled objects that no row accounts for.

mod triage;
mod orphan_scan;
mod snapshot;
mod losses;
mod sorted_by_id;
mod orphans;
mod shared_configs;
mod circuit_breaker;
mod report;
mod run;
mod settled;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use broker_domain::{ProjectId, ProvisionedResourceId};
use broker_ports::{Cluster, Lane, PageSize, Ports, SweepPage, SweepQuery};
use futures_util::future::join;
use tokio::time::Instant;

pub(crate) use losses::is_expected;
use orphan_scan::Kinds;
pub(crate) use orphans::Orphans;
pub use orphans::{Orphan, OrphanState};
pub use report::{ResourceError, SweepReport};
use run::SweepRun;
pub(crate) use settled::settled;
pub(crate) use shared_configs::SharedConfigs;
use sorted_by_id::Fingerprints;

use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::error::Error;
use crate::telemetry;

/// Finds the resources that need a pass, and orphans.
pub struct Sweeper {
    ports: TimedPorts,
    config: Arc<BrokerConfig>,
    memory: Mutex<SweepMemory>,
}

/// State that one sweep hands to the next.
#[derive(Default)]
struct SweepMemory {
    /// The fingerprint of each row in the last sweep.
    rows: Fingerprints,
    /// The last visited row, if the last sweep ran out of time.
    resume_after: Option<ProvisionedResourceId>,
    kinds: Kinds,
}

/// A resource that needs a pass, and the lane for the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project; the work of different Projects is interleaved.
    pub project: ProjectId,
    /// Its lane.
    pub lane: Lane,
}

const PAGE: PageSize = PageSize::MAX;

impl Sweeper {
    /// Creates a sweeper over the reconciler's ports.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Self {
        let config = config.into();
        Self { ports: TimedPorts::new(ports, &config.deadlines), config, memory: Mutex::default() }
    }

    /// Sweeps without a time limit; see [`sweep_within`](Self::sweep_within).
    ///
    /// # Errors
    ///
    /// As [`sweep_within`](Self::sweep_within).
    pub async fn sweep(&self) -> Result<(Vec<Work>, SweepReport), Error> {
        self.sweep_within(Duration::MAX).await
    }

    /// Sweeps page by page. Returns the resources that need a pass, and a report. When `within` has elapsed, the next
    /// sweep continues at the following page; the report says so.
    ///
    /// A resource that cannot be read becomes an error in the report and does not stop the sweep.
    ///
    /// # Errors
    ///
    /// When the store or the cluster does not answer.
    #[tracing::instrument(name = "broker.sweep", skip_all)]
    pub async fn sweep_within(&self, within: Duration) -> Result<(Vec<Work>, SweepReport), Error> {
        let started = Instant::now();
        let swept = self.run(started, within).await;
        if let Ok((_, report)) = &swept {
            for (resource, resource_error) in &report.errors {
                let ResourceError { reason, message, .. } = resource_error;
                tracing::warn!(%resource, reason, error = message, "a resource could not be swept");
            }
        }
        telemetry::sweep_finished(started.elapsed(), &swept);
        swept
    }

    async fn run(
        &self,
        started: Instant,
        within: Duration,
    ) -> Result<(Vec<Work>, SweepReport), Error> {
        let cluster = self.ports.cluster.read(Cluster::identity).await?;
        let memory = self.take_memory();
        let mut page = self.page(memory.resume_after).await?;
        let mut run = SweepRun::new(&self.ports, &self.config, cluster, memory);
        let deferred_after = loop {
            let next = page.next;
            // The store reads the next page while this one is processed.
            let (visited, following) = join(run.visit_page(page), self.page_after(next)).await;
            visited?;
            match following? {
                Some(following) if started.elapsed() < within => page = following,
                Some(_) | None => break next,
            }
        };
        run.set_brakes().await?;
        if deferred_after.is_none() {
            run.scan_for_orphans().await;
        }
        let (memory, work, report) = run.finish(deferred_after);
        self.store_memory(memory);
        Ok((work, report))
    }

    async fn page_after(
        &self,
        next: Option<ProvisionedResourceId>,
    ) -> Result<Option<SweepPage>, Error> {
        match next {
            Some(next) => self.page(Some(next)).await.map(Some),
            None => Ok(None),
        }
    }

    async fn page(&self, after: Option<ProvisionedResourceId>) -> Result<SweepPage, Error> {
        let mut query = SweepQuery::new(PAGE);
        query.after = after;
        self.ports.repository.read(|it| it.sweep_page(&query)).await
    }

    /// Takes the state of the last sweep. A sweep that fails does not put it back, so the next one starts without it.
    fn take_memory(&self) -> SweepMemory {
        std::mem::take(&mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn store_memory(&self, memory: SweepMemory) {
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
    }
}
