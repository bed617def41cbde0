//! The delivery loop of the relay, which claims an event for each free slot.

use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_ports::PageSize;
use futures_util::StreamExt;
use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::backoff::ReceiverOutage;
use super::{ClaimedBatch, Outcome, Relay, RelayReport};
use crate::error::{Error, error_message};
use crate::telemetry;

impl Relay {
    /// Delivers until the future is dropped. `poll` is the time between two claims of an empty outbox. The relay calls
    /// `on_result` after every claim and every delivery.
    ///
    /// A slot is refilled as soon as it is free. A receiver that hangs on one event occupies one slot and delays no
    /// other resource.
    pub(crate) async fn run(
        &self,
        poll: Duration,
        on_result: impl Fn(&Result<RelayReport, Error>) + Send,
    ) {
        let mut outage = ReceiverOutage::default();
        let mut deliveries = FuturesUnordered::new();
        let mut claim = Box::pin(Fuse::terminated());
        let mut next_claim = Instant::now();
        loop {
            let free_slots = self.free_slots(deliveries.len(), &outage);
            tokio::select! {
                biased;
                // Finished deliveries come first: they may start or end an outage.
                Some((resource, outcome)) = deliveries.next() => {
                    let now = Instant::now();
                    next_claim = match record(&mut outage, resource, &outcome) {
                        NextClaim::AtOnce => now,
                        NextClaim::AsPlanned => next_claim,
                        NextClaim::After(wait) => next_claim.max(now + wait),
                    };
                    report(outcome, &on_result);
                }
                claimed = &mut claim, if !claim.is_terminated() => {
                    let now = Instant::now();
                    let ClaimedBatch { events, limit, at } = match claimed {
                        Ok(claimed) => claimed,
                        Err(error) => {
                            next_claim = now + poll;
                            report(Err(error), &on_result);
                            continue;
                        }
                    };
                    on_result(&Ok(RelayReport::default()));
                    let more = events.len() == usize::from(limit.get());
                    // During an outage the probe's outcome sets the time of the next claim.
                    next_claim = now + if more { outage.start_probe().unwrap_or_default() } else { poll };
                    deliveries.extend(events.into_iter().map(|event| async move {
                        (event.resource, self.deliver_claimed(&event, at).await)
                    }));
                }
                () = sleep_until(next_claim), if claim.is_terminated() && free_slots.is_some() => {
                    if let Some(limit) = free_slots {
                        claim.set(self.claim(limit).fuse());
                    }
                }
            }
        }
    }

    /// Free delivery slots; one at most during an outage.
    fn free_slots(&self, running: usize, outage: &ReceiverOutage) -> Option<PageSize> {
        let running = u16::try_from(running).unwrap_or(u16::MAX);
        let free = self.config.deliveries_at_once.get().saturating_sub(running);
        PageSize::new(if outage.is_active() { free.min(1) } else { free }).ok()
    }
}

enum NextClaim {
    AtOnce,
    AsPlanned,
    After(Duration),
}

fn record(
    outage: &mut ReceiverOutage,
    resource: ProvisionedResourceId,
    outcome: &Result<Outcome, Error>,
) -> NextClaim {
    match outcome {
        Ok(Outcome::Delivered) => {
            outage.receiver_answered();
            // Now the resource's next event can be claimed.
            return NextClaim::AtOnce;
        }
        Ok(Outcome::Rejected(_) | Outcome::DeadLetter(_)) => outage.receiver_answered(),
        Ok(Outcome::Delayed { retry_after, .. }) => outage.record_failure(resource, *retry_after),
        Ok(Outcome::ClaimLost) | Err(_) => {}
    }
    outage.wait().map_or(NextClaim::AsPlanned, NextClaim::After)
}

fn report(outcome: Result<Outcome, Error>, on_result: &impl Fn(&Result<RelayReport, Error>)) {
    let report = outcome.map(|outcome| {
        let mut report = RelayReport::default();
        report.add(outcome);
        telemetry::events_delivered(&report);
        report
    });
    if let Err(error) = &report {
        tracing::warn!(error = error_message(error), "events could not be relayed");
    }
    on_result(&report);
}
