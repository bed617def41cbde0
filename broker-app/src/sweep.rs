//! The sweep: reads every row that is not terminal and reports which ones need a pass.
//!
//! A sweep over a settled fleet takes no lease and writes nothing. It reads pages of rows, the cluster's watch cache
//! and the mesh. After a complete run over the rows it scans for orphans: labelled objects that no row accounts for.

mod triage;
mod orphan_scan;
mod snapshot;
mod losses;
mod memory;
mod orphans;
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
use memory::Memory;
use orphan_scan::Kinds;
pub(crate) use orphans::Orphans;
pub use orphans::{Orphan, OrphanState};
pub use report::{ResourceError, SweepReport};
use run::SweepRun;
pub(crate) use settled::settled;

use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::error::Error;
use crate::telemetry;

/// Finds what needs a pass.
pub struct Sweeper {
    ports: TimedPorts,
    config: Arc<BrokerConfig>,
    known: Mutex<Known>,
}

/// State that one sweep hands to the next.
#[derive(Default)]
struct Known {
    /// Fingerprints of the last sweep's observations.
    rows: Memory,
    /// Set when the last sweep ran out of time.
    resume_after: Option<ProvisionedResourceId>,
    kinds: Kinds,
}

/// A resource that needs a pass, and the lane of that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project, for fair ordering.
    pub project: ProjectId,
    /// Its lane.
    pub lane: Lane,
}

const PAGE: PageSize = PageSize::MAX;

impl Sweeper {
    /// Creates a sweeper over the reconciler's ports.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Self {
        let config = config.into();
        Self { ports: TimedPorts::new(ports, &config.deadlines), config, known: Mutex::default() }
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
        telemetry::swept(started.elapsed(), &swept);
        swept
    }

    async fn run(
        &self,
        started: Instant,
        within: Duration,
    ) -> Result<(Vec<Work>, SweepReport), Error> {
        let cluster = self.ports.cluster.read(Cluster::identity).await?;
        let known = self.take_known();
        let mut page = self.page(known.resume_after).await?;
        let mut run = SweepRun::new(&self.ports, &self.config, cluster, known);
        let deferred = loop {
            let next = page.next;
            // The store reads the next page while this one is processed.
            let (visited, following) = join(run.visit_page(page), self.page_after(next)).await;
            visited?;
            match following? {
                Some(following) if started.elapsed() < within => page = following,
                Some(_) | None => break next,
            }
        };
        run.brake().await?;
        if deferred.is_none() {
            run.scan_for_orphans().await;
        }
        let (known, work, report) = run.end(deferred);
        self.remember(known);
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
    fn take_known(&self) -> Known {
        std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn remember(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}
