//! The input of an explanation: each fact is known, or has the reason why it is unknown.

use broker_domain::{ClusterId, ObjectReference, Phase, ProvisionedResource};
use broker_ports::{
    BlueprintState, Brake, ClusterEvent, DeadLetter, NamespacePhase, NamespaceState, ObjectReport,
    Refusal, ScheduleEntry, TokenState, Withdrawal,
};
use broker_render::{CompositionName, Digest, SkippedTag};
use time::OffsetDateTime;

use super::budgets::Budgets;
use crate::decide::Mode;

/// A fact, or the reason why it is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gathered<T> {
    /// It was just read.
    Known(T),
    /// It could not be read, for this reason.
    Unknown(String),
}

impl<T> Gathered<T> {
    /// The fact, if it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(fact) => Some(fact),
            Self::Unknown(_) => None,
        }
    }

    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Gathered<U> {
        match self {
            Self::Known(fact) => Gathered::Known(change(fact)),
            Self::Unknown(because) => Gathered::Unknown(because),
        }
    }
}

/// Everything that is known about one resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExplainInput {
    /// When the facts were gathered.
    pub now: OffsetDateTime,
    /// Whether the replicas change anything.
    pub mode: Mode,
    /// The time budgets.
    pub budgets: Budgets,
    /// The row.
    pub resource: ProvisionedResource,
    /// Its schedule entry, with the last error.
    pub schedule: Gathered<Option<ScheduleEntry>>,
    /// Its dead-lettered event, if any.
    pub dead_letter: Gathered<Option<DeadLetter>>,
    /// Its last phase changes, newest first.
    pub transitions: Gathered<Vec<Transition>>,
    /// When and why the control plane last refused the agent of its current token.
    pub enrolment_refusal: Option<(OffsetDateTime, String)>,
    /// Its references, in the order in which a pass resolves them.
    pub references: Vec<(ReferenceKind, Reference)>,
    /// Why nothing more may be created with its credential, if it was withdrawn; `None` in a teardown.
    pub withdrawal: Option<Gathered<Option<Withdrawal>>>,
    /// The state of its blueprint version; `None` in a teardown.
    pub blueprint_state: Option<Gathered<BlueprintState>>,
    /// The phase of the namespace of its Project.
    pub assignment: Reference<NamespacePhase>,
    /// The digest of what a pass would apply now, or the rendering error; `None` if a pass applies nothing.
    pub desired: Option<Result<Option<Digest>, String>>,
    /// The Composition of its blueprint; `None` if a pass applies nothing.
    pub composition: Option<CompositionName>,
    /// Labels that cannot become tags.
    pub skipped_tags: Vec<SkippedTag>,
    /// Its token, if it has one.
    pub token: Option<Gathered<Option<TokenState>>>,
    /// Whether its Node is registered, if it has a token.
    pub node: Option<Reference<bool>>,
    /// The brake that holds this resource.
    pub brake: Gathered<Option<Brake>>,
    /// Composed objects on record whose kind the blueprint does not list. No generated role lets the broker read
    /// them.
    pub unlisted: Vec<ObjectReference>,
    /// The shared ProviderConfig, if it is being deleted and the resource waits.
    pub leaving_config: Gathered<Option<ObjectReference>>,
    /// The facts of the cluster.
    pub cluster: ClusterFacts,
}

/// The kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReferenceKind {
    /// The blueprint version.
    Blueprint,
    /// The cloud credential.
    Credential,
    /// The cloud.
    Cloud,
    /// The Resource, with its handle and the labels that become tags.
    Resource,
}

impl ReferenceKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Blueprint => "blueprint",
            Self::Credential => "credential",
            Self::Cloud => "cloud",
            Self::Resource => "resource",
        }
    }
}

/// The result of resolving a reference in another context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference<T = ()> {
    /// It exists.
    Found(T),
    /// It does not exist.
    Missing,
    /// It exists but cannot be read; a retry gives the same result.
    Unreadable(String),
    /// The other context does not answer.
    Unanswered(String),
    /// It was not queried, because an earlier fact is unknown.
    NotQueried,
}

/// The facts about a resource's objects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClusterFacts {
    /// Why no request to the cluster succeeded.
    pub outage: Option<Outage>,
    /// The cluster that was read.
    pub identity: Gathered<ClusterId>,
    /// The Project's namespace.
    pub namespace: Gathered<NamespaceState>,
    /// Whether the kind of the composite resource is installed.
    pub kind_installed: Gathered<bool>,
    /// The composite resource's name, if known.
    pub xr_reference: Option<ObjectReference>,
    /// The composite resource.
    pub xr: Gathered<Option<ObjectReport>>,
    /// The ProviderConfig's name, if known.
    pub provider_config_reference: Option<ObjectReference>,
    /// The ProviderConfig.
    pub provider_config: Gathered<Option<ObjectReport>>,
    /// The composed objects.
    pub composed: Vec<(ObjectReference, Gathered<Option<ObjectReport>>)>,
    /// Recent events of the composite resource, newest first.
    pub events: Gathered<Vec<ClusterEvent>>,
}

impl ClusterFacts {
    /// All facts unknown, for one reason.
    pub fn unknown(because: &str) -> Self {
        fn unknown<T>(because: &str) -> Gathered<T> {
            Gathered::Unknown(because.to_owned())
        }
        Self {
            outage: None,
            identity: unknown(because),
            namespace: unknown(because),
            kind_installed: unknown(because),
            xr_reference: None,
            xr: unknown(because),
            provider_config_reference: None,
            provider_config: unknown(because),
            composed: Vec::new(),
            events: unknown(because),
        }
    }
}

/// Why the cluster could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// The cluster does not answer; `false` if this process could not send the request.
    pub silent: bool,
    /// The kind of refusal, if known.
    pub refusal: Option<Refusal>,
    /// The message for people.
    pub message: String,
}

impl Outage {
    /// Creates an outage.
    pub const fn new(silent: bool, refusal: Option<Refusal>, message: String) -> Self {
        Self { silent, refusal, message }
    }
}

/// A phase change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transition {
    /// When it happened.
    pub at: OffsetDateTime,
    /// The phase before; `None` for the declaration.
    pub from: Option<Phase>,
    /// The phase after.
    pub to: Phase,
}

impl Transition {
    /// Creates a phase change.
    pub const fn new(at: OffsetDateTime, from: Option<Phase>, to: Phase) -> Self {
        Self { at, from, to }
    }
}

/// The failure of the last pass, parsed from the schedule.
pub(super) struct LastError<'a> {
    pub(super) reason: &'a str,
    pub(super) refusal: Option<Refusal>,
    pub(super) message: &'a str,
}

impl ExplainInput {
    pub(super) fn last_error(&self) -> Option<LastError<'_>> {
        let (reason, message) = self.schedule.known()?.as_ref()?.last_error.as_ref()?;
        let (refusal, message) = match Refusal::parse_prefix(message) {
            Some((refusal, rest)) => (Some(refusal), rest),
            None => (None, message.as_str()),
        };
        Some(LastError { reason, refusal, message })
    }

    /// The schedule entry, if known.
    pub(super) fn entry(&self) -> Option<&ScheduleEntry> {
        self.schedule.known()?.as_ref()
    }
}
