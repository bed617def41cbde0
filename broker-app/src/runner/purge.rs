//! Purging: what was Deleted for long, and events that were delivered long ago, leave the store.
//!
//! Nothing is removed unless the embedder said after how long. Until then a row that is Deleted is what tells an
//! orphan from somebody else's object, so the retention is longer than any request to the cluster can be under
//! way; [`Runner::new`](crate::Runner::new) refuses a shorter one.

use std::time::Duration;

use broker_ports::{Outbox, PageSize, PurgeRequest, Repository};

use crate::deadline::Timed;
use crate::error::Error;
use crate::telemetry;

/// Rows or events that are removed in one transaction.
const BATCH: PageSize = PageSize::MAX;

/// Transactions of one purge: what is left waits for the next one, and no purge goes on for ever.
const MOST_BATCHES: usize = 100;

/// Removes what nobody needs any more.
#[derive(Clone)]
pub(crate) struct Purge {
    pub(crate) repository: Timed<dyn Repository>,
    pub(crate) outbox: Timed<dyn Outbox>,
    pub(crate) retention: Duration,
}

impl Purge {
    /// Removes what is over.
    #[tracing::instrument(name = "broker.purge", skip_all)]
    pub(crate) async fn run(&self) -> Result<(), Error> {
        let events = self.events().await?;
        let resources = self.resources().await?;
        telemetry::purged(resources, events);
        if resources + events > 0 {
            tracing::info!(resources, events, "what was over was purged");
        }
        Ok(())
    }

    async fn events(&self) -> Result<u64, Error> {
        let mut removed = 0;
        for _ in 0..MOST_BATCHES {
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
        for _ in 0..MOST_BATCHES {
            let purged = self.repository.write(|it| it.purge_deleted(&request)).await?;
            removed += purged.len() as u64;
            if purged.len() < usize::from(BATCH.get()) {
                break;
            }
        }
        Ok(removed)
    }
}
