//! What was done, by whom: mandatory, and never a value.

use std::fmt;

use async_trait::async_trait;
use broker_domain::{Error, Phase, ProjectId, ProvisionedResourceId};

use crate::context::Attribution;
use crate::error::PortError;

/// Records what the broker does outside of its own rows.
///
/// A change of a row is audited by the transaction that makes it. What happens elsewhere (a token issued or
/// closed, substrate applied or deleted, a Node deregistered, a declaration refused) goes through here.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait AuditSink: Send + Sync {
    /// Records one line.
    ///
    /// **Flow**: called right before the thing is sent, and only when it will be sent.
    ///
    /// **Caller**: does not do what could not be recorded: on any error, `Unknown` included, the thing is
    /// left undone. A second line for a thing that is tried twice is right; it was sent twice.
    ///
    /// **Implementer**: durable when this returns. Lines of one resource keep their order. Nothing is ever
    /// changed or removed, except by [`Repository::scrub_audit`](crate::Repository::scrub_audit).
    ///
    /// # Errors
    ///
    /// `Transient` or `Unknown` when the line is not known to be durable.
    async fn record(&self, entry: &AuditEntry) -> Result<(), PortError>;
}

/// One line of the audit. Ids, words of closed sets and phases; never a value that somebody supplied, with
/// one exception that can be scrubbed: `event_data`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The Project that it concerns; `None` for what concerns the whole broker.
    pub project: Option<ProjectId>,
    /// The resource; `None` for what concerns none, such as a refused declaration.
    pub resource: Option<ProvisionedResourceId>,
    /// What was done.
    pub action: AuditAction,
    /// By whom, in which request.
    pub attribution: Attribution,
    /// The phase before.
    pub previous_phase: Option<Phase>,
    /// The phase after.
    pub new_phase: Option<Phase>,
    /// The phase in which a failure happened.
    pub failed_step: Option<Phase>,
    /// What a person wrote, such as the reason for giving up: the one place for personal data.
    pub event_data: Option<String>,
}

impl AuditEntry {
    /// A line about no resource in particular.
    pub fn new(action: AuditAction, attribution: Attribution) -> Self {
        Self {
            project: None,
            resource: None,
            action,
            attribution: attribution.without_trace(),
            previous_phase: None,
            new_phase: None,
            failed_step: None,
            event_data: None,
        }
    }

    /// About a Project.
    #[must_use]
    pub fn in_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// About a resource.
    #[must_use]
    pub fn about(mut self, resource: ProvisionedResourceId) -> Self {
        self.resource = Some(resource);
        self
    }

    /// In a phase, which it does not change.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Self {
        self.previous_phase = Some(phase);
        self.new_phase = Some(phase);
        self
    }

    /// With what a person wrote.
    #[must_use]
    pub fn with_event_data(mut self, text: impl Into<String>) -> Self {
        self.event_data = Some(text.into());
        self
    }
}

macro_rules! audit_actions {
    ($($(#[$docs:meta])* $name:ident = $text:literal,)+) => {
        /// What was done. The set grows by addition only.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum AuditAction {
            $($(#[$docs])* $name,)+
        }

        impl AuditAction {
            /// Every action.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The action's name in rows and logs.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

audit_actions! {
    /// A declaration was stored.
    Declared = "declared",
    /// A declaration was refused; nothing was stored.
    DeclarationRefused = "declaration_refused",
    /// A resource changed its phase.
    PhaseChanged = "phase_changed",
    /// A deletion request was stored.
    DeletionRequested = "deletion_requested",
    /// The id of an issued token was stored.
    TokenRecorded = "token_recorded",
    /// The issuer's confirmation that no token is left was stored.
    TokensClosedRecorded = "tokens_closed_recorded",
    /// Objects on the cluster were added to, or proven gone and taken from, a resource's substrate.
    SubstrateRecorded = "substrate_recorded",
    /// A teardown was given up.
    Abandoned = "abandoned",
    /// A resource was paused.
    Paused = "paused",
    /// A resource was resumed.
    Resumed = "resumed",
    /// A pass was asked for at once.
    ReconcileRequested = "reconcile_requested",
    /// The brake was set.
    BrakeSet = "brake_set",
    /// The brake was released.
    BrakeReleased = "brake_released",
    /// A loss was permitted: what was lost may be created again, or given up.
    PermitTaken = "permit_taken",
    /// A failed resource was sent on its way again.
    RetryRequested = "retry_requested",
    /// Another resource took the place of this one. `event_data` is the other one's id.
    Replaced = "replaced",
    /// An event that was set aside is delivered again.
    EventsRedriven = "events_resumed",
    /// An event that was set aside is skipped: nobody will ever receive it.
    EventsSkipped = "events_skipped",
    /// What people wrote was blanked.
    AuditScrubbed = "audit_scrubbed",
    /// A row that was Deleted for long was removed.
    Purged = "purged",
    /// A token is about to be issued.
    TokenIssue = "token_issue",
    /// A resource's tokens are about to be closed.
    TokensClose = "tokens_close",
    /// Substrate is about to be applied.
    SubstrateApply = "substrate_apply",
    /// Substrate is about to be deleted.
    SubstrateDelete = "substrate_delete",
    /// A Node is about to be deregistered.
    NodeDeregister = "node_deregister",
}

impl fmt::Display for AuditAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TryFrom<&str> for AuditAction {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::ALL
            .iter()
            .copied()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| Error::invalid("action", format!("{text:?} is not an audit action")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actions_are_pinned_and_read_back() {
        let names: Vec<_> = AuditAction::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(
            names.join(" "),
            "declared declaration_refused phase_changed deletion_requested token_recorded \
             tokens_closed_recorded substrate_recorded abandoned paused resumed \
             reconcile_requested brake_set brake_released permit_taken retry_requested replaced \
             events_resumed events_skipped audit_scrubbed purged token_issue tokens_close substrate_apply substrate_delete \
             node_deregister"
        );
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::try_from(action.as_str()).unwrap(), *action);
        }
    }
}
