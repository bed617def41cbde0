//! Emit: takes committed events out of the outbox and hands them to the sink, in CloudEvents envelopes.
//!
//! # Guarantees
//!
//! At least once, and in order per resource. Events of different resources are delivered concurrently.
//!
//! A claim covers one delivery: an event is claimed only for a free delivery slot, and the claim lasts longer than the
//! claim's answer, the delivery and its acknowledgement may take together. So no other replica sends an event
//! while this one delivers it.
//!
//! # Failures
//!
//! Only a rejection of the event itself counts as an attempt; after too many the event is set aside and holds up
//! its resource only. Every other failure delays the resource's events, however long it takes. Failures of several
//! resources in a row are an outage: the whole relay waits, and probes with one event at a time.

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

/// What one round of the relay did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayReport {
    /// Delivered and acknowledged.
    pub delivered: usize,
    /// The claim was over before the outcome could be stored: another replica delivers the event, possibly again.
    pub lost_claims: usize,
    /// Not delivered, and not because of the event: it waits.
    pub delayed: usize,
    /// Rejected by the receiver: one more attempt, and the event waits.
    pub rejected: usize,
    /// Rejected too often.
    pub dead_letter: usize,
    /// Why the last one that was not delivered was not.
    pub last_failure: Option<ResourceError>,
}

/// What became of one claimed event.
enum Settled {
    Delivered,
    ClaimLost,
    Delayed { trouble: ResourceError, asked_for: Option<Duration> },
    Rejected(ResourceError),
    DeadLetter(ResourceError),
}

/// Events under a claim.
struct Claimed {
    events: Vec<ClaimedEvent>,
    /// How many were asked for.
    limit: PageSize,
    /// When the claim was sent, which is before the store began to count its time.
    at: Instant,
}

impl RelayReport {
    /// There was something to do.
    pub const fn was_busy(&self) -> bool {
        self.delivered + self.lost_claims + self.delayed + self.rejected + self.dead_letter > 0
    }

    fn add(&mut self, settled: Settled) {
        match settled {
            Settled::Delivered => self.delivered += 1,
            Settled::ClaimLost => self.lost_claims += 1,
            Settled::Delayed { trouble, .. } => {
                self.delayed += 1;
                self.last_failure = Some(trouble);
            }
            Settled::Rejected(trouble) => {
                self.rejected += 1;
                self.last_failure = Some(trouble);
            }
            Settled::DeadLetter(trouble) => {
                self.dead_letter += 1;
                self.last_failure = Some(trouble);
            }
        }
    }
}

impl Relay {
    /// A relay over its ports.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the configuration cannot work: a claim could end while its event is being delivered.
    pub fn new(ports: Ports, config: impl Into<Arc<BrokerConfig>>) -> Result<Self, ConfigError> {
        let config = config.into();
        config.validate()?;
        let outbox = Timed::new(ports.outbox, PortName::Outbox, config.deadlines.store);
        let sink = Timed::new(ports.sink, PortName::EventSink, config.deadlines.deliver);
        Ok(Self { outbox, sink, config })
    }

    /// Claims as many events as are delivered at once, and delivers them. One event that fails does not stop the
    /// others.
    ///
    /// # Errors
    ///
    /// When the outbox does not answer. What was delivered and not acknowledged is delivered again.
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

    /// Measures how much waits. `now` is the moment that the oldest event's age is taken at.
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

    /// Delivers one event and stores what became of it.
    async fn settle(&self, event: &ClaimedEvent, claimed_at: Instant) -> Result<Settled, Error> {
        let BrokerConfig { event_claim, deadlines, .. } = &*self.config;
        // Invariant: nothing is sent under a claim that can end meanwhile. The constructor sees to that, unless this
        // process stood still after the store answered.
        if claimed_at.elapsed() + deadlines.deliver + deadlines.store > *event_claim {
            tracing::warn!(resource = %event.resource, "a claim is almost over: its event is not sent");
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
        let (trouble, asked_for) = (ResourceError::of(error), error.retry_after());
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
            return stored(delayed, Settled::Delayed { trouble, asked_for });
        }
        if attempts < self.config.event_attempts {
            let rejected = DeliveryFailure::Rejected;
            let delayed = outbox.write(|it| it.delay_event(claim, wait, rejected)).await;
            return stored(delayed, Settled::Rejected(trouble));
        }
        let reason = in_words(error);
        let aside = outbox.write(|it| it.dead_letter_event(claim, &reason)).await;
        stored(aside, Settled::DeadLetter(trouble))
    }
}

/// What an event is, once that is stored.
fn stored(answer: Result<Acknowledged, Error>, settled: Settled) -> Result<Settled, Error> {
    Ok(match answer? {
        Acknowledged::Done => settled,
        Acknowledged::ClaimLost => Settled::ClaimLost,
    })
}

/// The receiver refuses this event. Everything else is about the receiver.
const fn is_rejection(error: &Error) -> bool {
    match error {
        Error::Port { source, .. } => match source.class() {
            FailureClass::Rejected => true,
            FailureClass::Transient | FailureClass::Unknown => false,
        },
        Error::Domain(_) | Error::LeaseRanOut => false,
    }
}
