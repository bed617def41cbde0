//! Records the effects of a pass as the steps of a plan, instead of performing them.

use broker_domain::{BootstrapTokenId, Error as DomainError, ProvisionedResource, Stamp};
use broker_ports::{ApplyRequest, DryRun, FailureClass, LiveObject, ObjectVersion, PortError};
use broker_render::{APPLIED_DIGEST_ANNOTATION, ARMED_ANNOTATION, Armed, Precondition, redacted};
use secrecy::SecretString;
use serde_json::Value;

use super::diff::changes;
use super::{ApplyPurpose, PlannedAnswer, PlannedApply, PlannedStep};
use crate::act::requests::{Enrolment, Requests};
use crate::decide::{EarlyExit, Effect, EffectResult, NextStep, PassState, step};
use crate::error::{Error, error_message};
use crate::observe::ResolvedObservation;
use crate::service::Service;

pub(super) struct PlanRecorder<'a> {
    service: &'a Service,
    /// The epoch of the next claim.
    epoch: u64,
    steps: Vec<PlannedStep>,
    notes: Vec<String>,
    /// The pass would end early.
    ended: bool,
    /// The precondition of the planned shell. An arm in the same pass reuses it, because no shell was created.
    shell: Precondition,
}

/// Placeholder for the uid and version of an object that the pass would create.
const PLANNED: &str = "planned";

/// As long as a real token, but invalid.
const SAMPLE_TOKEN: &str = "a-token-of-thirty-two-characters";

impl<'a> PlanRecorder<'a> {
    pub(super) const fn new(service: &'a Service, epoch: u64) -> Self {
        Self {
            service,
            epoch,
            steps: Vec::new(),
            notes: Vec::new(),
            ended: false,
            shell: Precondition::Absent,
        }
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn into_steps(self) -> (Vec<PlannedStep>, Vec<String>) {
        (self.steps, self.notes)
    }

    /// Runs one stage as if each effect succeeded.
    pub(super) async fn drive(
        &mut self,
        state: PassState,
        resolved: Option<&ResolvedObservation>,
    ) -> Result<ProvisionedResource, Error> {
        let (mut state, mut next_step) = step(&state, EffectResult::Begin);
        loop {
            match next_step {
                NextStep::Continue => return Ok(state.into_resource()),
                NextStep::End(exit) => {
                    self.ended = true;
                    self.notes.push(exit_note(exit).to_owned());
                    return Ok(state.into_resource());
                }
                NextStep::Perform(effect) => {
                    let result = self.record_effect(effect, state.resource(), resolved).await?;
                    let Some(result) = result else {
                        self.ended = true;
                        return Ok(state.into_resource());
                    };
                    (state, next_step) = step(&state, result);
                }
            }
        }
    }

    /// Records an effect and returns its assumed result; `None` if the pass would end with it.
    async fn record_effect(
        &mut self,
        effect: Effect,
        resource: &ProvisionedResource,
        resolved: Option<&ResolvedObservation>,
    ) -> Result<Option<EffectResult>, Error> {
        let stamp = self.service.stamp();
        match effect {
            Effect::RequestDeletion
            | Effect::RecordClosed
            | Effect::RecordSubstrate(_)
            | Effect::RecordToken(..)
            | Effect::UpdatePhase(_)
            | Effect::Fail(_) => self.record_write(effect, resource, stamp).map(Some),
            // A plan takes no permit, so it assumes that the budget allows the effect.
            Effect::CheckBrake | Effect::TakePermit(_) => Ok(Some(EffectResult::Permitted)),
            Effect::CloseTokens => {
                Ok(Some(self.push_step(PlannedStep::CloseTokens, EffectResult::Done)))
            }
            Effect::IssueToken(ordinal) => {
                let issued = EffectResult::Issued(sample_token(resource)?);
                Ok(Some(self.push_step(PlannedStep::IssueToken { ordinal }, issued)))
            }
            Effect::DeregisterNode(token) => {
                Ok(Some(self.push_step(PlannedStep::DeregisterNode { token }, EffectResult::Done)))
            }
            Effect::DeleteXr(_) => {
                let object = expect_resolved(resolved)?.xr_reference.clone();
                Ok(Some(self.push_step(PlannedStep::Delete { object }, EffectResult::Deleting)))
            }
            Effect::DeleteProviderConfig(_) => {
                let object = expect_resolved(resolved)?.config_reference()?;
                Ok(Some(self.push_step(PlannedStep::Delete { object }, EffectResult::Done)))
            }
            Effect::ApplyProviderConfig(_)
            | Effect::ApplyShell(_)
            | Effect::Arm(..)
            | Effect::Reapply(..) => self.apply(effect, resource, expect_resolved(resolved)?).await,
        }
    }

    fn push_step(&mut self, step: PlannedStep, result: EffectResult) -> EffectResult {
        self.steps.push(step);
        result
    }

    /// Applies a row write to the aggregate, without storing it.
    fn record_write(
        &mut self,
        effect: Effect,
        resource: &ProvisionedResource,
        stamp: Stamp,
    ) -> Result<EffectResult, Error> {
        let at = stamp.at;
        let (change, step) = match effect {
            Effect::RequestDeletion => {
                (resource.request_deletion(stamp), PlannedStep::RequestDeletion)
            }
            Effect::RecordClosed => (
                resource.record_closed(at)?,
                PlannedStep::Record { what: "that its tokens are closed" },
            ),
            Effect::RecordSubstrate(substrate) => (
                resource.record_substrate(substrate, at)?,
                PlannedStep::Record { what: "the objects on the cluster" },
            ),
            Effect::RecordToken(token, ordinal, _) => (
                Some(resource.record_token(token, ordinal, at)?),
                PlannedStep::Record { what: "the id of its token" },
            ),
            Effect::Fail(reason) => {
                let change = resource.fail(reason, stamp)?;
                (change, PlannedStep::ChangePhase { to: broker_domain::Phase::Failed })
            }
            Effect::UpdatePhase(to) => {
                (resource.advance(to, stamp)?, PlannedStep::ChangePhase { to })
            }
            Effect::CheckBrake
            | Effect::TakePermit(_)
            | Effect::CloseTokens
            | Effect::ApplyProviderConfig(_)
            | Effect::ApplyShell(_)
            | Effect::IssueToken(_)
            | Effect::DeregisterNode(_)
            | Effect::Arm(..)
            | Effect::Reapply(..)
            | Effect::DeleteXr(_)
            | Effect::DeleteProviderConfig(_) => {
                return Err(Error::Internal("the planned effect does not write a row"));
            }
        };
        let stored = change.map_or_else(|| resource.clone(), |change| change.resource().clone());
        Ok(self.push_step(step, EffectResult::Committed(Box::new(stored))))
    }
}

impl PlanRecorder<'_> {
    async fn apply(
        &mut self,
        effect: Effect,
        resource: &ProvisionedResource,
        resolved: &ResolvedObservation,
    ) -> Result<Option<EffectResult>, Error> {
        let (purpose, request) = self.request(effect, resource, resolved)?;
        let live = match purpose {
            ApplyPurpose::ProviderConfig => resolved.live_config.as_ref(),
            ApplyPurpose::Shell | ApplyPurpose::Arm | ApplyPurpose::Reapply => {
                resolved.live.as_ref()
            }
        };
        let sent: Value = serde_json::from_slice(&request.expose_for_apply())
            .map_err(|_| Error::Internal("the rendered manifest is not JSON"))?;
        let (answer, after) = self.dry_run(&request).await;
        let changes = changes(live.map(LiveObject::expose), after.as_ref().unwrap_or(&sent));
        let is_accepted = matches!(answer, PlannedAnswer::Accepted);
        let mut manifest = redacted(&sent);
        if purpose == ApplyPurpose::Arm {
            replace_token_id_by_placeholder(&mut manifest);
        }
        if matches!(purpose, ApplyPurpose::Arm | ApplyPurpose::Reapply) {
            let xr = resolved.views()?.xr(resource)?;
            self.notes.extend(xr.skipped_tags().iter().map(ToString::to_string));
        }
        let object = request.target().clone();
        let apply = PlannedApply { object, purpose, manifest, changes, answer };
        self.steps.push(PlannedStep::Apply(Box::new(apply)));
        if !is_accepted {
            self.notes.push("the pass would end here".to_owned());
        }
        let version = ObjectVersion::new(PLANNED, PLANNED);
        Ok(is_accepted.then_some(EffectResult::Applied(version)))
    }

    fn request(
        &mut self,
        effect: Effect,
        resource: &ProvisionedResource,
        resolved: &ResolvedObservation,
    ) -> Result<(ApplyPurpose, ApplyRequest), Error> {
        let config = self.service.config();
        let views = resolved.views()?;
        let requests = Requests { resource, views, profiles: &config.profiles };
        Ok(match effect {
            Effect::ApplyProviderConfig(precondition) => {
                (ApplyPurpose::ProviderConfig, requests.provider_config(precondition)?)
            }
            Effect::ApplyShell(precondition) => {
                self.shell = precondition.clone();
                (ApplyPurpose::Shell, requests.shell(self.epoch, precondition)?)
            }
            // The shell was not created, so the dry run of the arm uses the shell's precondition.
            Effect::Arm(with, _) => {
                let token = SecretString::from(SAMPLE_TOKEN);
                let enrolment = match with {
                    Armed::Standalone => None,
                    Armed::Token(_) => Some(Enrolment {
                        token: &token,
                        api_url: config.require_api_url()?,
                        agent: &config.agent,
                    }),
                };
                (ApplyPurpose::Arm, requests.arm(with, enrolment, self.shell.clone())?)
            }
            Effect::Reapply(with, at) => {
                (ApplyPurpose::Reapply, requests.reapply(with, resolved.live()?, &at)?)
            }
            Effect::CheckBrake
            | Effect::TakePermit(_)
            | Effect::RequestDeletion
            | Effect::CloseTokens
            | Effect::RecordClosed
            | Effect::RecordSubstrate(_)
            | Effect::IssueToken(_)
            | Effect::DeregisterNode(_)
            | Effect::RecordToken(..)
            | Effect::DeleteXr(_)
            | Effect::DeleteProviderConfig(_)
            | Effect::UpdatePhase(_)
            | Effect::Fail(_) => {
                return Err(Error::Internal("the planned effect is not an apply"));
            }
        })
    }

    /// Sends a dry run. Returns the response and the resulting object.
    async fn dry_run(&self, request: &ApplyRequest) -> (PlannedAnswer, Option<Value>) {
        match self.service.ports().cluster.read(|it| it.dry_run(request)).await {
            Ok(DryRun::Accepted(object)) => {
                (PlannedAnswer::Accepted, Some(object.expose().clone()))
            }
            Ok(DryRun::Conflict) => (PlannedAnswer::Conflict, None),
            Err(Error::Port { source, .. }) if source.class() == FailureClass::Rejected => {
                (refused(&source), None)
            }
            Err(error) => (PlannedAnswer::Unknown { because: error_message(&error) }, None),
        }
    }
}

fn refused(error: &PortError) -> PlannedAnswer {
    PlannedAnswer::Refused { refusal: error.refusal(), message: error.to_string() }
}

fn expect_resolved(resolved: Option<&ResolvedObservation>) -> Result<&ResolvedObservation, Error> {
    resolved.ok_or(Error::Internal("a planned effect needs an observation"))
}

/// A placeholder: the resource's own id, which no issuer gives to a token.
fn sample_token(resource: &ProvisionedResource) -> Result<BootstrapTokenId, DomainError> {
    BootstrapTokenId::new(resource.id().as_uuid())
}

fn replace_token_id_by_placeholder(manifest: &mut Value) {
    let annotations = manifest.get_mut("metadata").and_then(|it| it.get_mut("annotations"));
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else { return };
    for (name, placeholder) in [
        (ARMED_ANNOTATION, "(the id of the token that is issued)"),
        (APPLIED_DIGEST_ANNOTATION, "(a digest that depends on that id)"),
    ] {
        let has_token =
            annotations.get(ARMED_ANNOTATION).and_then(Value::as_str) != Some("standalone");
        if let Some(annotation) = annotations.get_mut(name).filter(|_| has_token) {
            *annotation = Value::from(placeholder);
        }
    }
}

const fn exit_note(exit: EarlyExit) -> &'static str {
    match exit {
        EarlyExit::LostRace => "another writer would win the race, and the pass would end",
        EarlyExit::StaleRow => {
            "its composite resource is armed with a different token from its row's: the pass ends"
        }
        EarlyExit::TokenConsumedAgain => "the token was consumed again: the pass ends",
        EarlyExit::TokensOpen => "tokens are not known to be closed: nothing is deleted",
        EarlyExit::Braked | EarlyExit::OverBudget => exit.message(),
    }
}
