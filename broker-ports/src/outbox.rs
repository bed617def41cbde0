//! Emit: events that were committed with their change and wait for their delivery.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{EventId, EventType, ProjectId, ProvisionedResourceId};
use time::OffsetDateTime;

use crate::context::{Attribution, TraceParent};
use crate::error::PortError;
use crate::lease::WorkerId;
use crate::repository::PageSize;

/// Events on their way out.
///
/// An event is stored in the transaction of its change and nowhere else. Delivery is at least once; whoever
/// receives it recognises a second delivery by the event's id.
///
/// # Errors
///
/// As for [`Repository`](crate::Repository).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Claims events for delivery.
    ///
    /// **Guarantees**: of each resource only the earliest event that was not acknowledged, so that its
    /// events arrive in order; no event while another claim on it lives or its delay lasts. Any replica may
    /// claim any event; resources do not wait for each other. A claim is not an attempt: only
    /// [`delay_event`](Self::delay_event) counts one. An event that was set aside is not claimed, and holds
    /// up the later ones of its resource only.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` a claim may have happened: it ends by itself.
    async fn claim_events(&self, request: &ClaimEvents) -> Result<Vec<ClaimedEvent>, PortError>;

    /// Says that an event was delivered. Its resource's next event can be claimed from then on.
    ///
    /// # Errors
    ///
    /// See the trait. After `Unknown` the event may be delivered again.
    async fn acknowledge_event(&self, claim: &EventClaim) -> Result<Acknowledged, PortError>;

    /// Ends a claim whose delivery failed. The event is not claimed before the wait is over, and the later
    /// ones of its resource wait with it. Its attempts rise by one after [`DeliveryFailure::Rejected`], and not
    /// otherwise.
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

    /// Sets an event aside after too many attempts, with the last failure in words.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn dead_letter_event(
        &self,
        claim: &EventClaim,
        reason: &str,
    ) -> Result<Acknowledged, PortError>;

    /// Takes up a resource's event that was set aside: delivers it again, or skips it. With an audit line,
    /// `events_resumed` or `events_skipped`. Answers what there was to take up; if nothing was set aside,
    /// nothing changes and there is no line.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn redrive_events(
        &self,
        id: ProvisionedResourceId,
        how: Redrive,
        by: &Attribution,
    ) -> Result<Option<DeadLetter>, PortError>;

    /// Removes events that were acknowledged or skipped longer ago than the retention, at most as many as the
    /// limit; answers how many.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn purge_events(&self, retention: Duration, limit: PageSize) -> Result<u64, PortError>;

    /// How much is waiting.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn backlog(&self) -> Result<Backlog, PortError>;

    /// Events that were set aside, in the order of their resources, at most as many as the limit. A resource
    /// has one at the most, for its later events wait for it. Nothing changes.
    ///
    /// **Implementer**: one query, however many there are.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn dead_letter_events(
        &self,
        of: EventsOf,
        limit: PageSize,
    ) -> Result<Vec<ResourceDeadLetter>, PortError>;
}

/// Whose events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsOf {
    /// Those of every resource.
    All,
    /// Those of a Project's resources.
    Project(ProjectId),
    /// Those of one resource.
    Resource(ProvisionedResourceId),
}

/// How a delivery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFailure {
    /// The receiver rejected this event. That counts as an attempt.
    Rejected,
    /// Anything else: no connection, no answer, a receiver in trouble. The same event may be taken later.
    Unavailable,
}

/// What a relay asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimEvents {
    /// Who asks.
    pub worker: WorkerId,
    /// How many at the most.
    pub limit: PageSize,
    /// For how long: no shorter than the claim's own answer, one delivery and its acknowledgement may take.
    pub claim_for: Duration,
}

impl ClaimEvents {
    /// A relay's request for events, and for how long it wants to hold them.
    pub const fn new(worker: WorkerId, limit: PageSize, claim_for: Duration) -> Self {
        Self { worker, limit, claim_for }
    }
}

/// The right to deliver one event, for a while.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EventClaim {
    /// The event.
    pub event_id: EventId,
    /// Who claimed it.
    pub worker: WorkerId,
    /// Which claim on the event this is, ever. It tells this claim from an earlier one of the same worker, and
    /// so it does not begin again when the event is taken up, as attempts do.
    pub number: u64,
}

impl EventClaim {
    /// A worker's claim on an event, of this number.
    pub const fn new(event_id: EventId, worker: WorkerId, number: u64) -> Self {
        Self { event_id, worker, number }
    }
}

/// An event to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedEvent {
    /// The right to deliver it.
    pub claim: EventClaim,
    /// How often the receiver rejected it since it was committed or resumed.
    pub attempts: u32,
    /// Its resource.
    pub resource: ProvisionedResourceId,
    /// Its place among the resource's events.
    pub sequence: u64,
    /// Its discriminator.
    pub event_type: EventType,
    /// When the change was made.
    pub occurred_at: OffsetDateTime,
    /// The bytes that [`wire`](crate::wire) wrote when it was committed.
    pub payload: Vec<u8>,
    /// The trace of the request that made the change. If a worker made it: the trace of the resource's event before it,
    /// unless that event was purged.
    pub traceparent: Option<TraceParent>,
}

impl ClaimedEvent {
    /// An event in no trace, with the right to deliver it, after so many rejections.
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

    /// In a trace.
    #[must_use]
    pub fn in_trace(self, traceparent: Option<TraceParent>) -> Self {
        Self { traceparent, ..self }
    }
}

/// Whether a claim was still good for what was done under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledged {
    /// Taken.
    Done,
    /// The claim is not the event's last one any more, or the event was acknowledged, delayed, set aside or
    /// resumed since. Nothing changed. That its time is over does not lose a claim as long as no other relay has one:
    /// a late acknowledgement saves a second delivery.
    ClaimLost,
}

/// What to do with an event that was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redrive {
    /// Deliver it again, with fresh attempts.
    Retry,
    /// Never deliver it; go on with the resource's next one.
    Skip,
}

/// An event that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The event.
    pub event_id: EventId,
    /// Its discriminator.
    pub event_type: EventType,
    /// The last failure in words.
    pub reason: String,
}

impl DeadLetter {
    /// An event and the last failure in words.
    pub fn new(event_id: EventId, event_type: EventType, reason: impl Into<String>) -> Self {
        Self { event_id, event_type, reason: reason.into() }
    }
}

/// Whose event was set aside.
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

/// How much waits in the outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backlog {
    /// Events that were not acknowledged, those set aside included.
    pub depth: u64,
    /// Of these, how many were set aside.
    pub dead_letter: u64,
    /// When the oldest of them was committed.
    pub oldest: Option<OffsetDateTime>,
}

impl Backlog {
    /// So many events wait, the oldest of them since then, and none was set aside.
    pub const fn new(depth: u64, oldest: Option<OffsetDateTime>) -> Self {
        Self { depth, dead_letter: 0, oldest }
    }

    /// So many of them were set aside.
    #[must_use]
    pub const fn with_dead_letter(mut self, dead_letter: u64) -> Self {
        self.dead_letter = dead_letter;
        self
    }
}
