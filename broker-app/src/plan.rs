//! What a pass would do now, and what the API server would say to it. Nothing is written anywhere.
//!
//! The steps come from [`crate::decide`], as in a pass. No effect is performed: each one is recorded and answered as
//! if it had succeeded. Manifests are sent to the API server's dry run, which fills in defaults and reports a refusal
//! before anything is stored.

mod diff;
mod json;
mod rehearse;
mod text;

use broker_domain::{
    Action, BootstrapTokenId, Declaration, ObjectReference, Phase, ProvisionedResource,
    ProvisionedResourceId, TokenOrdinal, next,
};
use broker_ports::{Refusal, RequestContext};
use serde_json::Value;

pub use diff::FieldChange;

use crate::decide::{Mode, PassState};
use crate::error::Error;
use crate::observe::Gate;
use crate::observe::observe;
use crate::service::Service;
use rehearse::Rehearsal;

/// What a pass would do now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Of which resource; of a declaration, one that does not exist.
    pub resource: ProvisionedResourceId,
    /// Where it is now.
    pub from: Phase,
    /// Where the pass would leave it.
    pub to: Phase,
    /// What was decided.
    pub action: Action,
    /// What would be done, in order.
    pub steps: Vec<PlannedStep>,
    /// Why less is done than was decided, or why no pass would be made at all.
    pub notes: Vec<String>,
}

/// One thing that would be done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PlannedStep {
    /// A deletion request on the broker's own account is stored.
    RequestDeletion,
    /// Tokens are closed at the issuer.
    CloseTokens,
    /// Something is put on record in the row.
    Record {
        /// What.
        what: &'static str,
    },
    /// An object is applied.
    Apply(Box<PlannedApply>),
    /// A token is issued.
    IssueToken {
        /// Under which ordinal.
        ordinal: TokenOrdinal,
    },
    /// A Node is drained.
    DeregisterNode {
        /// The Node of this token.
        token: BootstrapTokenId,
    },
    /// An object is deleted.
    Delete {
        /// Which.
        object: ObjectReference,
    },
    /// Another phase is stored.
    ChangePhase {
        /// Which.
        to: Phase,
    },
}

/// An apply that would be sent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlannedApply {
    /// Of which object.
    pub object: ObjectReference,
    /// What it is for.
    pub purpose: ApplyPurpose,
    /// What would be sent, without secrets.
    pub manifest: Value,
    /// What it would change on the object that stands, field by field, without secrets.
    pub changes: Vec<FieldChange>,
    /// What the API server says to it.
    pub answer: PlannedAnswer,
}

/// What an apply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApplyPurpose {
    /// The ProviderConfig.
    ProviderConfig,
    /// The composite resource, paused and without a token.
    Shell,
    /// The composite resource, with what makes it start.
    Arm,
    /// The composite resource once more, because it drifted.
    Reapply,
}

/// What the API server says to an apply that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlannedAnswer {
    /// It would be accepted.
    Accepted,
    /// It would be refused.
    Refused {
        /// Why, where that was told apart.
        refusal: Option<Refusal>,
        /// In the API server's words, which name the field.
        message: String,
    },
    /// Somebody changed the object since it was looked at.
    Conflict,
    /// It could not be asked.
    Unknown {
        /// Why.
        because: String,
    },
}

impl Plan {
    /// There is nothing to do.
    pub fn is_nothing(&self) -> bool {
        self.steps.is_empty()
    }

    /// The first apply that the API server would refuse, and its words.
    pub fn refusal(&self) -> Option<(&ObjectReference, &str)> {
        self.steps.iter().find_map(|step| match step {
            PlannedStep::Apply(apply) => match &apply.answer {
                PlannedAnswer::Refused { message, .. } => Some((&apply.object, message.as_str())),
                PlannedAnswer::Accepted
                | PlannedAnswer::Conflict
                | PlannedAnswer::Unknown { .. } => None,
            },
            PlannedStep::RequestDeletion
            | PlannedStep::CloseTokens
            | PlannedStep::Record { .. }
            | PlannedStep::IssueToken { .. }
            | PlannedStep::DeregisterNode { .. }
            | PlannedStep::Delete { .. }
            | PlannedStep::ChangePhase { .. } => None,
        })
    }
}

impl Service {
    /// What the next pass over a resource would do, and what the API server would say to it.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; what a pass would fail with while it looks: a reference that is gone,
    /// a cluster that does not answer.
    pub async fn plan(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Plan, Error> {
        let resource = self.get(context, id).await?;
        let entry = self.ports().schedule.read(|it| it.entry(id)).await?;
        let epoch = entry.as_ref().map_or(0, |entry| entry.epoch.get());
        let mut plan = self.rehearse(resource, epoch.saturating_add(1)).await?;
        if entry.is_some_and(|entry| entry.paused) {
            plan.notes.push("it is paused: no pass is made until it is resumed".to_owned());
        }
        Ok(plan)
    }

    /// What would become of a declaration in its first pass. Nothing is stored, no refusal recorded.
    ///
    /// A declaration whose request id was accepted before is planned as the resource that it stands for.
    ///
    /// # Errors
    ///
    /// As [`provision`](Self::provision), and as [`plan`](Self::plan).
    pub async fn plan_declaration(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Plan, Error> {
        if let Some(first) = self.replay(context, declaration).await? {
            let mut plan = self.plan(context, first.id()).await?;
            let note = format!("this request was accepted before, as {}", first.id());
            plan.notes.insert(0, note);
            return Ok(plan);
        }
        let admitted = self.examine(context, declaration).await?;
        self.rehearse(admitted.change().resource().clone(), 1).await
    }

    async fn rehearse(&self, resource: ProvisionedResource, epoch: u64) -> Result<Plan, Error> {
        let ports = self.ports();
        let (id, from) = (resource.id(), resource.phase());
        let mut rehearsal = Rehearsal::new(self, epoch);
        let project = resource.project_id();
        let prepared = rehearsal.drive(PassState::prepare(resource, Mode::Live), None).await?;
        let look = observe(ports, &prepared).await?;
        let (action, to) = next(&look.facts(&prepared), prepared.phase());
        let observed =
            look.resolve(ports, &self.config().profiles, &prepared, (action, to)).await?;
        let acting = PassState::act(prepared, Mode::Live, observed.seen.clone(), action);
        let acted = rehearsal.drive(acting, Some(&observed)).await?;
        if !rehearsal.is_over() {
            let persisting = PassState::persist(acted, Mode::Live, observed.seen.clone(), to);
            rehearsal.drive(persisting, Some(&observed)).await?;
        }
        let (steps, mut notes) = rehearsal.into_steps();
        if action == Action::Apply && observed.seen.gate == Gate::Closed {
            notes.push("the namespace of its Project is not ready: nothing is applied".to_owned());
        }
        if observed.seen.is_held(project) {
            notes.push("a brake is set: nothing is created or destroyed".to_owned());
        }
        if self.config().mode == Mode::DryRun {
            notes.push("the broker runs in dry-run mode: none of this is done".to_owned());
        }
        Ok(Plan { resource: id, from, to, action, steps, notes })
    }
}
