//! The delivery loop of the relay: it claims an event for each free slot until it is dropped.

use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_ports::PageSize;
use futures_util::StreamExt;
use futures_util::future::{Fuse, FusedFuture, FutureExt};
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};

use super::backoff::ReceiverOutage;
use super::{Claimed, Relay, RelayReport, Settled};
use crate::error::{Error, in_words};
use crate::telemetry;

impl Relay {
    /// Delivers until it is dropped. `poll` is the time between two claims of an empty outbox. `on_result` is called
    /// after every claim and every delivery.
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
                Some((resource, settled)) = deliveries.next() => {
                    let now = Instant::now();
                    next_claim = match note(&mut outage, resource, &settled) {
                        Next::AtOnce => now,
                        Next::AsPlanned => next_claim,
                        Next::After(wait) => next_claim.max(now + wait),
                    };
                    report(settled, &on_result);
                }
                claimed = &mut claim, if !claim.is_terminated() => {
                    let now = Instant::now();
                    let Claimed { events, limit, at } = match claimed {
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
                    next_claim = now + if more { outage.probed().unwrap_or_default() } else { poll };
                    deliveries.extend(events.into_iter().map(|event| async move {
                        (event.resource, self.settle(&event, at).await)
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
    fn free_slots(&self, under_way: usize, outage: &ReceiverOutage) -> Option<PageSize> {
        let under_way = u16::try_from(under_way).unwrap_or(u16::MAX);
        let free = self.config.deliveries_at_once.get().saturating_sub(under_way);
        PageSize::new(if outage.is_on() { free.min(1) } else { free }).ok()
    }
}

enum Next {
    AtOnce,
    AsPlanned,
    After(Duration),
}

fn note(
    outage: &mut ReceiverOutage,
    resource: ProvisionedResourceId,
    settled: &Result<Settled, Error>,
) -> Next {
    match settled {
        Ok(Settled::Delivered) => {
            outage.answered();
            // The resource's next event is available now.
            return Next::AtOnce;
        }
        Ok(Settled::Rejected(_) | Settled::DeadLetter(_)) => outage.answered(),
        Ok(Settled::Delayed { asked_for, .. }) => outage.failed(resource, *asked_for),
        Ok(Settled::ClaimLost) | Err(_) => {}
    }
    outage.wait().map_or(Next::AsPlanned, Next::After)
}

fn report(settled: Result<Settled, Error>, on_result: &impl Fn(&Result<RelayReport, Error>)) {
    let report = settled.map(|settled| {
        let mut report = RelayReport::default();
        report.add(settled);
        telemetry::relayed(&report);
        report
    });
    if let Err(error) = &report {
        tracing::warn!(error = in_words(error), "events could not be relayed");
    }
    on_result(&report);
}
