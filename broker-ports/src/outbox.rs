//! Emit: events that were committed with their change and wait for delivery.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{EventId, EventType, ProjectId, ProvisionedResourceId};
use time::OffsetDateTime;

use crate::context::{Attribution, TraceParent};
use crate::error::PortError;
use crate::lease::WorkerId;
use crate::repository::PageSize;

/// Stores events until a relay has delivered them.
///
/// An event is stored only in the transaction of its change. Delivery is at least once; receivers deduplicate by the
/// event's id.
///
/// # Errors
///
/// As for [`Repository`](crate::Repository).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Claims events for delivery.
    ///
    /// **Guarantees**:
    ///
    /// - Of each resource, only the earliest unacknowledged event is claimable, so that its events arrive in order.
    /// - No event is claimable during another claim on it or during its delay.
    /// - Any replica may claim any event. Resources do not wait for each other.
    /// - A claim is not an attempt; only [`delay_event`](Self::delay_event) counts one.
    /// - A dead-lettered event is not claimable. It blocks later events of its resource only.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` the claim may exist; it expires.
    async fn claim_events(&self, request: &ClaimEvents) -> Result<Vec<ClaimedEvent>, PortError>;

    /// Records a delivery. The resource's next event is claimable from then on. Repeated, it returns
    /// [`Acknowledged::ClaimLost`] and changes nothing.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` the event may be delivered again.
    async fn acknowledge_event(&self, claim: &EventClaim) -> Result<Acknowledged, PortError>;

    /// Ends a claim after a failed delivery. The event and the later ones of its resource are not claimable until the
    /// wait is over. Only [`DeliveryFailure::Rejected`] counts as an attempt.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn delay_event(
        &self,
        claim: &EventClaim,
        wait: Duration,
        failure: DeliveryFailure,
    ) -> Result<Acknowledged, PortError>;

    /// Dead-letters an event after too many attempts, with its last failure.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn dead_letter_event(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> Result<Acknowledged, PortError>;

    /// Redrives a resource's dead-lettered event: delivers it again or skips it. Writes an audit line, `events_redriven`
    /// or `events_skipped`. Returns that event. Without one it returns `None` and writes nothing.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn redrive_events(
        &self,
        id: ProvisionedResourceId,
        redrive: Redrive,
        attribution: &Attribution,
    ) -> Result<Option<DeadLetter>, PortError>;

    /// Removes at most `limit` events that were acknowledged or skipped longer ago than the retention, and returns
    /// their number. Safe to repeat.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn purge_events(&self, retention: Duration, limit: PageSize) -> Result<u64, PortError>;

    /// The size and age of the backlog.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn backlog(&self) -> Result<Backlog, PortError>;

    /// At most `limit` dead-lettered events, ordered by resource. A resource has at most one, because its later events
    /// wait for it. Read-only.
    ///
    /// **Implementer**: uses one query for any number of events.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn dead_letter_events(
        &self,
        filter: EventsOf,
        limit: PageSize,
    ) -> Result<Vec<ResourceDeadLetter>, PortError>;
}

/// Selects events by resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsOf {
    /// All resources.
    All,
    /// The resources of a Project.
    Project(ProjectId),
    /// One resource.
    Resource(ProvisionedResourceId),
}

/// How a delivery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFailure {
    /// The receiver rejected this event. Counts as an attempt.
    Rejected,
    /// Any other failure: no connection, no response, an unhealthy receiver. A retry may succeed.
    Unavailable,
}

/// A relay's request for events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimEvents {
    /// The relay.
    pub worker: WorkerId,
    /// The maximum number of events.
    pub limit: PageSize,
    /// The claim's duration: at least the deadlines of the claim call, one delivery and its acknowledgement together.
    pub claim_for: Duration,
}

impl ClaimEvents {
    /// A relay's request for at most `limit` events.
    pub const fn new(worker: WorkerId, limit: PageSize, claim_for: Duration) -> Self {
        Self { worker, limit, claim_for }
    }
}

/// The exclusive right to deliver one event until a deadline.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EventClaim {
    /// The event.
    pub event_id: EventId,
    /// The holder.
    pub worker: WorkerId,
    /// The number of this claim among all claims on the event. It distinguishes claims of one worker. A redrive resets
    /// the attempts but not this number.
    pub number: u64,
}

impl EventClaim {
    /// Claim `number` of a worker on an event.
    pub const fn new(event_id: EventId, worker: WorkerId, number: u64) -> Self {
        Self { event_id, worker, number }
    }
}

/// An event to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedEvent {
    /// The claim.
    pub claim: EventClaim,
    /// How often the receiver rejected it since it was committed or redriven.
    pub attempts: u32,
    /// Its resource.
    pub resource: ProvisionedResourceId,
    /// Its position among the resource's events.
    pub sequence: u64,
    /// Its discriminator.
    pub event_type: EventType,
    /// When the change happened.
    pub occurred_at: OffsetDateTime,
    /// The bytes that [`wire`](crate::wire) encoded at the commit.
    pub payload: Vec<u8>,
    /// The trace of the request that caused the change. For a worker's change: the trace of the resource's previous
    /// event, unless that was purged.
    pub traceparent: Option<TraceParent>,
}

impl ClaimedEvent {
    /// A claimed event without a trace.
    pub const fn new(
        claim: EventClaim,
        attempts: u32,
        resource: ProvisionedResourceId,
        sequence: u64,
        event_type: EventType,
        occurred_at: OffsetDateTime,
        payload: Vec<u8>,
    ) -> Self {
        Self {
            claim,
            attempts,
            resource,
            sequence,
            event_type,
            occurred_at,
            payload,
            traceparent: None,
        }
    }

    /// Sets the trace.
    #[must_use]
    pub fn in_trace(self, traceparent: Option<TraceParent>) -> Self {
        Self { traceparent, ..self }
    }
}

/// The result of an operation on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// The operation was applied.
    Done,
    /// A later claim exists, or the event was acknowledged, delayed, dead-lettered or redriven meanwhile. Nothing
    /// changed. An expired claim stays valid until another relay claims the event: a late acknowledgement saves a
    /// second delivery.
    ClaimLost,
}

/// How to redrive a dead-lettered event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redrive {
    /// Deliver it again, with zero attempts.
    Retry,
    /// Never deliver it; continue with the resource's next event.
    Skip,
}

/// A dead-lettered event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The event.
    pub event_id: EventId,
    /// Its discriminator.
    pub event_type: EventType,
    /// The message of its last failure.
    pub reason: String,
}

impl DeadLetter {
    /// An event and the message of its last failure.
    pub fn new(event_id: EventId, event_type: EventType, reason: impl Into<String>) -> Self {
        Self { event_id, event_type, reason: reason.into() }
    }
}

/// A dead-lettered event and its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceDeadLetter {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its event.
    pub event: DeadLetter,
}

impl ResourceDeadLetter {
    /// A resource and its event.
    pub const fn new(resource: ProvisionedResourceId, event: DeadLetter) -> Self {
        Self { resource, event }
    }
}

/// The unacknowledged events in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Unacknowledged events, including dead-lettered ones.
    pub depth: u64,
    /// Dead-lettered events.
    pub dead_letter: u64,
    /// When the oldest of them was committed.
    pub oldest: Option<OffsetDateTime>,
}

impl Backlog {
    /// A backlog without dead-lettered events.
    pub const fn new(depth: u64, oldest: Option<OffsetDateTime>) -> Self {
        Self { depth, dead_letter: 0, oldest }
    }

    /// Sets the number of dead-lettered events.
    #[must_use]
    pub const fn with_dead_letter(mut self, dead_letter: u64) -> Self {
        self.dead_letter = dead_letter;
        self
    }
}
