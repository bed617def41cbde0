//! The product's own decisions, written down once each: rows, sights, and every word of a conversation.
//!
//! Nothing is decided here. The real aggregate makes every row, the real sight every fact, the real `next`
//! every decision and the real `step` every effect. They are pure, so each question is asked once and its answer
//! kept under a small number; a state of the model holds numbers only.
//!
//! Versions and times are relative: every row is brought to one version, one event number and one moment, and
//! whether somebody's copy of it is still the stored one is told beside it.

use std::collections::{BTreeMap, BTreeSet};

use broker_app::step::{
    Answer, Around, ConfigSeen, Effect, Gate, Mode, PassState, Seen, Sight, Verdict, XrSeen,
    XrSight, step,
};
use broker_domain::{
    BootstrapTokenId, Change, Declaration, Error, MeshRole, NodeObservation, ObjectReference,
    OnFailure, Parameters, Phase, ProvisionedResource, next,
};
use broker_ports::testing::builders::{cluster, composed, id, second, stamp};
use broker_ports::{ConditionStatus, ObjectVersion, Standing, XrStatus};
use broker_render::{Precondition, references_digest};

use super::memo::{Asked, Listed, Numbered};
use super::rule::{Rule, Wrong};
use super::world::{Readiness, With};

/// Every row is brought here, so that only what it says tells it from another.
const VERSION: u64 = 100;
const EVENTS: u64 = 3;
/// Tokens are numbered from here on.
const FIRST_TOKEN: u128 = 0x70;

/// The number of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RowId(u32);
/// The number of what a pass saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SeenId(u32);
/// The number of a moment in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MomentId(u32);

/// What the model needs to know of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowFacts {
    pub(super) phase: Phase,
    pub(super) role: MeshRole,
    pub(super) token: Option<u8>,
    pub(super) closed: bool,
    pub(super) at_rest: bool,
}

/// A conversation, and what was answered last.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moment {
    state: PassState,
    verdict: Verdict,
}

/// What a conversation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Said {
    Perform(Deed),
    Continue,
    End,
}

/// An effect, with what it carries in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Deed {
    /// A write of the row: what it is then.
    Commit {
        to: RowId,
        wrong: Option<Wrong>,
    },
    /// A write that there is nothing to in.
    Unchanged(RowId),
    /// The aggregate refuses it: the pass fails.
    Refused,
    Close,
    ApplyConfig {
        first: bool,
    },
    ApplyShell {
        first: bool,
    },
    Issue {
        ordinal: u8,
    },
    Deregister(u8),
    Arm(With),
    Reapply,
    DeleteXr,
    DeleteConfig,
}

/// What became of a deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Committed(RowId),
    LostRace,
    Done,
    Applied,
    Issued(u8),
    Consumed(u8),
}

/// What was read of a composite resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that can be read by itself")]
pub(super) struct XrView {
    pub(super) armed: Option<With>,
    pub(super) deleting: bool,
    pub(super) refers_to: Option<u8>,
    pub(super) ready: Readiness,
    pub(super) failed: bool,
    pub(super) drifted: bool,
    pub(super) paused: bool,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) xr: Option<XrView>,
    pub(super) config: bool,
    /// One bit for each composed object that stands.
    pub(super) composed: u8,
    pub(super) registered: bool,
    pub(super) gate_open: bool,
}

/// What follows from a view of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub(super) seen: SeenId,
    pub(super) to: Phase,
    pub(super) begin: MomentId,
}

/// Everything that was ever asked.
pub(super) struct Book {
    without: Option<Rule>,
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
}

impl Book {
    pub(super) fn new(without: Option<Rule>) -> Self {
        Self {
            without,
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
        }
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
            let seen = self.sight(&resource, view);
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
                Reply::Applied => Answer::Applied(ObjectVersion::new("uid", "own")),
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
            Effect::RecordToken(token, ordinal) => {
                self.write(resource, resource.record_token(*token, *ordinal, now.at).map(Some))
            }
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

    fn sight(&self, resource: &ProvisionedResource, view: View) -> Seen {
        let View { mut xr, config, composed: standing, registered, gate_open } = view;
        if self.without == Some(Rule::ArmedTells)
            && let Some(paused) = xr.as_mut().filter(|xr| xr.paused)
        {
            paused.armed = None;
        }
        let stands = |name: &u8| standing & (1 << *name) != 0;
        let recorded = resource.substrate().composed().iter().map(|reference| {
            let stands = (0..8).any(|name| stands(&name) && composed_name(name) == *reference);
            (reference.clone(), if stands { Standing::Present } else { Standing::Gone })
        });
        let labelled = (0..8).filter(stands).map(composed_name);
        let labelled: BTreeSet<_> = if self.without == Some(Rule::LabelList) {
            BTreeSet::new()
        } else {
            labelled.collect()
        };
        let registered = resource.bootstrap_token_id().map(|_| registered);
        let sight = Sight {
            cluster: cluster(1),
            xr: xr.map(xr_sight),
            config_stands: config,
            config_reference: composed("config"),
            recorded: recorded.collect::<BTreeMap<_, _>>(),
            labelled,
            node: NodeObservation::of(resource.mesh_role(), registered),
        };
        let around = Around {
            xr: xr.map_or(XrSeen::Absent, xr_seen),
            config: if config {
                ConfigSeen::Stands { at: seen_version(), deleting: false, applied: true }
            } else {
                ConfigSeen::Absent
            },
            gate: if gate_open { Gate::Open } else { Gate::Closed },
            braked: false,
        };
        let mut seen = sight.seen(resource, around);
        if self.without == Some(Rule::ConfigLast) {
            seen.composed_left = false;
        }
        seen
    }
}

fn xr_sight(view: XrView) -> XrSight {
    let mut status = XrStatus::new(2);
    status.deleting = view.deleting;
    (status.ready, status.ready_generation) = match view.ready {
        Readiness::No => (None, None),
        Readiness::Stale => (Some(ConditionStatus::True), Some(1)),
        Readiness::Live => (Some(ConditionStatus::True), Some(2)),
    };
    status.provisioning_failed = view.failed.then(|| "out of quota".to_owned());
    let references: BTreeSet<_> = view.refers_to.map(composed_name).into_iter().collect();
    XrSight { status, references_digest: references_digest(&references), references }
}

fn xr_seen(view: XrView) -> XrSeen {
    let (at, deleting) = (seen_version(), view.deleting);
    match view.armed {
        None => XrSeen::Shell { at, deleting },
        Some(with) => {
            XrSeen::Armed { at, with: Some(with.armed()), deleting, applied: !view.drifted }
        }
    }
}

fn seen_version() -> ObjectVersion {
    ObjectVersion::new("uid", "seen")
}

fn composed_name(name: u8) -> ObjectReference {
    composed(&format!("composed-{name}"))
}

pub(super) fn token_id(token: u8) -> BootstrapTokenId {
    id(FIRST_TOKEN + u128::from(token))
}

pub(super) fn token_number(token: BootstrapTokenId) -> u8 {
    u8::try_from(token.as_uuid().as_u128() - FIRST_TOKEN).unwrap()
}

/// The row at the one version and the one moment at which all rows of the model are.
fn at_rest_in_time(resource: &ProvisionedResource) -> ProvisionedResource {
    let mut row = resource.snapshot();
    let now = second(0);
    row.version = VERSION;
    row.event_sequence = EVENTS;
    row.created_at = now;
    row.updated_at = now;
    row.phase_entered_at = now;
    row.deletion_requested_at = row.deletion_requested_at.map(|_| now);
    let was_ready = row.phase == Phase::Ready.as_str()
        || row.failure_step.as_deref() == Some(Phase::Ready.as_str());
    row.first_ready_at = was_ready.then_some(now);
    ProvisionedResource::hydrate(row).unwrap()
}

/// What every single change has to keep.
fn broken_promise(before: &ProvisionedResource, change: &Change) -> Option<Wrong> {
    let after = change.resource();
    let (from, to) = (before.phase(), after.phase());
    if from != to && !from.can_become(to) {
        return Some(Wrong::IllegalEdge);
    }
    let tells = from != to
        && (matches!(to, Phase::Ready | Phase::Failed | Phase::Deleted)
            || (to == Phase::Deregistering && !from.is_teardown()));
    if tells != change.event().is_some() {
        return Some(Wrong::EventMismatch);
    }
    let numbered = change.event().is_none_or(|event| {
        event.sequence() == before.event_sequence() + 1
            && after.event_sequence() == event.sequence()
    });
    let counted =
        after.version() == before.version().next() && change.expected_version() == before.version();
    (!numbered || !counted).then_some(Wrong::BrokenSequence)
}
