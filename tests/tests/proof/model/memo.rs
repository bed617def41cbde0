//! The product's own decisions, written down once each: rows, sights, and every word of a conversation.
//!
//! Nothing is decided here. The real aggregate makes every row, the real raw_observation every fact, the real `next`
//! every decision and the real `step` every effect. They are pure, so each question is asked once and its answer
//! kept under a small number; a state of the model holds numbers only.
//!
//! Versions and times are relative: every row is brought to one version, one event number and one time, and
//! whether somebody's copy of it is still the stored one is told beside it.

use broker_app::decide::{Effect, EffectResult, Mode, NextStep, PassState, step};
use broker_app::observe::Observation;
use broker_domain::{
    Change, Declaration, Error, MeshRole, OnFailure, Parameters, Phase, ProvisionedResource, next,
};
use broker_ports::ObjectVersion;
use broker_render::Precondition;
use broker_testkit::builders::{id, stamp};

use super::cache::{Asked, Listed, Numbered};
use super::raw_observation::{raw_observation, secrets_of};
use super::row::{at_rest_in_time, broken_promise};
use super::rule::{Rule, Violation};
use super::words::{
    CheckpointId, Command, ObservationId, Operation, Plan, Reply, RowFacts, RowId, View,
    loss_number, token_id, token_number, uid,
};
use super::world::With;

/// A conversation, and what was answered last.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checkpoint {
    state: PassState,
    next_step: NextStep,
}

/// Everything that was ever asked.
pub(super) struct Memo {
    without: Option<Rule>,
    /// What is composed is a Secret, which the broker may not read.
    pub(super) composes_secret: bool,
    rows: Numbered<ProvisionedResource>,
    seen: Numbered<Observation>,
    checkpoints: Numbered<Checkpoint>,
    facts: Listed<RowFacts>,
    command: Listed<(Command, RowId)>,
    preparing: Asked<RowId, CheckpointId>,
    plans: Asked<(RowId, View), Plan>,
    persisting: Asked<(CheckpointId, ObservationId, Phase), CheckpointId>,
    replies: Asked<(CheckpointId, Reply), CheckpointId>,
    requests: Asked<RowId, Option<(RowId, Option<Violation>)>>,
    retries: Asked<RowId, Option<(RowId, Option<Violation>)>>,
}

impl Memo {
    pub(super) fn new(without: Option<Rule>, composes_secret: bool) -> Self {
        Self {
            without,
            composes_secret,
            rows: Numbered::default(),
            seen: Numbered::default(),
            checkpoints: Numbered::default(),
            facts: Listed::default(),
            command: Listed::default(),
            preparing: Asked::default(),
            plans: Asked::default(),
            persisting: Asked::default(),
            replies: Asked::default(),
            requests: Asked::default(),
            retries: Asked::default(),
        }
    }

    pub(super) fn lacks(&self, rule: Rule) -> bool {
        self.without == Some(rule)
    }

    /// A resource that was just declared.
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
                at_rest: row.at_rest(),
                secrets: secrets_of(&row),
            }
        })
    }

    /// What a caller's deletion request makes of a row; nothing if it is on its way already.
    pub(super) fn deletion_requested(&self, row: RowId) -> Option<(RowId, Option<Violation>)> {
        self.requests.ask(row, || {
            let before = self.rows.get(row.0);
            let change = before.request_deletion(stamp(9, 0))?;
            Some((self.row(change.resource()), broken_promise(&before, &change)))
        })
    }

    /// What an operator's retry makes of a row; nothing unless it failed.
    pub(super) fn retried(&self, row: RowId) -> Option<(RowId, Option<Violation>)> {
        self.retries.ask(row, || {
            let before = self.rows.get(row.0);
            let change = before.retry(stamp(9, 0)).ok()?;
            Some((self.row(change.resource()), broken_promise(&before, &change)))
        })
    }

    /// Begins a pass.
    pub(super) fn prepare(&self, row: RowId) -> CheckpointId {
        self.preparing.ask(row, || {
            let row = ProvisionedResource::clone(&self.rows.get(row.0));
            self.begin(&PassState::prepare(row, Mode::Live))
        })
    }

    /// Decides on what was read, and begins to act.
    pub(super) fn plan(&self, row: RowId, view: View) -> Plan {
        self.plans.ask((row, view), || {
            let resource = self.rows.get(row.0);
            let seen = raw_observation(self.without, self.composes_secret, &resource, view);
            let (action, to) = next(&seen.facts, resource.phase());
            let acting = PassState::act(
                ProvisionedResource::clone(&resource),
                Mode::Live,
                seen.clone(),
                action,
            );
            Plan { begin: self.begin(&acting), seen: ObservationId(self.seen.number(seen)), to }
        })
    }

    /// The act is over: begins to store what was decided.
    pub(super) fn persist(
        &self,
        acted: CheckpointId,
        seen: ObservationId,
        to: Phase,
    ) -> CheckpointId {
        self.persisting.ask((acted, seen, to), || {
            let resource = self.checkpoints.get(acted.0).state.resource().clone();
            let seen = Observation::clone(&self.seen.get(seen.0));
            self.begin(&PassState::persist(resource, Mode::Live, seen, to))
        })
    }

    /// Tells a conversation what became of its effect.
    pub(super) fn reply(&self, checkpoint: CheckpointId, reply: Reply) -> CheckpointId {
        self.replies.ask((checkpoint, reply), || {
            let answer = match reply {
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
            let (state, next_step) = step(&self.checkpoints.get(checkpoint.0).state, answer);
            CheckpointId(self.checkpoints.number(Checkpoint { state, next_step }))
        })
    }

    /// What a conversation asks for.
    pub(super) fn command(&self, checkpoint: CheckpointId) -> Command {
        self.heard(checkpoint).0
    }

    /// The row as a conversation knows it.
    pub(super) fn row_of(&self, checkpoint: CheckpointId) -> RowId {
        self.heard(checkpoint).1
    }

    fn heard(&self, checkpoint: CheckpointId) -> (Command, RowId) {
        self.command.get(checkpoint.0, || {
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
        RowId(self.rows.number(at_rest_in_time(resource)))
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
                let xr = xr.clone().expect("every uid of the model can be kept");
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
                Operation::Arm(With::of(*with))
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
