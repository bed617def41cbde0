//! The ports of the Provisioning Broker: one trait for each thing that the broker needs from outside.
//!
//! An embedder wires fifteen ports. The documentation of a port states what the broker relies on; the crate
//! `broker-testkit` has a contract suite that checks it.
//!
//! | stage | ports |
//! |---|---|
//! | declare | [`BlueprintResolver`], [`CloudResolver`], [`CredentialResolver`], [`AssignmentReader`], [`ResourceReader`] |
//! | persist | [`Repository`], [`Schedule`] |
//! | observe | [`Cluster`], [`NodeDeregistrar`] |
//! | act | [`Cluster`], [`TokenIssuer`] |
//! | emit | [`Outbox`], [`EventSink`] |
//! | throughout | [`AuditSink`], [`Clock`], [`IdSource`] |
//!
//! # Results and errors
//!
//! - Absence is an `Option`. A lost race is a value of the result type. Neither is an error.
//! - Every failure is a [`PortError`] of one class: rejected (a retry fails, too), transient (it did not happen) or
//!   unknown (it may have happened). The adapter chooses the class, because only the adapter knows.
//! - The caller sets a deadline for every call (see [`Deadlines`]) and drops the call when it passes. A dropped call
//!   leaves no partial change in the adapter.
//!
//! The crate `broker-memory` has in-memory adapters. The feature `mocks` adds a mockall mock of each port except
//! [`Repository`] and [`Cluster`], whose requests borrow.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod admitted;
mod audit;
mod clock;
mod cluster;
mod config_error;
mod context;
mod deadlines;
mod error;
mod event_sink;
mod lease;
mod node_deregistrar;
mod outbox;
mod refusal;
mod repository;
mod resolvers;
mod schedule;
mod sets;
mod token_issuer;
pub mod wire;

pub use admitted::{Admitted, RequestHash};
pub use audit::{AuditAction, AuditEntry, AuditSink};
pub use clock::{Clock, IdSource};
pub use cluster::{
    Applied, ApplyRequest, Arming, CachedXr, Cluster, ClusterEvent, Condition, ConditionStatus,
    ConfigKind, ConfigPresence, DeleteRequest, Deleted, DryRun, FOREGROUND, Hints, Inspected,
    Inspection, LiveObject, LiveXr, NamespaceState, ObjectOwner, ObjectReport, ObjectVersion,
    OwnedKinds, OwnedObject, OwnedPage, OwnedQuery, OwnedRole, Presence, Reading, ResourceIds,
    SpecState, Target, XrReading, XrStatus, XrTarget, refuse_foreign_write,
};
pub use config_error::ConfigError;
pub use context::{AccessScope, Actor, Attribution, CorrelationId, RequestContext, TraceParent};
pub use deadlines::Deadlines;
pub use error::{FailureClass, PortError, PortName};
pub use event_sink::{Envelope, EventSink};
pub use lease::{Lane, Lease, LeaseEpoch, WorkerId};
pub use node_deregistrar::{
    Consumer, NodeDeregistrar, NodeId, PeerCommander, PeerId, PeerResolver, Retired, TokenReader,
};
pub use outbox::{
    Acknowledged, Backlog, ClaimEvents, ClaimedEvent, DeadLetter, DeliveryFailure, EventClaim,
    EventsOf, Outbox, Redrive, ResourceDeadLetter,
};
pub use refusal::Refusal;
pub use repository::{
    AuditRecord, CompactRow, Created, DeletionMark, ListPage, ListQuery, PageBytes, PageSize,
    PurgeRequest, Replaced, Replacement, Repository, SharedConfig, SharedConfigRef, StoredRequest,
    SweepPage, SweepQuery, UnreadableRow, Watermark, Write, WriteKind, Written,
};
pub use resolvers::{
    ApprovalState, AssignmentReader, BlueprintResolver, BlueprintState, BlueprintVersionView,
    CloudResolver, CloudView, CredentialResolver, CredentialState, CredentialView,
    NamespaceObservation, NamespacePhase, ResourceReader, ResourceView, Withdrawal,
};
pub use schedule::{
    Allowance, Backoff, Brake, BrakeRelease, ClaimRequest, ClaimTarget, Due, Loss, LostObject,
    PassOutcome, Permit, PermitRequest, Released, Schedule, ScheduleEntry, Wakeups,
};
pub use sets::Ports;
pub use token_issuer::{
    BootstrapToken, Issue, IssueRequest, IssuedToken, TokenIssuer, TokenIssuerWrapper, TokenState,
    TtlWindow,
};

/// Feature `mocks`: a mockall mock of each port and seam whose requests do not borrow. A mock does not keep a port's
/// guarantees; the adapters of `broker-memory` do.
#[cfg(feature = "mocks")]
pub mod mocks {
    pub use crate::audit::MockAuditSink;
    pub use crate::clock::{MockClock, MockIdSource};
    pub use crate::event_sink::MockEventSink;
    pub use crate::node_deregistrar::{
        MockNodeDeregistrar, MockPeerCommander, MockPeerResolver, MockTokenReader,
    };
    pub use crate::outbox::MockOutbox;
    pub use crate::resolvers::{
        MockAssignmentReader, MockBlueprintResolver, MockCloudResolver, MockCredentialResolver,
        MockResourceReader,
    };
    pub use crate::schedule::MockSchedule;
    pub use crate::token_issuer::MockTokenIssuer;
}
