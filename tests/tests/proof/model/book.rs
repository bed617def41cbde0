//! The product's own decisions, written down once each: rows, sights, and every word of a conversation.
//!
//! Nothing is decided here. The real aggregate makes every row, the real sight every fact, the real `next`
//! every decision and the real `step` every effect. They are pure, so each question is asked once and its answer
//! kept under a small number; a state of the model holds numbers only.
//!
//! Versions and times are relative: every row is brought to one version, one event number and one moment, and
//! whether somebody's copy of it is still the stored one is told beside it.

use broker_app::decide::{Answer, Effect, Mode, PassState, Verdict, step};
use broker_app::observe::Seen;
use broker_domain::{
    Change, Declaration, Error, MeshRole, OnFailure, Parameters, Phase, ProvisionedResource, next,
};
use broker_ports::ObjectVersion;
use broker_render::Precondition;
use broker_testkit::builders::{id, stamp};

use super::memo::{Asked, Listed, Numbered};
use super::row::{at_rest_in_time, broken_promise};
use super::rule::{Rule, Wrong};
use super::sight::{secrets_of, sight};
use super::words::{
    Deed, MomentId, Plan, Reply, RowFacts, RowId, Said, SeenId, View, loss_number, token_id,
    token_number, uid,
};
use super::world::With;

/// A conversation, and what was answered last.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moment {
    state: PassState,
    verdict: Verdict,
}

/// Everything that was ever asked.
pub(super) struct Book {
    without: Option<Rule>,
    /// What is composed is a Secret, which the broker may not read.
    pub(super) composes_secret: bool,
    rows: Numbered<ProvisionedResource>,
    seen: Numbered<Seen>,
    moments: Numbered<Moment>,
    facts: Listed<RowFacts>,
    said: Listed<(Said, RowId)>,
    preparing: Asked<RowId, MomentId>,
    plans: Asked<(RowId, View), Plan>,
    persisting: Asked<(MomentId, SeenId, Phase), MomentId>,
    replies: Asked<(MomentId, Reply), MomentId>,
    requests: Asked<RowId, Option<(RowId, Option<Wrong>)>>,
    retries: Asked<RowId, Option<(RowId, Option<Wrong>)>>,
}

impl Book {
    pub(super) fn new(without: Option<Rule>, composes_secret: bool) -> Self {
        Self {
            without,
            composes_secret,
            rows: Numbered::default(),
            seen: Numbered::default(),
            moments: Numbered::default(),
            facts: Listed::default(),
            said: Listed::default(),
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
    pub(super) fn deletion_requested(&self, row: RowId) -> Option<(RowId, Option<Wrong>)> {
        self.requests.ask(row, || {
            let before = self.rows.get(row.0);
            let change = before.request_deletion(stamp(9, 0))?;
            Some((self.row(change.resource()), broken_promise(&before, &change)))
        })
    }

    /// What an operator's retry makes of a row; nothing unless it failed.
    pub(super) fn retried(&self, row: RowId) -> Option<(RowId, Option<Wrong>)> {
        self.retries.ask(row, || {
            let before = self.rows.get(row.0);
            let change = before.retry(stamp(9, 0)).ok()?;
            Some((self.row(change.resource()), broken_promise(&before, &change)))
        })
    }

    /// Begins a pass.
    pub(super) fn prepare(&self, row: RowId) -> MomentId {
        self.preparing.ask(row, || {
            let row = ProvisionedResource::clone(&self.rows.get(row.0));
            self.begin(&PassState::prepare(row, Mode::Live))
        })
    }

    /// Decides on what was read, and begins to act.
    pub(super) fn plan(&self, row: RowId, view: View) -> Plan {
        self.plans.ask((row, view), || {
            let resource = self.rows.get(row.0);
            let seen = sight(self.without, self.composes_secret, &resource, view);
            let (action, to) = next(&seen.facts, resource.phase());
            let acting = PassState::act(
                ProvisionedResource::clone(&resource),
                Mode::Live,
                seen.clone(),
                action,
            );
            Plan { begin: self.begin(&acting), seen: SeenId(self.seen.number(seen)), to }
        })
    }

    /// The act is over: begins to store what was decided.
    pub(super) fn persist(&self, acted: MomentId, seen: SeenId, to: Phase) -> MomentId {
        self.persisting.ask((acted, seen, to), || {
            let resource = self.moments.get(acted.0).state.resource().clone();
            let seen = Seen::clone(&self.seen.get(seen.0));
            self.begin(&PassState::persist(resource, Mode::Live, seen, to))
        })
    }

    /// Tells a conversation what became of its effect.
    pub(super) fn reply(&self, moment: MomentId, reply: Reply) -> MomentId {
        self.replies.ask((moment, reply), || {
            let answer = match reply {
                Reply::Committed(row) => {
                    Answer::Committed(Box::new(ProvisionedResource::clone(&self.rows.get(row.0))))
                }
                Reply::LostRace => Answer::LostRace,
                Reply::Done => Answer::Done,
                Reply::Permitted => Answer::Permitted,
                Reply::OverBudget => Answer::OverBudget,
                Reply::Applied(number) => Answer::Applied(ObjectVersion::new(uid(number), "own")),
                Reply::Issued(token) => Answer::Issued(token_id(token)),
                Reply::Consumed(token) => Answer::Consumed(token_id(token)),
            };
            let (state, verdict) = step(&self.moments.get(moment.0).state, answer);
            MomentId(self.moments.number(Moment { state, verdict }))
        })
    }

    /// What a conversation asks for.
    pub(super) fn said(&self, moment: MomentId) -> Said {
        self.heard(moment).0
    }

    /// The row as a conversation knows it.
    pub(super) fn row_of(&self, moment: MomentId) -> RowId {
        self.heard(moment).1
    }

    fn heard(&self, moment: MomentId) -> (Said, RowId) {
        self.said.get(moment.0, || {
            let moment = self.moments.get(moment.0);
            let resource = moment.state.resource();
            let said = match &moment.verdict {
                Verdict::Perform(effect) => Said::Perform(self.deed(resource, effect)),
                Verdict::Continue => Said::Continue,
                Verdict::End(_) => Said::End,
            };
            (said, self.row(resource))
        })
    }

    fn begin(&self, state: &PassState) -> MomentId {
        let (state, verdict) = step(state, Answer::Begin);
        MomentId(self.moments.number(Moment { state, verdict }))
    }

    fn row(&self, resource: &ProvisionedResource) -> RowId {
        RowId(self.rows.number(at_rest_in_time(resource)))
    }

    fn deed(&self, resource: &ProvisionedResource, effect: &Effect) -> Deed {
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
            Effect::CheckBrake => Deed::CheckBrake,
            Effect::TakePermit(lost) => Deed::TakePermit(loss_number(lost)),
            Effect::UpdatePhase(to) => self.write(resource, resource.advance(*to, now)),
            Effect::Fail(reason) => self.write(resource, resource.fail(reason.clone(), now)),
            Effect::CloseTokens => Deed::Close,
            Effect::ApplyProviderConfig(on) => {
                Deed::ApplyConfig { first: *on == Precondition::Absent }
            }
            Effect::ApplyShell(on) => Deed::ApplyShell { first: *on == Precondition::Absent },
            Effect::IssueToken(ordinal) => {
                Deed::Issue { ordinal: u8::try_from(ordinal.get()).unwrap() }
            }
            Effect::DeregisterNode(token) => Deed::Deregister(token_number(*token)),
            Effect::Arm(with, on) => {
                assert_eq!(on.resource_version, "own", "an arm builds on the pass's own apply");
                Deed::Arm(With::of(*with))
            }
            Effect::Reapply(_, on) => {
                assert_eq!(on.resource_version, "seen", "a re-apply builds on what was seen");
                Deed::Reapply
            }
            Effect::DeleteXr(_) => Deed::DeleteXr,
            Effect::DeleteProviderConfig(_) => Deed::DeleteConfig,
        }
    }

    fn write(&self, before: &ProvisionedResource, change: Result<Option<Change>, Error>) -> Deed {
        match change {
            Err(_) => Deed::Refused,
            Ok(None) => Deed::Unchanged(self.row(before)),
            Ok(Some(change)) => Deed::Commit {
                to: self.row(change.resource()),
                wrong: broken_promise(before, &change),
            },
        }
    }
}
