//! Plan: the steps of the next pass, and the API server's response to each apply. It writes nothing.
//!
//! The steps come from [`crate::decide`], as in a pass. A plan performs no effect: it records each one and assumes its
//! success. It sends each manifest as a dry run, so the API server fills in defaults and reports a refusal.

mod diff;
mod json;
mod recorder;
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
use crate::telemetry::traceparent;
use recorder::PlanRecorder;

/// The steps of the next pass.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// The resource; for a declaration, a new id that is not stored.
    pub resource: ProvisionedResourceId,
    /// The current phase.
    pub from: Phase,
    /// The phase after the pass.
    pub to: Phase,
    /// The decided action.
    pub action: Action,
    /// The steps, in order.
    pub steps: Vec<PlannedStep>,
    /// Why the pass would do less than decided, or would not run.
    pub notes: Vec<String>,
}

/// One step of the plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PlannedStep {
    /// Store the broker's own deletion request.
    RequestDeletion,
    /// Close the tokens at the issuer.
    CloseTokens,
    /// Record something in the row.
    Record {
        /// The recorded data.
        what: &'static str,
    },
    /// Apply an object.
    Apply(Box<PlannedApply>),
    /// Issue a token.
    IssueToken {
        /// Its ordinal.
        ordinal: TokenOrdinal,
    },
    /// Drain a Node.
    DeregisterNode {
        /// The token of the Node.
        token: BootstrapTokenId,
    },
    /// Delete an object.
    Delete {
        /// The object.
        object: ObjectReference,
    },
    /// Store another phase.
    ChangePhase {
        /// The phase.
        to: Phase,
    },
}

/// An apply of the plan.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlannedApply {
    /// The object.
    pub object: ObjectReference,
    /// Its purpose.
    pub purpose: ApplyPurpose,
    /// The manifest, without secrets.
    pub manifest: Value,
    /// The changes to the live object, field by field, without secrets.
    pub changes: Vec<FieldChange>,
    /// The API server's response to the dry run.
    pub answer: PlannedAnswer,
}

/// The purpose of an apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApplyPurpose {
    /// The ProviderConfig.
    ProviderConfig,
    /// The composite resource, paused and without a token.
    Shell,
    /// The composite resource, with the fields that start it.
    Arm,
    /// The composite resource again, because it drifted.
    Reapply,
}

/// The API server's response to a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlannedAnswer {
    /// It accepts the apply.
    Accepted,
    /// It refuses the apply.
    Refused {
        /// The kind of refusal, if known.
        refusal: Option<Refusal>,
        /// The API server's message, which names the field.
        message: String,
    },
    /// Another writer changed the object after it was read.
    Conflict,
    /// The API server did not respond.
    Unknown {
        /// The reason.
        because: String,
    },
}

impl Plan {
    /// Whether the plan has no step.
    pub fn is_nothing(&self) -> bool {
        self.steps.is_empty()
    }

    /// The first apply that the API server refuses, with its message.
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
    /// Plans the next pass over a resource.
    ///
    /// # Errors
    ///
    /// `provisioned_resource_not_found`; the errors of a pass while it observes, such as a missing reference or a
    /// cluster that does not answer.
    #[tracing::instrument(name = "broker.plan", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn plan(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Plan, Error> {
        let resource = self.get(context, id).await?;
        let entry = self.ports().schedule.read(|it| it.entry(id)).await?;
        let epoch = entry.as_ref().map_or(0, |entry| entry.epoch.get());
        let mut plan = self.plan_pass(resource, epoch.saturating_add(1)).await?;
        if entry.is_some_and(|entry| entry.paused) {
            plan.notes.push("it is paused: no pass runs until it is resumed".to_owned());
        }
        Ok(plan)
    }

    /// Plans the first pass of a declaration. Stores nothing and audits no refusal.
    ///
    /// If the request id was accepted before, it plans the stored resource.
    ///
    /// # Errors
    ///
    /// As [`provision`](Self::provision), and as [`plan`](Self::plan).
    #[tracing::instrument(name = "broker.plan_declaration", skip_all, fields(traceparent = traceparent(context)))]
    pub async fn plan_declaration(
        &self,
        context: &RequestContext,
        declaration: &Declaration,
    ) -> Result<Plan, Error> {
        if let Some(first) = self.find_replayed(context, declaration).await? {
            let mut plan = self.plan(context, first.id()).await?;
            let note = format!("this request was accepted before, as {}", first.id());
            plan.notes.insert(0, note);
            return Ok(plan);
        }
        let admitted = self.validate(context, declaration).await?;
        self.plan_pass(admitted.change().resource().clone(), 1).await
    }

    async fn plan_pass(&self, resource: ProvisionedResource, epoch: u64) -> Result<Plan, Error> {
        let ports = self.ports();
        let (id, from) = (resource.id(), resource.phase());
        let mut recorder = PlanRecorder::new(self, epoch);
        let project = resource.project_id();
        let prepared = recorder.drive(PassState::prepare(resource, Mode::Live), None).await?;
        let reading = observe(ports, &prepared).await?;
        let (action, to) = next(&reading.facts(&prepared), prepared.phase());
        let resolved =
            reading.resolve(ports, &self.config().profiles, &prepared, (action, to)).await?;
        let acting = PassState::act(prepared, Mode::Live, resolved.observation.clone(), action);
        let acted = recorder.drive(acting, Some(&resolved)).await?;
        if !recorder.has_ended() {
            let persisting =
                PassState::persist(acted, Mode::Live, resolved.observation.clone(), to);
            recorder.drive(persisting, Some(&resolved)).await?;
        }
        let (steps, mut notes) = recorder.into_steps();
        if action == Action::Apply {
            notes.extend(note_of_gate(resolved.observation.gate));
        }
        if resolved.observation.is_held(project) {
            notes.push("a brake is set: nothing is created or destroyed".to_owned());
        }
        if self.config().mode == Mode::DryRun {
            notes.push("the broker runs in dry-run mode: no step is performed".to_owned());
        }
        Ok(Plan { resource: id, from, to, action, steps, notes })
    }
}

/// Why a pass that decided to apply does not.
fn note_of_gate(gate: Gate) -> Option<String> {
    match gate {
        Gate::Open | Gate::NotRead => None,
        Gate::Namespace(phase) => {
            Some(format!("the namespace of its Project is {phase}, not Ready: nothing is applied"))
        }
        Gate::OtherCluster => {
            Some("its Project is assigned to another cluster: nothing is applied".to_owned())
        }
        Gate::Credential(withdrawal) => {
            Some(format!("nothing is created with its credential: {withdrawal}"))
        }
        Gate::ConfigLeaving => {
            let note =
                "its shared ProviderConfig is being deleted: nothing is applied until it is gone";
            Some(note.to_owned())
        }
    }
}
