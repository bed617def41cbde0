//! Decide: the next effect of a pass, from its state and the result of the last effect.
//!
//! [`step`] is pure. It takes the [`PassState`] and the last [`EffectResult`], and returns one [`Effect`] to perform
//! or the end of the stage. The caller performs only that effect. So production, simulation and the model checker run the
//! same decisions, and the model checker can stop after every effect.
//!
//! Every type here is `Clone + Eq + Hash` and holds no secret: the plaintext of a token stays with the caller.

mod apply;
mod delete;
mod removal;

use broker_domain::{
    Action, BootstrapTokenId, FailureReason, OnFailure, Phase, ProvisionedResource, Substrate,
    TokenOrdinal, XrUid,
};
use broker_ports::{LostObject, ObjectVersion};
use broker_render::{Armed, Precondition};

pub use removal::{Deleting, Removal, RemovalStep};

use crate::observe::{Observation, XrObservation};

/// Whether a pass may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The pass performs its effects.
    Live,
    /// The pass observes and decides; it writes, issues, closes, applies and deletes nothing.
    DryRun,
}

/// The state of a pass between two effects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PassState {
    resource: ProvisionedResource,
    mode: Mode,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Prepare { closed: bool, permitted: bool },
    Act { observation: Box<Observation>, action: Action, progress: Progress },
    Persist { observation: Box<Observation>, to: Phase, permitted: bool },
}

/// Completed effects of the act stage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Progress {
    /// The store granted a permit for the destructive effect of this stage.
    permitted: bool,
    config_applied: bool,
    /// The version of this pass's own shell or touch; the arm requires it.
    shell: Option<ObjectVersion>,
    token: TokenProgress,
    /// The last effect of the stage has succeeded.
    finished: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum TokenProgress {
    #[default]
    NotQueried,
    /// The token of the row's ordinal was consumed: the Node that consumed it has to leave before the next issue.
    Consumed(BootstrapTokenId),
    /// The Node of the consumed token has left.
    Deregistered,
    Issued(BootstrapTokenId, TokenOrdinal),
    Recorded(BootstrapTokenId),
}

/// One effect to perform.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Check whether a brake holds the resource.
    CheckBrake,
    /// Take a permit from the budget for automatic destruction.
    TakePermit(LostObject),
    /// Store the broker's own deletion request, to roll back a failure.
    RequestDeletion,
    /// Close the resource's tokens at the issuer.
    CloseTokens,
    /// Record in the row that the tokens are closed.
    RecordClosed,
    /// Store the objects on the cluster.
    RecordSubstrate(Substrate),
    /// Apply the ProviderConfig.
    ApplyProviderConfig(Precondition),
    /// Apply the composite resource as a shell, stamped with this worker's epoch.
    ApplyShell(Precondition),
    /// Issue a token under an ordinal.
    IssueToken(TokenOrdinal),
    /// Drain the Node that consumed a token.
    DeregisterNode(BootstrapTokenId),
    /// Store the id of the issued token, and the uid of the composite resource that will be armed with it.
    RecordToken(BootstrapTokenId, TokenOrdinal, Option<XrUid>),
    /// Apply the composite resource with the fields that start it.
    Arm(Armed, ObjectVersion),
    /// Apply an armed composite resource again, because it drifted.
    Reapply(Armed, ObjectVersion),
    /// Delete the composite resource with this uid.
    DeleteXr(String),
    /// Delete the ProviderConfig with this uid.
    DeleteProviderConfig(String),
    /// Store another phase.
    UpdatePhase(Phase),
    /// Store a terminal failure.
    Fail(FailureReason),
}

/// The result of an effect. A port error ends the pass and never reaches the step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectResult {
    /// No effect yet: the stage begins.
    Begin,
    /// The write committed; this is the new resource.
    Committed(Box<ProvisionedResource>),
    /// Another writer was first: the write, apply or deletion changed nothing.
    LostRace,
    /// No brake holds the resource, and the budget allows the effect.
    Permitted,
    /// A brake holds the resource.
    Braked,
    /// The budget for automatic destruction is spent for now.
    OverBudget,
    /// The effect succeeded and returned no data.
    Done,
    /// The API server accepted a foreground deletion: Kubernetes deletes owned objects before their owner.
    Deleting,
    /// The object exists at this version.
    Applied(ObjectVersion),
    /// A token was issued.
    Issued(BootstrapTokenId),
    /// The token of that ordinal was consumed before.
    Consumed(BootstrapTokenId),
}

/// The decision after a result.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a NextStep is moved once per effect; a box would be one more allocation each time"
)]
pub enum NextStep {
    /// Perform this effect and call `step` with its result.
    Perform(Effect),
    /// The stage is complete; the pass continues with the resource.
    Continue,
    /// The pass ends early, without an error.
    End(EarlyExit),
}

/// Why a pass ends early. None of these is an error: the next pass reads the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EarlyExit {
    /// Another writer changed the row or an object first.
    LostRace,
    /// The composite resource is armed with another token than the row's: the row is stale.
    StaleRow,
    /// The replacement of a consumed token was consumed as well.
    TokenConsumedAgain,
    /// Deleting the substrate requires closed tokens, and the row does not record them as closed.
    TokensOpen,
    /// A brake holds the resource until an operator releases it.
    Braked,
    /// The budget does not allow the re-creation or failure of a lost resource yet.
    OverBudget,
}

impl EarlyExit {
    /// Every early exit.
    pub const ALL: &[Self] = &[
        Self::LostRace,
        Self::StaleRow,
        Self::TokenConsumedAgain,
        Self::TokensOpen,
        Self::Braked,
        Self::OverBudget,
    ];

    /// The exit's name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LostRace => "lost_race",
            Self::StaleRow => "stale_row",
            Self::TokenConsumedAgain => "token_consumed_again",
            Self::TokensOpen => "tokens_open",
            Self::Braked => "braked",
            Self::OverBudget => "over_budget",
        }
    }

    /// The message that the schedule keeps for operators.
    pub const fn message(self) -> &'static str {
        match self {
            Self::LostRace => "another writer changed the row or an object first",
            Self::StaleRow => "the composite resource is armed with another token than the row's",
            Self::TokenConsumedAgain => "the replacement of a consumed token was consumed as well",
            Self::TokensOpen => "tokens are not known to be closed, so nothing was deleted",
            Self::Braked => {
                "a brake holds this resource; nothing is destroyed until it is released"
            }
            Self::OverBudget => {
                "the budget for automatic destruction is spent; the pass waits for it"
            }
        }
    }
}

impl PassState {
    /// Starts the stage before the observation: it requests a rollback and closes tokens.
    pub const fn prepare(resource: ProvisionedResource, mode: Mode) -> Self {
        Self { resource, mode, stage: Stage::Prepare { closed: false, permitted: false } }
    }

    /// Starts the stage that performs the decided action.
    pub fn act(
        resource: ProvisionedResource,
        mode: Mode,
        observation: Observation,
        action: Action,
    ) -> Self {
        let stage = Stage::Act {
            observation: Box::new(observation),
            action,
            progress: Progress::default(),
        };
        Self { resource, mode, stage }
    }

    /// Starts the stage that stores the decided phase.
    pub fn persist(
        resource: ProvisionedResource,
        mode: Mode,
        observation: Observation,
        to: Phase,
    ) -> Self {
        Self {
            resource,
            mode,
            stage: Stage::Persist { observation: Box::new(observation), to, permitted: false },
        }
    }

    /// The resource after the last committed write.
    pub const fn resource(&self) -> &ProvisionedResource {
        &self.resource
    }

    /// The resource, for the next stage.
    pub fn into_resource(self) -> ProvisionedResource {
        self.resource
    }
}

/// Records a result and returns the next step.
pub fn step(state: &PassState, result: EffectResult) -> (PassState, NextStep) {
    let mut state = state.clone();
    if state.mode == Mode::DryRun {
        return (state, NextStep::Continue);
    }
    let next_step = match record_result(&mut state, result) {
        Err(exit) => NextStep::End(exit),
        Ok(()) => state.decide(),
    };
    (state, next_step)
}

fn record_result(state: &mut PassState, result: EffectResult) -> Result<(), EarlyExit> {
    match result {
        EffectResult::Begin => {}
        EffectResult::LostRace => return Err(EarlyExit::LostRace),
        EffectResult::Braked => return Err(EarlyExit::Braked),
        EffectResult::OverBudget => return Err(EarlyExit::OverBudget),
        EffectResult::Permitted => state.stage.permitted(),
        EffectResult::Committed(resource) => {
            state.resource = *resource;
            state.stage.committed(&state.resource);
        }
        EffectResult::Done => state.stage.done(),
        EffectResult::Deleting => state.stage.deleting(),
        EffectResult::Applied(version) => state.stage.applied(version),
        EffectResult::Issued(token) => state.stage.issued(token, &state.resource),
        EffectResult::Consumed(token) => state.stage.consumed(token)?,
    }
    Ok(())
}

impl PassState {
    fn decide(&self) -> NextStep {
        match &self.stage {
            Stage::Prepare { closed, permitted } => prepare(&self.resource, *closed, *permitted),
            Stage::Act { observation, action, progress } => {
                act(&self.resource, observation, *action, progress)
            }
            Stage::Persist { observation, to, permitted } => {
                persist(&self.resource, observation, *to, *permitted)
            }
        }
    }
}

/// The prepare stage: requests the deletion of a failure that is rolled back, and closes the tokens of a teardown, so that
/// no Node can enrol after the observation.
///
/// Rolling back a resource that was Ready destroys a working machine, so it needs a permit.
fn prepare(resource: &ProvisionedResource, closed: bool, permitted: bool) -> NextStep {
    if resource.phase() == Phase::Failed && resource.on_failure() == OnFailure::Rollback {
        return NextStep::Perform(match (permitted, resource.first_ready_at()) {
            (true, _) => Effect::RequestDeletion,
            (false, Some(_)) => permit(resource),
            (false, None) => Effect::CheckBrake,
        });
    }
    let tearing_down = matches!(resource.phase(), Phase::Deregistering | Phase::Deprovisioning);
    match (tearing_down && !resource.token_closed(), closed) {
        (true, false) => NextStep::Perform(Effect::CloseTokens),
        (true, true) => NextStep::Perform(Effect::RecordClosed),
        (false, _) => NextStep::Continue,
    }
}

fn act(
    resource: &ProvisionedResource,
    observation: &Observation,
    action: Action,
    progress: &Progress,
) -> NextStep {
    // Invariant: the row records an observation before any effect acts on it.
    let mut to_record = match action {
        Action::Apply if apply::may_apply(resource, observation) => observation.about_to_apply(),
        Action::Apply | Action::Noop | Action::DeregisterNode | Action::DeleteSubstrate => {
            observation.substrate.clone()
        }
    };
    if let Some(uid) = apply::uid_before_arm(resource, progress) {
        to_record = to_record.armed(uid);
    }
    if to_record != *resource.substrate() {
        return NextStep::Perform(Effect::RecordSubstrate(to_record));
    }
    match action {
        Action::Noop => apply::restore_config(resource, observation, progress),
        Action::Apply => apply::decide(resource, observation, progress),
        Action::DeregisterNode => deregister(resource, progress),
        Action::DeleteSubstrate => delete::decide(resource, observation, progress),
    }
}

/// Without a token there is no Node to drain.
fn deregister(resource: &ProvisionedResource, progress: &Progress) -> NextStep {
    match resource.bootstrap_token_id() {
        Some(token) if !progress.finished => NextStep::Perform(Effect::DeregisterNode(token)),
        Some(_) | None => NextStep::Continue,
    }
}

/// Storing Failed for a resource that was ever Ready needs a permit: a faulty Composition function could fail many
/// resources at once.
fn persist(
    resource: &ProvisionedResource,
    observation: &Observation,
    to: Phase,
    permitted: bool,
) -> NextStep {
    if to == resource.phase() || observation.brake_keeps_phase(resource) {
        return NextStep::Continue;
    }
    if to == Phase::Failed && observation.is_held(resource.project_id()) {
        return NextStep::End(EarlyExit::Braked);
    }
    if to == Phase::Failed && resource.first_ready_at().is_some() && !permitted {
        return NextStep::Perform(permit(resource));
    }
    NextStep::Perform(match (to, &observation.failure) {
        (Phase::Failed, Some(reason)) => Effect::Fail(reason.clone()),
        (Phase::Failed, None) => Effect::Fail(FailureReason::from_message("")),
        (phase, _) => Effect::UpdatePhase(phase),
    })
}

/// The permit for an applied resource. Rows of earlier releases have no uid, so their token identifies the loss. A row
/// with neither needs only a check of the brake.
fn permit(resource: &ProvisionedResource) -> Effect {
    match (resource.substrate().applied(), resource.bootstrap_token_id()) {
        (Some(uid), _) => Effect::TakePermit(LostObject::Xr(uid.clone())),
        (None, Some(token)) => Effect::TakePermit(LostObject::Node(token)),
        (None, None) => Effect::CheckBrake,
    }
}

impl Stage {
    fn permitted(&mut self) {
        match self {
            Self::Prepare { permitted, .. } | Self::Persist { permitted, .. } => *permitted = true,
            Self::Act { progress, .. } => progress.permitted = true,
        }
    }

    fn committed(&mut self, resource: &ProvisionedResource) {
        if let Self::Act { progress, .. } = self
            && let TokenProgress::Issued(token, _) = progress.token
            && resource.bootstrap_token_id() == Some(token)
        {
            progress.token = TokenProgress::Recorded(token);
        }
    }

    fn done(&mut self) {
        match self {
            Self::Prepare { closed, .. } => *closed = true,
            Self::Act { progress, .. } => {
                if matches!(progress.token, TokenProgress::Consumed(_)) {
                    progress.token = TokenProgress::Deregistered;
                } else {
                    progress.finished = true;
                }
            }
            Self::Persist { .. } => {}
        }
    }

    /// A foreground deletion removes owned plain data before the composite resource. So the absence of the composite
    /// resource proves both.
    fn deleting(&mut self) {
        if let Self::Act { observation, .. } = self
            && observation.xr != XrObservation::Absent
        {
            observation.substrate =
                std::mem::take(&mut observation.substrate).without(&observation.plain_data);
        }
        self.done();
    }

    fn applied(&mut self, version: ObjectVersion) {
        let Self::Act { observation, progress, .. } = self else { return };
        if !progress.config_applied && observation.config_needs_apply() {
            progress.config_applied = true;
        } else if progress.shell.is_none() && observation.xr.needs_shell() {
            progress.shell = Some(version);
        } else {
            progress.finished = true;
        }
    }

    fn issued(&mut self, token: BootstrapTokenId, resource: &ProvisionedResource) {
        let Self::Act { progress, .. } = self else { return };
        let ordinal = match progress.token {
            TokenProgress::Deregistered => resource.token_ordinal().next(),
            TokenProgress::NotQueried
            | TokenProgress::Consumed(_)
            | TokenProgress::Issued(..)
            | TokenProgress::Recorded(_) => resource.token_ordinal(),
        };
        progress.token = TokenProgress::Issued(token, ordinal);
    }

    fn consumed(&mut self, token: BootstrapTokenId) -> Result<(), EarlyExit> {
        let Self::Act { progress, .. } = self else { return Ok(()) };
        match progress.token {
            TokenProgress::NotQueried => {
                progress.token = TokenProgress::Consumed(token);
                // The Node may be alive, so the pass needs a new permit: a brake may have been set since the last one.
                // The store charges each loss once.
                progress.permitted = false;
            }
            // The row records a token before its machine can use it. So a consumed replacement proves a stale row.
            TokenProgress::Consumed(_)
            | TokenProgress::Deregistered
            | TokenProgress::Issued(..)
            | TokenProgress::Recorded(_) => return Err(EarlyExit::TokenConsumedAgain),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
