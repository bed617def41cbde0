//! What an explanation is made from: each fact by itself, known or with the reason why it is not.
//!
//! Nothing here does I/O. `Service` gathers, a test writes down, and the verdict follows from either.

use broker_domain::{ClusterId, ObjectReference, Phase, ProvisionedResource};
use broker_ports::{
    Brake, ClusterEvent, DeadLetter, NamespaceState, ObjectReport, Refusal, ScheduleEntry,
    TokenState,
};
use broker_render::{CompositionName, Digest, SkippedTag};
use time::OffsetDateTime;

use super::budgets::Budgets;
use crate::decide::Mode;

/// A fact, or why it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact<T> {
    /// It was learnt just now.
    Known(T),
    /// It could not be learnt, for this reason.
    Unknown(String),
}

impl<T> Fact<T> {
    /// The fact, if it is known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(fact) => Some(fact),
            Self::Unknown(_) => None,
        }
    }

    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Self::Known(fact) => Fact::Known(change(fact)),
            Self::Unknown(because) => Fact::Unknown(because),
        }
    }
}

/// Everything that is known about one resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Facts {
    /// When all of this was looked at.
    pub now: OffsetDateTime,
    /// Whether replicas change anything.
    pub mode: Mode,
    /// What is called too long.
    pub budgets: Budgets,
    /// The row.
    pub resource: ProvisionedResource,
    /// Its place in the schedule, with the last error.
    pub schedule: Fact<Option<ScheduleEntry>>,
    /// The event of it that was set aside, if one was.
    pub dead_letter: Fact<Option<DeadLetter>>,
    /// Its last changes of phase, newest first.
    pub transitions: Fact<Vec<Transition>>,
    /// What it refers to, in the order in which a pass asks.
    pub references: Vec<(ReferenceKind, Reference)>,
    /// The place of its Project.
    pub assignment: Reference<bool>,
    /// A digest of what would be applied now, or why it cannot be rendered; `None` where nothing would be.
    pub desired: Option<Result<Option<Digest>, String>>,
    /// The Composition of its blueprint; `None` where nothing would be applied.
    pub composition: Option<CompositionName>,
    /// Labels that become no tag.
    pub skipped_tags: Vec<SkippedTag>,
    /// Its token, if it has one.
    pub token: Option<Fact<Option<TokenState>>>,
    /// Whether its Node is registered, if it has a token.
    pub node: Option<Reference<bool>>,
    /// The brake that holds this resource.
    pub brake: Fact<Option<Brake>>,
    /// Composed objects on record of kinds that the blueprint does not list: no generated role lets the broker read
    /// them.
    pub unlisted: Vec<ObjectReference>,
    /// The cluster.
    pub cluster: ClusterFacts,
}

/// What a resource refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReferenceKind {
    /// The blueprint version.
    Blueprint,
    /// The cloud credential.
    Credential,
    /// The cloud.
    Cloud,
    /// The labels that become tags.
    Labels,
}

impl ReferenceKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Blueprint => "blueprint",
            Self::Credential => "credential",
            Self::Cloud => "cloud",
            Self::Labels => "labels",
        }
    }
}

/// Something that another context knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference<T = ()> {
    /// It is there.
    Found(T),
    /// It is not there.
    Missing,
    /// It is there and cannot be read: asking again gives the same.
    Unreadable(String),
    /// Whoever knows does not answer.
    Unanswered(String),
    /// Nobody asked: what it follows from is not known.
    NotAsked,
}

/// What is known of a resource's objects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClusterFacts {
    /// Why nothing could be asked at all.
    pub outage: Option<Outage>,
    /// Which cluster was asked.
    pub identity: Fact<ClusterId>,
    /// The Project's namespace.
    pub namespace: Fact<NamespaceState>,
    /// Whether the kind of the composite resource is installed.
    pub kind_installed: Fact<bool>,
    /// The composite resource's name, where it is known.
    pub xr_reference: Option<ObjectReference>,
    /// The composite resource.
    pub xr: Fact<Option<ObjectReport>>,
    /// The ProviderConfig's name, where it is known.
    pub provider_config_reference: Option<ObjectReference>,
    /// The ProviderConfig.
    pub provider_config: Fact<Option<ObjectReport>>,
    /// What it composed.
    pub composed: Vec<(ObjectReference, Fact<Option<ObjectReport>>)>,
    /// What was said about the composite resource lately, newest first.
    pub events: Fact<Vec<ClusterEvent>>,
}

impl ClusterFacts {
    /// Nothing is known, for a reason.
    pub fn unknown(because: &str) -> Self {
        fn unknown<T>(because: &str) -> Fact<T> {
            Fact::Unknown(because.to_owned())
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

/// Why the cluster could not be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outage {
    /// It did not answer, as opposed to whoever asked not being able to.
    pub silent: bool,
    /// Why it refused, where that was told apart.
    pub refusal: Option<Refusal>,
    /// In words.
    pub message: String,
}

impl Outage {
    /// An outage in words.
    pub const fn new(silent: bool, refusal: Option<Refusal>, message: String) -> Self {
        Self { silent, refusal, message }
    }
}

/// A change of phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transition {
    /// When.
    pub at: OffsetDateTime,
    /// From which phase; `None` for the declaration.
    pub from: Option<Phase>,
    /// Into which.
    pub to: Phase,
}

impl Transition {
    /// A change of phase at a moment.
    pub const fn new(at: OffsetDateTime, from: Option<Phase>, to: Phase) -> Self {
        Self { at, from, to }
    }
}

/// How the last pass failed, read back from the schedule.
pub(super) struct LastError<'a> {
    pub(super) reason: &'a str,
    pub(super) refusal: Option<Refusal>,
    pub(super) message: &'a str,
}

impl Facts {
    /// How the last pass failed, if it did.
    pub(super) fn last_error(&self) -> Option<LastError<'_>> {
        let (reason, message) = self.schedule.known()?.as_ref()?.last_error.as_ref()?;
        let (refusal, message) = match Refusal::led_by(message) {
            Some((refusal, rest)) => (Some(refusal), rest),
            None => (None, message.as_str()),
        };
        Some(LastError { reason, refusal, message })
    }

    /// The schedule, if it is known and has the resource.
    pub(super) fn entry(&self) -> Option<&ScheduleEntry> {
        self.schedule.known()?.as_ref()
    }
}
