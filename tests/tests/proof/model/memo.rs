//! The product's own decisions, memoised: rows, readings, and every exchange of a pass.
//!
//! The model decides nothing: the real aggregate makes every row, the real `RawObservation` every
//! fact, the real `next` every decision and the real `step` every effect. All are pure, so the memo
//! calls each once per input and numbers the results. A model state holds only
//! such numbers.
//!
//! Versions and times are relative: every row is normalised to one version, one event number and
//! one time. Whether a worker's copy is still the stored row is part of the model state.

use broker_app::decide::{Effect, EffectResult, Mode, NextStep, PassState, step};
use broker_app::observe::Observation;
use broker_domain::{
    Change, Declaration, Error, MeshRole, OnFailure, Parameters, Phase, ProvisionedResource, next,
};
use broker_ports::ObjectVersion;
use broker_render::Precondition;
use broker_testkit::builders::{id, stamp};

use super::cache::{Memoised, MemoisedByNumber, Numbered};
use super::raw_observation::{raw_observation, secrets_of};
use super::row::{broken_promise, normalised};
use super::rule::{Rule, Violation};
use super::vocabulary::{
    CheckpointId, Command, ObservationId, Operation, Plan, Reply, RowFacts, RowId, View,
    loss_number, token_id, token_number, uid,
};
use super::world::ArmedWith;

/// A pass in progress, and its next step.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checkpoint {
    state: PassState,
    next_step: NextStep,
}

pub(super) struct Memo {
    without: Option<Rule>,
    /// The composed object is a Secret, which the broker may not read.
    pub(super) composes_secret: bool,
    rows: Numbered<ProvisionedResource>,
    observations: Numbered<Observation>,
    checkpoints: Numbered<Checkpoint>,
    facts: MemoisedByNumber<RowFacts>,
    commands: MemoisedByNumber<(Command, RowId)>,
    first_checkpoints: Memoised<RowId, CheckpointId>,
    plans: Memoised<(RowId, View), Plan>,
    persist_checkpoints: Memoised<(CheckpointId, ObservationId, Phase), CheckpointId>,
    replies: Memoised<(CheckpointId, Reply), CheckpointId>,
    requests: Memoised<RowId, Option<(RowId, Option<Violation>)>>,
    retries: Memoised<RowId, Option<(RowId, Option<Violation>)>>,
}

impl Memo {
    pub(super) fn new(without: Option<Rule>, composes_secret: bool) -> Self {
        Self {
            without,
            composes_secret,
            rows: Numbered::default(),
            observations: Numbered::default(),
            checkpoints: Numbered::default(),
            facts: MemoisedByNumber::default(),
            commands: MemoisedByNumber::default(),
            first_checkpoints: Memoised::default(),
            plans: Memoised::default(),
            persist_checkpoints: Memoised::default(),
            replies: Memoised::default(),
            requests: Memoised::default(),
            retries: Memoised::default(),
        }
    }

    pub(super) fn lacks(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }

    pub(super) fn declared(&self, number: u8, role: MeshRole, on_failure: OnFailure) -> RowId {
        let declaration = Declaration::new(id(1), id(2), id(3), id(4)).on_failure(on_failure);
        let own = id(0x50 + u128::from(number));
        let change =
            ProvisionedResource::new(own, &declaration, role, Parameters::default(), stamp(1, 0));
        self.row(change.unwrap().resource())
    }

    pub(super) fn facts(&self, row: RowId) -> RowFacts {
        self.facts.get(row.0, || {
            let row = self.rows.get(row.0);
            RowFacts {
                phase: row.phase(),
                role: row.mesh_role(),
                token: row.bootstrap_token_id().map(token_number),
                closed: row.token_closed(),
                terminal: row.is_terminal(),
                secrets: secrets_of(&row),
            }
        })
    }

    /// The row after a caller's deletion request; `None` if it is already being deleted.
    pub(super) fn deletion_requested(&self, row: RowId) -> Option<(RowId, Option<Violation>)> {
        self.requests.get_or_compute(row, || {
            let before = self.rows.get(row.0);
            let change = before.request_deletion(stamp(9, 0))?;
            Some((self.row(change.resource()), broken_promise(&before, &change)))
        })
    }

    /// The row after an operator's retry; `None` unless it failed.
    pub(super) fn retried(&self, row: RowId) -> Option<(RowId, Option<Violation>)> {
        self.retries.get_or_compute(row, || {
            let before = self.rows.get(row.0);
            let change = before.retry(stamp(9, 0)).ok()?;
            Some((self.row(change.resource()), broken_promise(&before, &change)))
        })
    }

    pub(super) fn prepare(&self, row: RowId) -> CheckpointId {
        self.first_checkpoints.get_or_compute(row, || {
            let row = ProvisionedResource::clone(&self.rows.get(row.0));
            self.begin(&PassState::prepare(row, Mode::Live))
        })
    }

    pub(super) fn plan(&self, row: RowId, view: View) -> Plan {
        self.plans.get_or_compute((row, view), || {
            let resource = self.rows.get(row.0);
            let seen = raw_observation(self.without, self.composes_secret, &resource, view);
            let (action, to) = next(&seen.facts, resource.phase());
            let acting = PassState::act(
                ProvisionedResource::clone(&resource),
                Mode::Live,
                seen.clone(),
                action,
            );
            Plan {
                begin: self.begin(&acting),
                seen: ObservationId(self.observations.number(seen)),
                to,
            }
        })
    }

    /// After the act: begins to store the decision.
    pub(super) fn persist(
        &self,
        acted: CheckpointId,
        seen: ObservationId,
        to: Phase,
    ) -> CheckpointId {
        self.persist_checkpoints.get_or_compute((acted, seen, to), || {
            let resource = self.checkpoints.get(acted.0).state.resource().clone();
            let seen = Observation::clone(&self.observations.get(seen.0));
            self.begin(&PassState::persist(resource, Mode::Live, seen, to))
        })
    }

    pub(super) fn reply(&self, checkpoint: CheckpointId, reply: Reply) -> CheckpointId {
        self.replies.get_or_compute((checkpoint, reply), || {
            let result = match reply {
                Reply::Committed(row) => EffectResult::Committed(Box::new(
                    ProvisionedResource::clone(&self.rows.get(row.0)),
                )),
                Reply::LostRace => EffectResult::LostRace,
                Reply::Done => EffectResult::Done,
                Reply::Permitted => EffectResult::Permitted,
                Reply::OverBudget => EffectResult::OverBudget,
                Reply::Applied(number) => {
                    EffectResult::Applied(ObjectVersion::new(uid(number), "own"))
                }
                Reply::Issued(token) => EffectResult::Issued(token_id(token)),
                Reply::Consumed(token) => EffectResult::Consumed(token_id(token)),
            };
            let (state, next_step) = step(&self.checkpoints.get(checkpoint.0).state, result);
            CheckpointId(self.checkpoints.number(Checkpoint { state, next_step }))
        })
    }

    pub(super) fn command(&self, checkpoint: CheckpointId) -> Command {
        self.command_and_row(checkpoint).0
    }

    pub(super) fn row_of(&self, checkpoint: CheckpointId) -> RowId {
        self.command_and_row(checkpoint).1
    }

    fn command_and_row(&self, checkpoint: CheckpointId) -> (Command, RowId) {
        self.commands.get(checkpoint.0, || {
            let checkpoint = self.checkpoints.get(checkpoint.0);
            let resource = checkpoint.state.resource();
            let command = match &checkpoint.next_step {
                NextStep::Perform(effect) => Command::Perform(self.operation(resource, effect)),
                NextStep::Continue => Command::Continue,
                NextStep::End(_) => Command::End,
            };
            (command, self.row(resource))
        })
    }

    fn begin(&self, state: &PassState) -> CheckpointId {
        let (state, next_step) = step(state, EffectResult::Begin);
        CheckpointId(self.checkpoints.number(Checkpoint { state, next_step }))
    }

    fn row(&self, resource: &ProvisionedResource) -> RowId {
        RowId(self.rows.number(normalised(resource)))
    }

    fn operation(&self, resource: &ProvisionedResource, effect: &Effect) -> Operation {
        let now = stamp(9, 0);
        match effect {
            Effect::RequestDeletion => self.write(resource, Ok(resource.request_deletion(now))),
            Effect::RecordClosed => self.write(resource, resource.record_closed(now.at)),
            Effect::RecordSubstrate(substrate) => {
                self.write(resource, resource.record_substrate(substrate.clone(), now.at))
            }
            Effect::RecordToken(token, ordinal, xr) => {
                let xr = xr.clone().expect("every uid of the model is valid");
                let change = resource.record_token_for(xr, *token, *ordinal, now.at);
                self.write(resource, change.map(Some))
            }
            Effect::CheckBrake => Operation::CheckBrake,
            Effect::TakePermit(lost) => Operation::TakePermit(loss_number(lost)),
            Effect::UpdatePhase(to) => self.write(resource, resource.advance(*to, now)),
            Effect::Fail(reason) => self.write(resource, resource.fail(reason.clone(), now)),
            Effect::CloseTokens => Operation::Close,
            Effect::ApplyProviderConfig(on) => {
                Operation::ApplyConfig { first: *on == Precondition::Absent }
            }
            Effect::ApplyShell(on) => Operation::ApplyShell { first: *on == Precondition::Absent },
            Effect::IssueToken(ordinal) => {
                Operation::Issue { ordinal: u8::try_from(ordinal.get()).unwrap() }
            }
            Effect::DeregisterNode(token) => Operation::Deregister(token_number(*token)),
            Effect::Arm(with, on) => {
                assert_eq!(on.resource_version, "own", "an arm builds on the pass's own apply");
                Operation::Arm(ArmedWith::of(*with))
            }
            Effect::Reapply(_, on) => {
                assert_eq!(on.resource_version, "seen", "a re-apply builds on what was seen");
                Operation::Reapply
            }
            Effect::DeleteXr(_) => Operation::DeleteXr,
            Effect::DeleteProviderConfig(_) => Operation::DeleteConfig,
        }
    }

    fn write(
        &self,
        before: &ProvisionedResource,
        change: Result<Option<Change>, Error>,
    ) -> Operation {
        match change {
            Err(_) => Operation::Refused,
            Ok(None) => Operation::Unchanged(self.row(before)),
            Ok(Some(change)) => Operation::Commit {
                to: self.row(change.resource()),
                violation: broken_promise(before, &change),
            },
        }
    }
}
