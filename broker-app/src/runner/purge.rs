//! Purges Deleted rows and delivered events after their retention.
//!
//! The broker purges nothing unless the embedder sets a retention. It recognises its orphans by Deleted rows, so the
//! retention must be longer than any request to the cluster. [`Runner::new`](crate::Runner::new) refuses a shorter one.

use std::time::Duration;

use broker_ports::{Outbox, PageSize, PurgeRequest, Repository};

use crate::deadline::TimedPort;
use crate::error::Error;
use crate::telemetry;

const BATCH: PageSize = PageSize::MAX;

/// The limit of transactions per purge; the next purge continues.
const MAX_BATCHES: usize = 100;

#[derive(Clone)]
pub(crate) struct Purge {
    pub(crate) repository: TimedPort<dyn Repository>,
    pub(crate) outbox: TimedPort<dyn Outbox>,
    pub(crate) retention: Duration,
}

impl Purge {
    #[tracing::instrument(name = "broker.purge", skip_all)]
    pub(crate) async fn run(&self) -> Result<(), Error> {
        let events = self.events().await?;
        let resources = self.resources().await?;
        telemetry::record_purge(resources, events);
        if resources + events > 0 {
            tracing::info!(resources, events, "expired rows and events were purged");
        }
        Ok(())
    }

    async fn events(&self) -> Result<u64, Error> {
        let mut removed = 0;
        for _ in 0..MAX_BATCHES {
            let purged = self.outbox.write(|it| it.purge_events(self.retention, BATCH)).await?;
            removed += purged;
            if purged < u64::from(BATCH.get()) {
                break;
            }
        }
        Ok(removed)
    }

    async fn resources(&self) -> Result<u64, Error> {
        let mut removed = 0;
        let request = PurgeRequest::new(self.retention, BATCH);
        for _ in 0..MAX_BATCHES {
            let purged = self.repository.write(|it| it.purge_deleted(&request)).await?;
            removed += purged.len() as u64;
            if purged.len() < usize::from(BATCH.get()) {
                break;
            }
        }
        Ok(removed)
    }
}
