//! Decide: what a pass does next, given what it has done and been answered.
//!
//! A pass is a conversation. [`step`] is one side of it: it takes the state of the conversation and the last
//! answer, and says which one [`Effect`] to perform, or that the stage is over. The other side performs that
//! effect and nothing else. So the same decisions run in production, in simulation and in a model checker,
//! which can stop the conversation after every word.
//!
//! Every type here is `Clone + Eq + Hash` and holds no secret: the plaintext of a token stays with whoever
//! performs the effects.

mod apply;
mod delete;

use broker_domain::{
    Action, BootstrapTokenId, FailureReason, OnFailure, Phase, ProvisionedResource, Substrate,
    TokenOrdinal, XrUid,
};
use broker_ports::{Lost, ObjectVersion};
use broker_render::{Armed, Precondition};

use crate::observe::{Observation, XrObservation};

/// Whether a pass may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It does what it decides.
    Live,
    /// It observes and decides; nothing is written, issued, closed, applied or deleted.
    DryRun,
}

/// Where a pass is in its conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PassState {
    resource: ProvisionedResource,
    mode: Mode,
    stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Prepare { closed: bool, permitted: bool },
    Act { seen: Box<Observation>, action: Action, progress: Progress },
    Persist { seen: Box<Observation>, to: Phase, permitted: bool },
}

/// What has been done in the act stage of this pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Progress {
    /// The store permitted what this stage is about to destroy.
    permitted: bool,
    config_applied: bool,
    /// Our own shell or touch: the version that an arm builds on.
    shell: Option<ObjectVersion>,
    token: TokenProgress,
    /// The last effect of the stage went through.
    finished: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum TokenProgress {
    #[default]
    NotAsked,
    /// The token of the row's ordinal was consumed: its Node has to leave first.
    Consumed(BootstrapTokenId),
    /// That Node has left.
    Deregistered,
    Issued(BootstrapTokenId, TokenOrdinal),
    Recorded(BootstrapTokenId),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Ask whether a brake holds the resource.
    CheckBrake,
    /// Take a permit from the budget for automatic destruction.
    TakePermit(Lost),
    /// Store a deletion request on the broker's own account: a failure is rolled back.
    RequestDeletion,
    /// Close the resource's tokens at the issuer.
    CloseTokens,
    /// Store that they are closed.
    RecordClosed,
    /// Store what stands on the cluster.
    RecordSubstrate(Substrate),
    /// Apply the ProviderConfig.
    ApplyProviderConfig(Precondition),
    /// Apply the composite resource as a shell, stamped with the own epoch.
    ApplyShell(Precondition),
    /// Issue a token under an ordinal.
    IssueToken(TokenOrdinal),
    /// Drain the Node that consumed a token.
    DeregisterNode(BootstrapTokenId),
    /// Store the id of the token that was issued, and which composite resource is about to be armed with it.
    RecordToken(BootstrapTokenId, TokenOrdinal, Option<XrUid>),
    /// Apply the composite resource with what makes it start.
    Arm(Armed, ObjectVersion),
    /// Apply an armed composite resource again, because it drifted.
    Reapply(Armed, ObjectVersion),
    /// Delete the composite resource of a uid.
    DeleteXr(String),
    /// Delete the ProviderConfig of a uid.
    DeleteProviderConfig(String),
    /// Store another phase.
    UpdatePhase(Phase),
    /// Store a terminal failure.
    Fail(FailureReason),
}

/// What became of an effect. A port that failed ends the pass and is not told here.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EffectResult {
    /// Nothing was asked yet: the stage begins.
    Begin,
    /// The write was committed; this is the resource now.
    Committed(Box<ProvisionedResource>),
    /// Somebody else was first: the write, the apply or the deletion changed nothing.
    LostRace,
    /// The broker may go on: no brake holds the resource, and the budget allows it.
    Permitted,
    /// A brake holds the resource.
    Braked,
    /// The budget for automatic destruction is spent for now.
    OverBudget,
    /// It was done, and there is nothing to know about it.
    Done,
    /// A deletion was accepted: the object goes in the foreground, after what it owns.
    Deleting,
    /// It stands, at this version.
    Applied(ObjectVersion),
    /// A token was issued.
    Issued(BootstrapTokenId),
    /// The token of that ordinal was consumed before.
    Consumed(BootstrapTokenId),
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a next_step is moved once per effect; a box would be one more allocation each time"
)]
pub enum NextStep {
    /// Do this, and come back with the answer.
    Perform(Effect),
    /// The stage is over; the pass goes on with the resource as it is.
    Continue,
    /// The pass is over, quietly.
    End(EarlyExit),
}

/// Why a pass is over before its end. None of these is an error: the next pass sees what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EarlyExit {
    /// Somebody else changed the row or an object first.
    LostRace,
    /// The composite resource is armed with another token than the row's: the row in hand is old.
    StaleRow,
    /// The token that should replace a consumed one was consumed as well.
    TokenConsumedAgain,
    /// Substrate would be deleted although tokens are not known to be closed.
    TokensOpen,
    /// A brake holds the resource: an operator has to release it.
    Braked,
    /// What was lost may be re-created or given up later, when the budget allows it.
    OverBudget,
}

impl EarlyExit {
    /// Every ending.
    pub const ALL: &[Self] = &[
        Self::LostRace,
        Self::StaleRow,
        Self::TokenConsumedAgain,
        Self::TokensOpen,
        Self::Braked,
        Self::OverBudget,
    ];

    /// The ending's name in metrics.
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

    /// The ending in words, for the schedule.
    pub const fn message(self) -> &'static str {
        match self {
            Self::LostRace => "another writer changed the row or an object first",
            Self::StaleRow => "the composite resource is armed with another token than the row's",
            Self::TokenConsumedAgain => {
                "the token that should replace a consumed one was consumed as well"
            }
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
    /// Begins the stage before observing: a rollback is requested, tokens are closed.
    pub const fn prepare(resource: ProvisionedResource, mode: Mode) -> Self {
        Self { resource, mode, stage: Stage::Prepare { closed: false, permitted: false } }
    }

    /// Begins the stage that acts on a decision.
    pub fn act(
        resource: ProvisionedResource,
        mode: Mode,
        seen: Observation,
        action: Action,
    ) -> Self {
        let stage = Stage::Act { seen: Box::new(seen), action, progress: Progress::default() };
        Self { resource, mode, stage }
    }

    /// Begins the stage that stores the phase which was decided.
    pub fn persist(
        resource: ProvisionedResource,
        mode: Mode,
        seen: Observation,
        to: Phase,
    ) -> Self {
        Self {
            resource,
            mode,
            stage: Stage::Persist { seen: Box::new(seen), to, permitted: false },
        }
    }

    /// The resource as the pass knows it.
    pub const fn resource(&self) -> &ProvisionedResource {
        &self.resource
    }

    /// The resource, for the next stage.
    pub fn into_resource(self) -> ProvisionedResource {
        self.resource
    }
}

/// Takes in an answer and says what follows.
pub fn step(state: &PassState, answer: EffectResult) -> (PassState, NextStep) {
    let mut state = state.clone();
    if state.mode == Mode::DryRun {
        return (state, NextStep::Continue);
    }
    let next_step = match record_result(&mut state, answer) {
        Err(ending) => NextStep::End(ending),
        Ok(()) => state.decide(),
    };
    (state, next_step)
}

/// Notes what an answer changed.
fn record_result(state: &mut PassState, answer: EffectResult) -> Result<(), EarlyExit> {
    match answer {
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
            Stage::Act { seen, action, progress } => act(&self.resource, seen, *action, progress),
            Stage::Persist { seen, to, permitted } => {
                persist(&self.resource, seen, *to, *permitted)
            }
        }
    }
}

/// Before anything is observed: a failure that is to be rolled back becomes a deletion request, and a
/// teardown closes the tokens, so that whatever is observed from then on no new Node can appear.
///
/// A rollback of a resource that was Ready destroys something that worked, so it needs a permit.
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
    seen: &Observation,
    action: Action,
    progress: &Progress,
) -> NextStep {
    // What an observation showed is on record before anything is done about it.
    let mut due = match action {
        Action::Apply if apply::goes_ahead(resource, seen) => seen.about_to_apply(),
        Action::Apply | Action::Noop | Action::DeregisterNode | Action::DeleteSubstrate => {
            seen.substrate.clone()
        }
    };
    if let Some(uid) = apply::about_to_arm(resource, progress) {
        due = due.armed(uid);
    }
    if due != *resource.substrate() {
        return NextStep::Perform(Effect::RecordSubstrate(due));
    }
    match action {
        Action::Noop => apply::restore_config(resource, seen, progress),
        Action::Apply => apply::decide(resource, seen, progress),
        Action::DeregisterNode => deregister(resource, progress),
        Action::DeleteSubstrate => delete::decide(resource, seen, progress),
    }
}

/// Without a token there is no Node, and nothing to drain.
fn deregister(resource: &ProvisionedResource, progress: &Progress) -> NextStep {
    match resource.bootstrap_token_id() {
        Some(token) if !progress.finished => NextStep::Perform(Effect::DeregisterNode(token)),
        Some(_) | None => NextStep::Continue,
    }
}

/// Storing that a resource which was Ready has failed can be a fleet's end, so it needs a permit, whatever phase it fell
/// back to since.
fn persist(
    resource: &ProvisionedResource,
    seen: &Observation,
    to: Phase,
    permitted: bool,
) -> NextStep {
    if to == resource.phase() || seen.is_not_believed(resource) {
        return NextStep::Continue;
    }
    if to == Phase::Failed && seen.is_held(resource.project_id()) {
        return NextStep::End(EarlyExit::Braked);
    }
    if to == Phase::Failed && resource.first_ready_at().is_some() && !permitted {
        return NextStep::Perform(permit(resource));
    }
    NextStep::Perform(match (to, &seen.failure) {
        (Phase::Failed, Some(reason)) => Effect::Fail(reason.clone()),
        (Phase::Failed, None) => Effect::Fail(FailureReason::from_message("")),
        (phase, _) => Effect::UpdatePhase(phase),
    })
}

/// The permit for a resource that was applied. One without a uid on record was applied by a release that kept
/// none; then the token tells one loss from the next, and a brake is obeyed in any case.
fn permit(resource: &ProvisionedResource) -> Effect {
    match (resource.substrate().applied(), resource.bootstrap_token_id()) {
        (Some(uid), _) => Effect::TakePermit(Lost::Xr(uid.clone())),
        (None, Some(token)) => Effect::TakePermit(Lost::Node(token)),
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

    /// The composite resource goes after the plain data that it owns, so that is proven gone with it.
    fn deleting(&mut self) {
        if let Self::Act { seen, .. } = self
            && seen.xr != XrObservation::Absent
        {
            seen.substrate = std::mem::take(&mut seen.substrate).without(&seen.plain_data);
        }
        self.done();
    }

    fn applied(&mut self, version: ObjectVersion) {
        let Self::Act { seen, progress, .. } = self else { return };
        if !progress.config_applied && seen.config_needs_apply() {
            progress.config_applied = true;
        } else if progress.shell.is_none() && seen.xr.needs_shell() {
            progress.shell = Some(version);
        } else {
            progress.finished = true;
        }
    }

    fn issued(&mut self, token: BootstrapTokenId, resource: &ProvisionedResource) {
        let Self::Act { progress, .. } = self else { return };
        let ordinal = match progress.token {
            TokenProgress::Deregistered => resource.token_ordinal().next(),
            TokenProgress::NotAsked
            | TokenProgress::Consumed(_)
            | TokenProgress::Issued(..)
            | TokenProgress::Recorded(_) => resource.token_ordinal(),
        };
        progress.token = TokenProgress::Issued(token, ordinal);
    }

    fn consumed(&mut self, token: BootstrapTokenId) -> Result<(), EarlyExit> {
        let Self::Act { progress, .. } = self else { return Ok(()) };
        match progress.token {
            TokenProgress::NotAsked => {
                progress.token = TokenProgress::Consumed(token);
                // The Node may be alive, so the permit is asked for once more: a brake may have been set since. The store
                // charges one loss once.
                progress.permitted = false;
            }
            // A token is recorded before it is put anywhere, so a later one cannot have been consumed
            // unless this row is old.
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
