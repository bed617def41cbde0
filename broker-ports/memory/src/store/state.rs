//! Persist: the store's data, and the steps that every transaction shares: add an audit line, add an event, wake
//! subscribers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, ClusterId, Declaration, Error, Event, EventId,
    EventType, NotFound, ProjectId, ProvisionedResource, ProvisionedResourceId, RequestId,
    ResourceId, Snapshot, Version,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::brake::PermitRecord;
use super::shared_config::{SharedConfigKey, SharedConfigRow};
use crate::PortResult;
use crate::hints::Listeners;
use broker_ports::{
    Attribution, AuditEntry, AuditRecord, Brake, Lane, LeaseEpoch, Loss, PortError, RequestHash,
    TraceParent, WorkerId, wire,
};

pub(super) struct State {
    pub(super) reachable: bool,
    /// The time of the current transaction. It never decreases.
    pub(super) now: OffsetDateTime,
    pub(super) rows: BTreeMap<ProvisionedResourceId, Row>,
    pub(super) requests: BTreeMap<(ProjectId, RequestId), ProvisionedResourceId>,
    /// `None` accepts every reference.
    pub(super) references: Option<References>,
    /// By cluster and held Project; the cluster's own brake sorts first.
    pub(super) brakes: BTreeMap<(ClusterId, Option<ProjectId>), Brake>,
    pub(super) permits: BTreeMap<Loss, PermitRecord>,
    /// Events that were neither acknowledged nor skipped, in order per resource.
    pub(super) waiting: BTreeMap<EventKey, Waiting>,
    /// Settled events with the time when they were acknowledged or skipped, oldest first.
    pub(super) settled: VecDeque<(OffsetDateTime, EventId)>,
    pub(super) event_keys: BTreeMap<EventId, EventKey>,
    /// Sequence and trace of each resource's latest event, unless the event was purged.
    pub(super) traces: BTreeMap<ProvisionedResourceId, (u64, Option<TraceParent>)>,
    pub(super) audit: Vec<AuditRecord>,
    pub(super) shared_configs: BTreeMap<SharedConfigKey, SharedConfigRow>,
    pub(super) last_mark: i64,
    /// The turn in which a Project was last served in a lane.
    pub(super) last_served: BTreeMap<(Lane, ProjectId), u64>,
    pub(super) last_turn: u64,
    pub(super) jitter: StdRng,
    pub(super) listeners: Listeners,
    committed_events: u64,
}

/// A resource and its per-resource state.
pub(super) struct Row {
    pub(super) resource: ProvisionedResource,
    pub(super) request: Option<(RequestId, RequestHash)>,
    pub(super) schedule: ScheduleState,
    /// Whether a test made the row unreadable.
    pub(super) corrupt: bool,
}

/// The schedule of a resource.
pub(super) struct ScheduleState {
    pub(super) due_at: Option<OffsetDateTime>,
    /// Whether a pass was requested after the last claim.
    pub(super) pass_requested: bool,
    pub(super) attempts: u32,
    pub(super) last_error: Option<(String, String)>,
    pub(super) paused: bool,
    pub(super) epoch: LeaseEpoch,
    pub(super) lease: Option<(WorkerId, OffsetDateTime)>,
}

/// The resource of an event, and the sequence of the event.
pub(super) type EventKey = (ProvisionedResourceId, u64);

/// An event that waits for delivery.
pub(super) struct Waiting {
    pub(super) event_id: EventId,
    pub(super) event_type: EventType,
    pub(super) occurred_at: OffsetDateTime,
    pub(super) committed_at: OffsetDateTime,
    /// The position among all events ever committed.
    pub(super) position: u64,
    pub(super) payload: Vec<u8>,
    pub(super) traceparent: Option<TraceParent>,
    /// The number of claims on it.
    pub(super) claims: u64,
    /// The number of rejections since it was committed or redriven.
    pub(super) attempts: u32,
    pub(super) claimed_by: Option<WorkerId>,
    /// The end of the event's claim or delay.
    pub(super) held_until: Option<OffsetDateTime>,
    pub(super) dead_letter: Option<String>,
}

/// The entities that declarations may refer to.
#[derive(Default)]
pub(super) struct References {
    projects: BTreeSet<ProjectId>,
    resources: BTreeSet<ResourceId>,
    blueprints: BTreeSet<BlueprintVersionId>,
    credentials: BTreeSet<CloudCredentialId>,
}

impl State {
    pub(super) fn new(now: OffsetDateTime) -> Self {
        Self {
            reachable: true,
            now,
            rows: BTreeMap::new(),
            requests: BTreeMap::new(),
            references: None,
            brakes: BTreeMap::new(),
            permits: BTreeMap::new(),
            waiting: BTreeMap::new(),
            settled: VecDeque::new(),
            event_keys: BTreeMap::new(),
            traces: BTreeMap::new(),
            audit: Vec::new(),
            shared_configs: BTreeMap::new(),
            last_mark: 0,
            last_served: BTreeMap::new(),
            last_turn: 0,
            jitter: StdRng::seed_from_u64(0),
            listeners: Listeners::default(),
            committed_events: 0,
        }
    }

    /// The store's clock plus a duration; saturates at the largest time.
    pub(super) fn after(&self, wait: Duration) -> OffsetDateTime {
        time::Duration::try_from(wait)
            .ok()
            .and_then(|wait| self.now.checked_add(wait))
            .unwrap_or(PrimitiveDateTime::MAX.assume_utc())
    }

    /// The resource to store: the given one, changed at the store's time.
    pub(super) fn stamped(
        &self,
        resource: &ProvisionedResource,
    ) -> Result<ProvisionedResource, Error> {
        let updated_at = self.now.max(resource.created_at());
        ProvisionedResource::hydrate(Snapshot { updated_at, ..resource.snapshot() })
    }

    pub(super) fn append_audit(
        &mut self,
        entry: AuditEntry,
        version: Option<Version>,
        epoch: Option<LeaseEpoch>,
    ) {
        let sequence = self.audit.last().map_or(1, |last| last.sequence + 1);
        self.audit.push(AuditRecord::new(sequence, self.now, version, epoch, entry));
    }

    pub(super) fn check_event(&self, event: Option<&Event>) -> PortResult<()> {
        match event {
            Some(event) if self.event_keys.contains_key(&event.id()) => {
                Err(id_taken("event_id", event.id()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A worker's event joins the trace of the resource's previous event.
    pub(super) fn append_event(
        &mut self,
        event: &Event,
        by: &Attribution,
        epoch: Option<LeaseEpoch>,
    ) {
        self.committed_events += 1;
        let key = (event.provisioned_resource_id(), event.sequence());
        let previous_trace = || epoch.and(self.traces.get(&key.0)?.1.clone());
        let traceparent = by.traceparent.clone().or_else(previous_trace);
        self.traces.insert(key.0, (key.1, traceparent.clone()));
        let waiting = Waiting {
            event_id: event.id(),
            event_type: event.event_type(),
            occurred_at: event.occurred_at(),
            committed_at: self.now,
            position: self.committed_events,
            payload: wire::encode(event),
            traceparent,
            claims: 0,
            attempts: 0,
            claimed_by: None,
            held_until: None,
            dead_letter: None,
        };
        self.event_keys.insert(event.id(), key);
        self.waiting.insert(key, waiting);
    }

    /// Removes a delivered or skipped event from the queue.
    pub(super) fn settle(&mut self, key: EventKey) {
        if let Some(event) = self.waiting.remove(&key) {
            self.settled.push_back((self.now, event.event_id));
        }
    }
}

impl Row {
    /// The resource, unless a test made its row unreadable.
    pub(super) fn read(&self) -> PortResult<ProvisionedResource> {
        if self.corrupt {
            let id = self.resource.id();
            let rule =
                Error::invalid("xr_name", "is corrupt; use a name that the domain generates");
            let message = format!("the row of {id} breaks the domain's rules in xr_name");
            return Err(PortError::rejected(message).with_source(rule));
        }
        Ok(self.resource.clone())
    }

    /// The lane of a resource. Invariant: settled resources have none and are never claimed.
    pub(super) fn lane(&self) -> Option<Lane> {
        if self.resource.is_terminal() {
            return None;
        }
        Some(if self.resource.phase().is_teardown() { Lane::Teardown } else { Lane::Converge })
    }
}

impl ScheduleState {
    /// Due now and never claimed.
    pub(super) const fn due(now: OffsetDateTime) -> Self {
        Self {
            due_at: Some(now),
            pass_requested: false,
            attempts: 0,
            last_error: None,
            paused: false,
            epoch: LeaseEpoch::ZERO,
            lease: None,
        }
    }

    /// Makes it due at once, without failed attempts.
    pub(super) fn reset(&mut self, now: OffsetDateTime) {
        self.due_at = Some(now);
        self.forget_failures();
    }

    pub(super) fn forget_failures(&mut self) {
        self.attempts = 0;
        self.last_error = None;
    }

    /// Makes it due at this time unless it is due sooner. `None` is later than any time.
    pub(super) fn bring_forward(&mut self, due_at: Option<OffsetDateTime>) {
        self.due_at = match (self.due_at, due_at) {
            (Some(stored), Some(requested)) => Some(stored.min(requested)),
            (stored, requested) => stored.or(requested),
        };
    }

    /// Requests a pass at this time; the result of a running pass does not postpone it.
    pub(super) fn request_pass(&mut self, due_at: OffsetDateTime) {
        self.bring_forward(Some(due_at));
        self.pass_requested = true;
    }

    pub(super) fn is_held(&self, now: OffsetDateTime) -> bool {
        self.lease.as_ref().is_some_and(|(_, until)| *until > now)
    }
}

impl References {
    pub(super) fn register(&mut self, declaration: &Declaration) {
        self.projects.insert(declaration.project_id);
        self.resources.insert(declaration.resource_id);
        self.blueprints.insert(declaration.blueprint_version_id);
        self.credentials.insert(declaration.cloud_credential_id);
    }

    pub(super) fn check(&self, resource: &ProvisionedResource) -> Result<(), Error> {
        if !self.projects.contains(&resource.project_id()) {
            return Err(Error::invalid("project_id", "names no existing project"));
        }
        if !self.resources.contains(&resource.resource_id()) {
            return Err(Error::invalid("resource_id", "names no existing resource"));
        }
        if !self.blueprints.contains(&resource.blueprint_version_id()) {
            return Err(resource.blueprint_version_id().not_found());
        }
        if !self.credentials.contains(&resource.cloud_credential_id()) {
            return Err(resource.cloud_credential_id().not_found());
        }
        Ok(())
    }
}

/// The broker generates ids, so a used id is an internal error, not a refusal of the caller.
pub(super) fn id_taken(field: &str, id: impl fmt::Display) -> PortError {
    PortError::rejected("a new id is taken")
        .with_source(Error::invalid(field, format!("{id} is taken; use a new one")))
}
