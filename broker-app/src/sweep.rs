//! The sweep: looks at everything that is not at rest and finds what needs a pass.
//!
//! A converged or a waiting world costs nothing but reading it: no lease, no write, no request beyond the
//! pages of rows and whatever the cluster's cache needs. When every row was looked at, whatever else carries
//! our labels is looked at, too: see [`orphans`](crate::orphans).

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
use run::Round;
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

/// What one sweep knows from those before.
#[derive(Default)]
struct Known {
    /// What the last sweep saw of each row.
    rows: Memory,
    /// Where the last sweep ran out of time.
    resume_after: Option<ProvisionedResourceId>,
    /// The kinds that objects of ours may be of.
    kinds: Kinds,
}

/// A resource that needs a pass, and the lane that it ownership into.
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

impl Sweeper {
    /// A sweeper over the reconciler's ports.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Self {
        let config = config.into();
        Self { ports: TimedPorts::new(ports, &config.deadlines), config, known: Mutex::default() }
    }

    /// Looks at everything, however long that takes; see [`sweep_within`](Self::sweep_within).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn sweep(&self) -> Result<(Vec<Work>, SweepReport), Error> {
        self.sweep_within(Duration::MAX).await
    }

    /// Looks at page after page and answers what needs a pass, with a report of what was found. When time is
    /// up, the rest is left for the next sweep, which begins there; the report says so.
    ///
    /// One resource that cannot be looked at, be it that its row cannot be read, is named in the report and does
    /// not stop the others.
    ///
    /// # Errors
    ///
    /// When store or cluster could not be asked at all.
    #[tracing::instrument(name = "broker.sweep", skip_all)]
    pub async fn sweep_within(&self, within: Duration) -> Result<(Vec<Work>, SweepReport), Error> {
        let started = Instant::now();
        let swept = self.look(started, within).await;
        if let Ok((_, report)) = &swept {
            for (resource, trouble) in &report.errors {
                let ResourceError { reason, message, .. } = trouble;
                tracing::warn!(%resource, reason, error = message, "a resource could not be swept");
            }
        }
        telemetry::swept(started.elapsed(), &swept);
        swept
    }

    async fn look(
        &self,
        started: Instant,
        within: Duration,
    ) -> Result<(Vec<Work>, SweepReport), Error> {
        let cluster = self.ports.cluster.read(Cluster::identity).await?;
        let known = self.recall();
        let mut page = self.page(known.resume_after).await?;
        let mut round = Round::new(&self.ports, &self.config, cluster, known);
        let deferred = loop {
            let next = page.next;
            // The store reads the next page while this one is looked at.
            let (looked, following) = join(round.look_at(page), self.page_after(next)).await;
            looked?;
            match following? {
                Some(following) if started.elapsed() < within => page = following,
                Some(_) | None => break next,
            }
        };
        round.brake().await?;
        if deferred.is_none() {
            round.look_for_orphans().await;
        }
        let (known, work, report) = round.end(deferred);
        self.remember(known);
        Ok((work, report))
    }

    /// The page that begins there, if there is one.
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

    /// Takes what is known along. A sweep that fails forgets it, and the next one looks anew.
    fn recall(&self) -> Known {
        std::mem::take(&mut *self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn remember(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }
}
