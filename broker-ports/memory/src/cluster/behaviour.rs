//! Observe: scripts for the simulation. A script defines which objects a Composition composes and how they develop.

use broker_render::catalog::ComposedKind;

/// The behaviour of one composite resource, or of all composite resources of a kind. Times are in ticks.
///
/// ```
/// use broker_memory::Behaviour;
///
/// let successful = Behaviour::ready_after(2);
/// let failing = Behaviour::failing_after(1, "no such machine type").composing(3);
/// let slow_teardown = Behaviour::ready_after(0).finalizing_after(5);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Behaviour {
    pub(super) outcome: Outcome,
    pub(super) composed: Vec<ComposedKind>,
    /// The names of the composed objects in the Composition. Objects without a name are numbered.
    pub(super) object_names: Vec<String>,
    pub(super) finalize_after: u64,
    /// A terminal failure that the Composition declares, whatever the state of the composed objects.
    pub(super) declared_failure: Option<String>,
    pub(super) needs_provider_config: bool,
}

/// The outcome of the composed objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All are ready after this many ticks.
    Ready { after: u64 },
    /// They become ready one after another, this many ticks apart.
    OneByOne { step: u64 },
    /// Nothing is ever ready, without a reason.
    Never,
    /// Ready after some ticks, then alternating without end.
    Flapping { after: u64, up: u64, down: u64 },
    /// The Composition declares a terminal failure after some ticks.
    Failing { after: u64, message: String },
    /// A function of the Composition fails; nothing is composed.
    Unsynced { message: String },
    /// The provider fails and reports it on the composed object.
    Stuck { message: String },
}

impl Behaviour {
    fn new(outcome: Outcome) -> Self {
        let nop = ComposedKind {
            api_version: "nop.crossplane.io/v1alpha1".to_owned(),
            kind: "NopResource".to_owned(),
        };
        Self {
            outcome,
            composed: vec![nop],
            object_names: Vec::new(),
            finalize_after: 1,
            declared_failure: None,
            needs_provider_config: false,
        }
    }

    /// All composed objects are ready this many ticks after their creation.
    pub fn ready_after(ticks: u64) -> Self {
        Self::new(Outcome::Ready { after: ticks })
    }

    /// The composed objects become ready one after another, this many ticks apart.
    pub fn one_by_one(ticks: u64) -> Self {
        Self::new(Outcome::OneByOne { step: ticks })
    }

    /// Nothing is ever ready.
    pub fn never_ready() -> Self {
        Self::new(Outcome::Never)
    }

    /// Ready after some ticks for `up` ticks, then unready for `down` ticks, repeatedly.
    pub fn flapping(after: u64, up: u64, down: u64) -> Self {
        Self::new(Outcome::Flapping { after, up: up.max(1), down: down.max(1) })
    }

    /// The Composition sets `ProvisioningFailed` after some ticks.
    pub fn failing_after(ticks: u64, message: impl Into<String>) -> Self {
        Self::new(Outcome::Failing { after: ticks, message: message.into() })
    }

    /// A function of the Composition fails with this message.
    pub fn unsynced(message: impl Into<String>) -> Self {
        Self::new(Outcome::Unsynced { message: message.into() })
    }

    /// The provider reports this error on the composed objects, which never become ready.
    pub fn stuck(message: impl Into<String>) -> Self {
        Self::new(Outcome::Stuck { message: message.into() })
    }

    /// Composes this many objects of the default kind.
    pub fn composing(mut self, count: usize) -> Self {
        if let Some(kind) = self.composed.first().cloned() {
            self.composed = vec![kind; count];
        }
        self
    }

    /// Composes one object of each of these kinds.
    pub fn composing_kinds(mut self, kinds: impl IntoIterator<Item = ComposedKind>) -> Self {
        self.composed = kinds.into_iter().collect();
        self
    }

    /// Names the composed objects, in order, as a Composition does.
    pub fn with_object_names<T: Into<String>>(
        mut self,
        object_names: impl IntoIterator<Item = T>,
    ) -> Self {
        self.object_names = object_names.into_iter().map(Into::into).collect();
        self
    }

    /// The name of the composed object at a position.
    pub(super) fn object_name(&self, position: usize) -> String {
        self.object_names.get(position).cloned().unwrap_or_else(|| format!("resource-{position}"))
    }

    /// The provider needs this many ticks to delete an object.
    pub const fn finalizing_after(mut self, ticks: u64) -> Self {
        self.finalize_after = ticks;
        self
    }

    /// The Composition declares a terminal failure at once, whatever the state of the composed objects.
    pub fn declaring_failure(mut self, message: impl Into<String>) -> Self {
        self.declared_failure = Some(message.into());
        self
    }

    /// The provider can neither create nor delete anything without the resource's ProviderConfig.
    pub const fn needing_provider_config(mut self) -> Self {
        self.needs_provider_config = true;
        self
    }
}

impl Outcome {
    /// Whether the composed object at a position is ready at an age.
    pub(super) const fn ready(&self, position: u64, age: u64) -> bool {
        match self {
            Self::Ready { after } => age >= *after,
            Self::OneByOne { step } => age >= *step * (position + 1),
            Self::Flapping { after, up, down } => {
                age >= *after && (age - *after) % (*up + *down) < *up
            }
            Self::Never | Self::Failing { .. } | Self::Unsynced { .. } | Self::Stuck { .. } => {
                false
            }
        }
    }

    /// The provider's error, which prevents the creation.
    pub(super) fn provider_error(&self) -> Option<&str> {
        if let Self::Stuck { message } = self { Some(message) } else { None }
    }

    /// Whether a tick alone will still change the composed object at a position.
    pub(super) const fn is_pending(&self, position: u64, age: u64) -> bool {
        match self {
            Self::Ready { .. } | Self::OneByOne { .. } => !self.ready(position, age),
            Self::Failing { after, .. } => age < *after,
            Self::Flapping { .. } => true,
            Self::Never | Self::Unsynced { .. } | Self::Stuck { .. } => false,
        }
    }
}
