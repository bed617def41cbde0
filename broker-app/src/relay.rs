//! Stage 6, emit: takes committed events out of the outbox and hands them to the sink, in CloudEvents envelopes.
//!
//! At least once, and in order per resource. An event that fails stays claimed until its claim is over, so that
//! a sink in trouble is not hammered; after too many attempts it is set aside and holds up its resource only.

mod log_sink;

use std::sync::Arc;
use std::time::Duration;

use broker_ports::{
    Acknowledged, ClaimEvents, ClaimedEvent, Envelope, Outbox, PageSize, PortError, PortName,
    RelayPorts, WorkerId, wire,
};
use cloudevents::{EventBuilder, EventBuilderV10};
use time::OffsetDateTime;

pub use log_sink::LogEventSink;

use crate::call::{Kind, call};
use crate::error::{Error, in_words};
use crate::sweep::Trouble;
use crate::telemetry;

/// Configuration of the relay.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// This replica's name for itself.
    pub worker: WorkerId,
    /// How many events are claimed at a time.
    pub batch: PageSize,
    /// How long a claim lasts: longer than one delivery may take.
    pub claim_for: Duration,
    /// How long the store may take.
    pub store_deadline: Duration,
    /// How long one delivery may take.
    pub deliver_deadline: Duration,
    /// After how many failed attempts an event is set aside.
    pub most_attempts: u32,
    /// What the envelopes name as their source: a URI reference of the embedding service.
    pub source: String,
}

/// Delivers events.
#[derive(Clone)]
pub struct Relay {
    ports: RelayPorts,
    config: RelayConfig,
}

/// What one round of the relay did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayReport {
    /// Delivered and acknowledged.
    pub delivered: usize,
    /// Delivered, but somebody else had claimed it meanwhile: it is delivered twice.
    pub lost_claims: usize,
    /// Not delivered; tried again when the claim is over.
    pub failed: usize,
    /// Not delivered too often.
    pub set_aside: usize,
    /// Why the last one that was not delivered was not.
    pub last_failure: Option<Trouble>,
}

impl RelayReport {
    /// There was something to do.
    pub const fn was_busy(&self) -> bool {
        self.delivered + self.lost_claims + self.failed + self.set_aside > 0
    }
}

impl Relay {
    /// A relay over its ports.
    pub fn new(ports: RelayPorts, config: RelayConfig) -> Self {
        Self { ports, config }
    }

    /// Claims a batch and delivers it. One event that fails does not stop the others.
    ///
    /// # Errors
    ///
    /// When the outbox does not answer. What was delivered and not acknowledged is delivered again.
    #[tracing::instrument(name = "broker.relay", skip_all)]
    pub async fn deliver_batch(&self) -> Result<RelayReport, Error> {
        let RelayConfig { worker, batch, claim_for, .. } = &self.config;
        let request = ClaimEvents::new(worker.clone(), *batch, *claim_for);
        let claimed = self.ports.outbox.claim_events(&request);
        let claimed =
            call(PortName::Outbox, Kind::Write, self.config.store_deadline, claimed).await?;
        let mut report = RelayReport::default();
        for event in &claimed {
            match self.deliver(event).await {
                Ok(()) => self.acknowledge(event, &mut report).await?,
                Err(error) => self.failed(event, &error, &mut report).await?,
            }
        }
        telemetry::relayed(&report);
        Ok(report)
    }

    /// Measures how much waits. `now` is the moment that the oldest event's age is taken at.
    pub(crate) async fn measure(&self, now: OffsetDateTime) -> Result<(), Error> {
        let backlog = self.ports.outbox.backlog();
        let patience = self.config.store_deadline;
        let backlog = call(PortName::Outbox, Kind::Read, patience, backlog).await?;
        telemetry::backlog(&backlog, now);
        Ok(())
    }

    pub(crate) fn outbox(&self) -> Arc<dyn Outbox> {
        Arc::clone(&self.ports.outbox)
    }

    async fn deliver(&self, event: &ClaimedEvent) -> Result<(), Error> {
        let envelope = self.envelope(event)?;
        let delivered = self.ports.sink.deliver(&envelope);
        call(PortName::EventSink, Kind::Write, self.config.deliver_deadline, delivered).await
    }

    async fn acknowledge(
        &self,
        event: &ClaimedEvent,
        report: &mut RelayReport,
    ) -> Result<(), Error> {
        let acknowledged = self.ports.outbox.acknowledge_event(&event.claim);
        let patience = self.config.store_deadline;
        match call(PortName::Outbox, Kind::Write, patience, acknowledged).await? {
            Acknowledged::Done => report.delivered += 1,
            Acknowledged::ClaimLost => report.lost_claims += 1,
        }
        Ok(())
    }

    async fn failed(
        &self,
        event: &ClaimedEvent,
        error: &Error,
        report: &mut RelayReport,
    ) -> Result<(), Error> {
        tracing::warn!(
            resource = %event.resource,
            event = %event.claim.event_id,
            attempt = event.attempt,
            error = in_words(error),
            "an event was not delivered"
        );
        report.last_failure = Some(Trouble::of(error));
        if event.attempt < self.config.most_attempts {
            report.failed += 1;
            return Ok(());
        }
        let reason = in_words(error);
        let set_aside = self.ports.outbox.set_aside_event(&event.claim, &reason);
        let patience = self.config.store_deadline;
        match call(PortName::Outbox, Kind::Write, patience, set_aside).await? {
            Acknowledged::Done => report.set_aside += 1,
            Acknowledged::ClaimLost => report.lost_claims += 1,
        }
        Ok(())
    }

    /// The event in a CloudEvents 1.0 envelope, structured JSON. Its data is what was committed, unchanged.
    fn envelope(&self, event: &ClaimedEvent) -> Result<Envelope, Error> {
        let unfit = |what: &str| {
            let source =
                PortError::rejected(format!("the event's {what} cannot be put into an envelope"));
            Error::Port { port: PortName::EventSink, source }
        };
        let data: serde_json::Value =
            serde_json::from_slice(&event.payload).map_err(|_| unfit("payload"))?;
        let cloud_event = EventBuilderV10::new()
            .id(event.claim.event_id.to_string())
            .source(&self.config.source)
            .ty(event.event_type.as_str())
            .subject(event.resource.to_string())
            .time(wire::rfc3339(event.occurred_at))
            .extension("sequence", event.sequence.to_string())
            .data("application/json", data)
            .build()
            .map_err(|_| unfit("attributes"))?;
        Ok(Envelope::new(
            event.claim.event_id,
            event.event_type,
            event.resource,
            event.sequence,
            serde_json::to_vec(&cloud_event).map_err(|_| unfit("envelope"))?,
        ))
    }
}
