//! Emit: claims committed events from the outbox and delivers them to the sink as CloudEvents.
//!
//! # Guarantees
//!
//! At least once, and in order per resource. Events of different resources are delivered concurrently.
//!
//! A claim covers one delivery. The relay claims an event only for a free delivery slot, and the claim outlasts the
//! claim call, the delivery and the acknowledgement together. So no other replica sends the event at the same time.
//!
//! # Failures
//!
//! Only a rejection of the event counts as an attempt. After too many attempts the event becomes a dead letter, and only
//! later events of its resource wait. After any other failure the relay retries without limit. Failures of several
//! resources in a row are an outage: the whole relay backs off and probes with one event at a time.

mod backoff;
mod envelope;
mod log_sink;
mod run;

use std::sync::Arc;
use std::time::Duration;

use broker_ports::{
    Acknowledged, ClaimEvents, ClaimedEvent, DeliveryFailure, EventSink, FailureClass, Outbox,
    PageSize, PortName, Ports, TraceParent,
};
use futures_util::future::join_all;
use time::OffsetDateTime;
use tokio::time::Instant;

pub use log_sink::LogEventSink;

use crate::config::{BrokerConfig, ConfigError};
use crate::deadline::TimedPort;
use crate::error::{Error, error_message};
use crate::sweep::ResourceError;
use crate::telemetry;
use backoff::event_wait;
use envelope::envelope;

/// Delivers events.
#[derive(Clone)]
pub struct Relay {
    outbox: TimedPort<dyn Outbox>,
    sink: TimedPort<dyn EventSink>,
    config: Arc<BrokerConfig>,
}

/// The result of one batch of the relay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayReport {
    /// Delivered and acknowledged.
    pub delivered: usize,
    /// The claim expired before the outcome was stored. Another replica delivers the event, possibly a second time.
    pub lost_claims: usize,
    /// Not delivered because of the receiver: the relay retries without limit.
    pub delayed: usize,
    /// Rejected by the receiver: counts as an attempt, and the relay retries.
    pub rejected: usize,
    /// Dead-lettered after too many rejections.
    pub dead_letter: usize,
    /// The error of the last event that was not delivered.
    pub last_failure: Option<ResourceError>,
}

/// The stored outcome of one delivery.
enum Outcome {
    Delivered,
    ClaimLost,
    Delayed { failure: ResourceError, retry_after: Option<Duration> },
    Rejected(ResourceError),
    DeadLetter(ResourceError),
}

struct ClaimedBatch {
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

    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => self.delivered += 1,
            Outcome::ClaimLost => self.lost_claims += 1,
            Outcome::Delayed { failure, .. } => {
                self.delayed += 1;
                self.last_failure = Some(failure);
            }
            Outcome::Rejected(failure) => {
                self.rejected += 1;
                self.last_failure = Some(failure);
            }
            Outcome::DeadLetter(failure) => {
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
        let outbox = TimedPort::new(ports.outbox, PortName::Outbox, config.deadlines.store);
        let sink = TimedPort::new(ports.sink, PortName::EventSink, config.deadlines.deliver);
        Ok(Self { outbox, sink, config })
    }

    /// Claims one batch of events and delivers it. An event that fails does not stop the others.
    ///
    /// # Errors
    ///
    /// When the outbox does not answer. An event that was not acknowledged is delivered again.
    #[tracing::instrument(name = "broker.relay", skip_all)]
    pub async fn deliver_batch(&self) -> Result<RelayReport, Error> {
        let ClaimedBatch { events, at, .. } = self.claim(self.config.deliveries_at_once).await?;
        let outcomes = join_all(events.iter().map(|event| self.deliver_claimed(event, at))).await;
        let (mut report, mut failed) = (RelayReport::default(), None);
        for outcome in outcomes {
            match outcome {
                Ok(outcome) => report.add(outcome),
                Err(error) => failed = Some(error),
            }
        }
        telemetry::events_delivered(&report);
        failed.map_or(Ok(report), Err)
    }

    /// Records the metrics of the backlog. The age of the oldest event is relative to `now`.
    pub(crate) async fn measure(&self, now: OffsetDateTime) -> Result<(), Error> {
        let backlog = self.outbox.read(Outbox::backlog).await?;
        telemetry::record_backlog(&backlog, now);
        Ok(())
    }

    pub(crate) const fn outbox(&self) -> &TimedPort<dyn Outbox> {
        &self.outbox
    }

    async fn claim(&self, limit: PageSize) -> Result<ClaimedBatch, Error> {
        let at = Instant::now();
        let request = ClaimEvents::new(self.config.worker.clone(), limit, self.config.event_claim);
        let events = self.outbox.write(|it| it.claim_events(&request)).await?;
        Ok(ClaimedBatch { events, limit, at })
    }

    /// The span carries the trace of the request that caused the event.
    #[tracing::instrument(name = "broker.deliver", skip_all, fields(
        resource = %event.resource,
        traceparent = event.traceparent.as_ref().map(TraceParent::as_str),
    ))]
    async fn deliver_claimed(
        &self,
        event: &ClaimedEvent,
        claimed_at: Instant,
    ) -> Result<Outcome, Error> {
        let BrokerConfig { event_claim, deadlines, .. } = &*self.config;
        // Invariant: a claim does not expire while its event is sent. The constructor checks the configured times; this
        // check covers a process that was suspended after its claim.
        if claimed_at.elapsed() + deadlines.deliver + deadlines.store > *event_claim {
            tracing::warn!(resource = %event.resource, "a claim is about to expire: its event is not sent");
            return Ok(Outcome::ClaimLost);
        }
        match self.deliver(event).await {
            Ok(()) => {
                let claim = &event.claim;
                let acknowledged = self.outbox.write(|it| it.acknowledge_event(claim)).await;
                unless_claim_lost(acknowledged, Outcome::Delivered)
            }
            Err(error) => self.record_failure(event, &error).await,
        }
    }

    async fn deliver(&self, event: &ClaimedEvent) -> Result<(), Error> {
        let envelope = envelope(&self.config.event_source, event)?;
        self.sink.write(|it| it.deliver(&envelope)).await
    }

    async fn record_failure(&self, event: &ClaimedEvent, error: &Error) -> Result<Outcome, Error> {
        let (outbox, claim) = (&self.outbox, &event.claim);
        let (failure, retry_after) = (ResourceError::from_error(error), error.retry_after());
        let wait = event_wait(claim.number, retry_after);
        let attempts = event.attempts.saturating_add(u32::from(is_rejection(error)));
        tracing::warn!(
            resource = %event.resource,
            event = %claim.event_id,
            attempts,
            error = error_message(error),
            "an event was not delivered"
        );
        if !is_rejection(error) {
            let unavailable = DeliveryFailure::Unavailable;
            let delayed = outbox.write(|it| it.delay_event(claim, wait, unavailable)).await;
            return unless_claim_lost(delayed, Outcome::Delayed { failure, retry_after });
        }
        if attempts < self.config.event_attempts {
            let rejected = DeliveryFailure::Rejected;
            let delayed = outbox.write(|it| it.delay_event(claim, wait, rejected)).await;
            return unless_claim_lost(delayed, Outcome::Rejected(failure));
        }
        let reason = error_message(error);
        let dead_lettered = outbox.write(|it| it.dead_letter_event(claim, &reason)).await;
        unless_claim_lost(dead_lettered, Outcome::DeadLetter(failure))
    }
}

fn unless_claim_lost(
    acknowledged: Result<Acknowledged, Error>,
    outcome: Outcome,
) -> Result<Outcome, Error> {
    Ok(match acknowledged? {
        Acknowledged::Done => outcome,
        Acknowledged::ClaimLost => Outcome::ClaimLost,
    })
}

/// Whether the receiver rejects this event; any other failure is one of the receiver.
const fn is_rejection(error: &Error) -> bool {
    match error {
        Error::Port { source, .. } => match source.class() {
            FailureClass::Rejected => true,
            FailureClass::Transient | FailureClass::Unknown => false,
        },
        Error::Domain(_) | Error::Platform(_) | Error::LeaseRanOut | Error::Internal(_) => false,
    }
}
