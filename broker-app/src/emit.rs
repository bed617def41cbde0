//! Emit: claims committed events from the outbox and delivers them to the sink as CloudEvents.
//!
//! # Guarantees
//!
//! At least once, and in order per resource. Events of different resources are delivered concurrently.
//!
//! A claim covers one delivery. The relay claims an event only for a free delivery slot, and the claim lasts longer
//! than its answer, the delivery and the acknowledgement together. So no other replica sends the event meanwhile.
//!
//! # Failures
//!
//! Only a rejection of the event itself counts as an attempt. After too many attempts the event becomes a dead letter
//! and blocks later events of its resource only. Any other failure delays the resource's events without limit.
//! Failures of several resources in a row are an outage: the whole relay backs off and probes with one event at a
//! time.

mod backoff;
mod envelope;
mod log_sink;
mod run;

use std::sync::Arc;
use std::time::Duration;

use broker_ports::{
    Acknowledged, ClaimEvents, ClaimedEvent, DeliveryFailure, EventSink, FailureClass, Outbox,
    PageSize, PortName, Ports,
};
use futures_util::future::join_all;
use time::OffsetDateTime;
use tokio::time::Instant;

pub use log_sink::LogEventSink;

use crate::config::{BrokerConfig, ConfigError};
use crate::deadline::Timed;
use crate::error::{Error, in_words};
use crate::sweep::ResourceError;
use crate::telemetry;
use backoff::event_wait;
use envelope::envelope;

/// Delivers events.
#[derive(Clone)]
pub struct Relay {
    outbox: Timed<dyn Outbox>,
    sink: Timed<dyn EventSink>,
    config: Arc<BrokerConfig>,
}

/// The result of one batch of the relay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayReport {
    /// Delivered and acknowledged.
    pub delivered: usize,
    /// The claim expired before the outcome was stored: another replica delivers the event, possibly again.
    pub lost_claims: usize,
    /// Not delivered, for a reason other than the event: it waits.
    pub delayed: usize,
    /// Rejected by the receiver: one more attempt, and the event waits.
    pub rejected: usize,
    /// Dead-lettered after too many rejections.
    pub dead_letter: usize,
    /// The error of the last event that was not delivered.
    pub last_failure: Option<ResourceError>,
}

enum Settled {
    Delivered,
    ClaimLost,
    Delayed { failure: ResourceError, asked_for: Option<Duration> },
    Rejected(ResourceError),
    DeadLetter(ResourceError),
}

struct Claimed {
    events: Vec<ClaimedEvent>,
    limit: PageSize,
    /// When the claim was sent, before the store started its timer.
    at: Instant,
}

impl RelayReport {
    /// The batch had at least one event.
    pub const fn was_busy(&self) -> bool {
        self.delivered + self.lost_claims + self.delayed + self.rejected + self.dead_letter > 0
    }

    fn add(&mut self, settled: Settled) {
        match settled {
            Settled::Delivered => self.delivered += 1,
            Settled::ClaimLost => self.lost_claims += 1,
            Settled::Delayed { failure, .. } => {
                self.delayed += 1;
                self.last_failure = Some(failure);
            }
            Settled::Rejected(failure) => {
                self.rejected += 1;
                self.last_failure = Some(failure);
            }
            Settled::DeadLetter(failure) => {
                self.dead_letter += 1;
                self.last_failure = Some(failure);
            }
        }
    }
}

impl Relay {
    /// Creates a relay over its ports.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when a claim could expire during a delivery, or another value is invalid.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        let outbox = Timed::new(ports.outbox, PortName::Outbox, config.deadlines.store);
        let sink = Timed::new(ports.sink, PortName::EventSink, config.deadlines.deliver);
        Ok(Self { outbox, sink, config })
    }

    /// Claims one batch of events and delivers it. An event that fails does not stop the others.
    ///
    /// # Errors
    ///
    /// When the outbox does not answer. An event without an acknowledgement is delivered again.
    #[tracing::instrument(name = "broker.relay", skip_all)]
    pub async fn deliver_batch(&self) -> Result<RelayReport, Error> {
        let Claimed { events, at, .. } = self.claim(self.config.deliveries_at_once).await?;
        let all = join_all(events.iter().map(|event| self.settle(event, at))).await;
        let (mut report, mut failed) = (RelayReport::default(), None);
        for settled in all {
            match settled {
                Ok(settled) => report.add(settled),
                Err(error) => failed = Some(error),
            }
        }
        telemetry::relayed(&report);
        failed.map_or(Ok(report), Err)
    }

    /// Measures the backlog. `now` determines the age of the oldest event.
    pub(crate) async fn measure(&self, now: OffsetDateTime) -> Result<(), Error> {
        let backlog = self.outbox.read(Outbox::backlog).await?;
        telemetry::backlog(&backlog, now);
        Ok(())
    }

    pub(crate) const fn outbox(&self) -> &Timed<dyn Outbox> {
        &self.outbox
    }

    async fn claim(&self, limit: PageSize) -> Result<Claimed, Error> {
        let at = Instant::now();
        let request = ClaimEvents::new(self.config.worker.clone(), limit, self.config.event_claim);
        let events = self.outbox.write(|it| it.claim_events(&request)).await?;
        Ok(Claimed { events, limit, at })
    }

    async fn settle(&self, event: &ClaimedEvent, claimed_at: Instant) -> Result<Settled, Error> {
        let BrokerConfig { event_claim, deadlines, .. } = &*self.config;
        // Invariant: the relay sends nothing under a claim that can expire meanwhile. The constructor checks the
        // configured times; this check covers a process that was suspended after the store's answer.
        if claimed_at.elapsed() + deadlines.deliver + deadlines.store > *event_claim {
            tracing::warn!(resource = %event.resource, "a claim is about to expire: its event is not sent");
            return Ok(Settled::ClaimLost);
        }
        match self.deliver(event).await {
            Ok(()) => {
                let claim = &event.claim;
                let acknowledged = self.outbox.write(|it| it.acknowledge_event(claim)).await;
                stored(acknowledged, Settled::Delivered)
            }
            Err(error) => self.failed(event, &error).await,
        }
    }

    async fn deliver(&self, event: &ClaimedEvent) -> Result<(), Error> {
        let envelope = envelope(&self.config.event_source, event)?;
        self.sink.write(|it| it.deliver(&envelope)).await
    }

    async fn failed(&self, event: &ClaimedEvent, error: &Error) -> Result<Settled, Error> {
        let (outbox, claim) = (&self.outbox, &event.claim);
        let (failure, asked_for) = (ResourceError::of(error), error.retry_after());
        let wait = event_wait(claim.number, asked_for);
        let attempts = event.attempts.saturating_add(u32::from(is_rejection(error)));
        tracing::warn!(
            resource = %event.resource,
            event = %claim.event_id,
            attempts,
            error = in_words(error),
            "an event was not delivered"
        );
        if !is_rejection(error) {
            let unavailable = DeliveryFailure::Unavailable;
            let delayed = outbox.write(|it| it.delay_event(claim, wait, unavailable)).await;
            return stored(delayed, Settled::Delayed { failure, asked_for });
        }
        if attempts < self.config.event_attempts {
            let rejected = DeliveryFailure::Rejected;
            let delayed = outbox.write(|it| it.delay_event(claim, wait, rejected)).await;
            return stored(delayed, Settled::Rejected(failure));
        }
        let reason = in_words(error);
        let dead_lettered = outbox.write(|it| it.dead_letter_event(claim, &reason)).await;
        stored(dead_lettered, Settled::DeadLetter(failure))
    }
}

fn stored(answer: Result<Acknowledged, Error>, settled: Settled) -> Result<Settled, Error> {
    Ok(match answer? {
        Acknowledged::Done => settled,
        Acknowledged::ClaimLost => Settled::ClaimLost,
    })
}

/// The receiver rejects this event. Any other failure concerns the receiver.
const fn is_rejection(error: &Error) -> bool {
    match error {
        Error::Port { source, .. } => match source.class() {
            FailureClass::Rejected => true,
            FailureClass::Transient | FailureClass::Unknown => false,
        },
        Error::Domain(_) | Error::Platform(_) | Error::LeaseRanOut | Error::Internal(_) => false,
    }
}
