//! The audit. It is mandatory and records actions and actors, never values that a caller supplied.

use std::fmt;

use async_trait::async_trait;
use broker_domain::{Error, Phase, ProjectId, ProvisionedResourceId};

use crate::context::Attribution;
use crate::error::PortError;

/// Records effects of the broker outside of its own rows.
///
/// The transaction of a row change writes that change's audit line. This port records the rest: a token issued or
/// closed, substrate applied or deleted, a Node deregistered, a declaration refused.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait AuditSink: Send + Sync {
    /// Records one line, durably.
    ///
    /// **Flow**: called directly before the effect is sent, and only if it will be sent.
    ///
    /// **Caller**: sends no effect that was not recorded. On any error, `Unknown` included, it skips the effect. A
    /// retry of an effect records a second line, because the effect is sent twice.
    ///
    /// **Implementer**: the line is durable when this returns. Lines of one resource keep their order. No line is
    /// changed or removed, except by [`Repository::scrub_audit`](crate::Repository::scrub_audit).
    ///
    /// # Errors
    ///
    /// `Transient` or `Unknown` when the line may not be durable.
    async fn record(&self, entry: &AuditEntry) -> Result<(), PortError>;
}

/// One line of the audit: ids, phases and names from closed sets. The only free text is `event_data`, which can be
/// scrubbed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AuditEntry {
    /// The Project; `None` for an action on the whole broker.
    pub project: Option<ProjectId>,
    /// The resource; `None` for an action without one, such as a refused declaration.
    pub resource: Option<ProvisionedResourceId>,
    /// The action.
    pub action: AuditAction,
    /// The actor and the request or pass.
    pub attribution: Attribution,
    /// The phase before.
    pub previous_phase: Option<Phase>,
    /// The phase after.
    pub new_phase: Option<Phase>,
    /// The phase in which a failure happened.
    pub failed_step: Option<Phase>,
    /// Text that a person wrote, such as the reason for abandoning. The only field that may hold personal data.
    pub event_data: Option<String>,
}

impl AuditEntry {
    /// A line without a resource.
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

    /// Sets the Project.
    #[must_use]
    pub fn in_project(mut self, project: ProjectId) -> Self {
        self.project = Some(project);
        self
    }

    /// Sets the resource.
    #[must_use]
    pub fn for_resource(mut self, resource: ProvisionedResourceId) -> Self {
        self.resource = Some(resource);
        self
    }

    /// Sets both phases to `phase`, because the action does not change the phase.
    #[must_use]
    pub fn in_phase(mut self, phase: Phase) -> Self {
        self.previous_phase = Some(phase);
        self.new_phase = Some(phase);
        self
    }

    /// Sets the text that a person wrote.
    #[must_use]
    pub fn with_event_data(mut self, text: impl Into<String>) -> Self {
        self.event_data = Some(text.into());
        self
    }
}

macro_rules! audit_actions {
    ($($(#[$docs:meta])* $name:ident = $text:literal,)+) => {
        /// The audited actions. The set only grows.
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
    /// The issuer confirmed that no token is left, and the confirmation was stored.
    TokensClosedRecorded = "tokens_closed_recorded",
    /// Objects on the cluster were added to a resource's substrate, or were proven gone and removed.
    SubstrateRecorded = "substrate_recorded",
    /// An operator abandoned a teardown.
    Abandoned = "abandoned",
    /// A resource was paused.
    Paused = "paused",
    /// A resource was resumed.
    Resumed = "resumed",
    /// An immediate pass was requested.
    ReconcileRequested = "reconcile_requested",
    /// The brake was set.
    BrakeSet = "brake_set",
    /// The brake was released.
    BrakeReleased = "brake_released",
    /// A permit was granted for a loss: the worker may re-create the resource or fail it.
    PermitTaken = "permit_taken",
    /// A failed resource is retried.
    RetryRequested = "retry_requested",
    /// Another resource replaces this one. `event_data` is the other one's id.
    Replaced = "replaced",
    /// A dead-lettered event is delivered again.
    EventsRedriven = "events_redriven",
    /// A dead-lettered event is skipped and never delivered.
    EventsSkipped = "events_skipped",
    /// Free text in the audit was blanked.
    AuditScrubbed = "audit_scrubbed",
    /// A Deleted row was removed after its retention.
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
    fn audit_action_names_equal_the_released_names() {
        let names: Vec<_> = AuditAction::ALL.iter().map(|action| action.as_str()).collect();
        assert_eq!(
            names.join(" "),
            "declared declaration_refused phase_changed deletion_requested token_recorded \
             tokens_closed_recorded substrate_recorded abandoned paused resumed \
             reconcile_requested brake_set brake_released permit_taken retry_requested replaced \
             events_redriven events_skipped audit_scrubbed purged token_issue tokens_close substrate_apply substrate_delete \
             node_deregister"
        );
        for action in AuditAction::ALL {
            assert_eq!(AuditAction::try_from(action.as_str()).unwrap(), *action);
        }
    }
}
