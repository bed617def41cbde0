//! The protocol as a transition system for the checker: states, events, and invariants.

use broker_domain::{MeshRole, OnFailure};
use broker_tests::K;
use stateright::{Model, Property};

use super::continuation::{Continuations, Pace};
use super::environment_moves::{Changed, Move};
use super::memo::Memo;
use super::pass::{Progress, Rules, Times};
use super::rule::{Rule, Violation, Violations};
use super::world::{RemainingFaults, Resource, World};

/// One configuration of the model.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) resources: Vec<(MeshRole, OnFailure)>,
    /// The most requests of one resource that can be in flight after their worker was cut off.
    pub(super) pending: usize,
    pub(super) remaining_faults: RemainingFaults,
    pub(super) gate_moves: bool,
    /// Every request may be executed twice.
    pub(super) twice: bool,
    /// The number of permits, in settings that count them.
    pub(super) allowance: Option<u8>,
    /// The composed object is a Secret, which the broker may not read.
    pub(super) composes_secret: bool,
    pub(super) without: Option<Rule>,
}

pub(super) struct Protocol {
    pub(super) setting: Setting,
    memo: Memo,
    continuations: Continuations,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    resources: Vec<Resource>,
    gate_open: bool,
    violations: Violations,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Event {
    Delete(usize),
    Retry(usize),
    Claim(usize),
    /// A claim whose pass reads a list that is older than every object.
    ClaimBlind(usize),
    Read(usize, usize),
    /// A worker's request is executed once or twice.
    Execute(usize, usize, Times),
    Crash(usize, usize),
    CutOff(usize, usize),
    /// A worker's lease ends, and the worker continues.
    OutliveLease(usize, usize),
    /// A request of a worker that was cut off arrives.
    LateArrival(usize, usize),
    Environment(usize, Move),
    ToggleGate,
}

impl Setting {
    pub(super) fn one(role: MeshRole, on_failure: OnFailure) -> Self {
        Self {
            resources: vec![(role, on_failure)],
            pending: 1,
            remaining_faults: RemainingFaults::default(),
            gate_moves: false,
            twice: false,
            allowance: None,
            composes_secret: false,
            without: None,
        }
    }

    pub(super) fn check(self) -> Protocol {
        let memo = Memo::new(self.without, self.composes_secret);
        Protocol { setting: self, memo, continuations: Continuations::default() }
    }
}

impl Protocol {
    fn rules(&self, state: &State) -> Rules<'_> {
        Rules {
            memo: &self.memo,
            without: self.setting.without,
            gate_open: state.gate_open,
            allowance: self.setting.allowance,
        }
    }

    fn passes_left(&self, state: &State, pace: Pace) -> Option<u8> {
        // The budget recovers with time.
        let rules = Rules { gate_open: true, allowance: None, ..self.rules(state) };
        let passes = |resource: &Resource| self.continuations.passes(rules, &resource.world, pace);
        state.resources.iter().map(passes).try_fold(0, |most, passes| Some(passes?.max(most)))
    }

    /// The most passes from any visited state until everything was settled.
    pub(super) fn longest_path(&self) -> u8 {
        self.continuations.longest().unwrap()
    }

    fn converges(&self, state: &State) -> bool {
        [Pace::Quick, Pace::Slow]
            .into_iter()
            .all(|pace| self.passes_left(state, pace).is_some_and(|passes| passes <= K))
    }

    fn passes_become_noops(&self, state: &State) -> bool {
        let rules = Rules { allowance: None, ..self.rules(state) };
        state
            .resources
            .iter()
            .all(|resource| self.continuations.passes_become_noops(rules, &resource.world))
    }

    fn events_of(&self, state: &State, index: usize, events: &mut Vec<Event>) {
        let resource = &state.resources[index];
        if self.memo.deletion_requested(resource.world.row).is_some() {
            events.push(Event::Delete(index));
        }
        if resource.world.remaining_faults.retries > 0
            && self.memo.retried(resource.world.row).is_some()
        {
            events.push(Event::Retry(index));
        }
        let workers = state.resources.iter().filter(|resource| resource.holder().is_some()).count();
        if resource.holder().is_none() && workers < 2 {
            events.push(Event::Claim(index));
            if self.setting.without == Some(Rule::DirectRead) {
                events.push(Event::ClaimBlind(index));
            }
        }
        for (number, pass) in resource.passes.iter().enumerate() {
            match pass.progress {
                Progress::Reading { .. } => {
                    events.push(Event::Read(index, number));
                    events.push(Event::Crash(index, number));
                }
                Progress::Executing { .. } => {
                    events.push(Event::Execute(index, number, Times::Once));
                    events.push(Event::Crash(index, number));
                    if self.setting.twice {
                        events.push(Event::Execute(index, number, Times::TwiceFirst));
                        events.push(Event::Execute(index, number, Times::TwiceSecond));
                    }
                    if pass.holds_lease && resource.pending_requests() < self.setting.pending {
                        events.push(Event::CutOff(index, number));
                        if self.setting.without == Some(Rule::ActWithinLease) {
                            events.push(Event::OutliveLease(index, number));
                        }
                    }
                }
                Progress::InFlight(_) => events.push(Event::LateArrival(index, number)),
            }
        }
        let moves =
            Move::ORDINARY.into_iter().chain(Move::AFTER_TEARDOWN).chain(Move::INTERFERENCE);
        events.extend(moves.map(|next_move| Event::Environment(index, next_move)));
    }

    /// The resource after an event; `None` if the event is not possible.
    fn apply_event(
        &self,
        rules: Rules<'_>,
        resource: &mut Resource,
        event: Event,
        violations: &mut Violations,
    ) -> Option<()> {
        match event {
            Event::Delete(_) => {
                let (row, violation) = self.memo.deletion_requested(resource.world.row)?;
                if let Some(violation) = violation {
                    violations.add(violation);
                }
                resource.wrote(row, None);
                Some(())
            }
            Event::Retry(_) => {
                let (row, violation) = self.memo.retried(resource.world.row)?;
                resource.world.remaining_faults.retries =
                    resource.world.remaining_faults.retries.checked_sub(1)?;
                if let Some(violation) = violation {
                    violations.add(violation);
                }
                if let Some(xr) = &mut resource.world.xr {
                    xr.failed = false;
                    resource.mark_changed(Changed::Xr, None);
                }
                resource.wrote(row, None);
                Some(())
            }
            Event::Claim(_) => resource.claim(rules, false).then_some(()),
            Event::ClaimBlind(_) => resource.claim(rules, true).then_some(()),
            Event::Read(_, pass) => {
                resource.read_rest(rules, pass);
                Some(())
            }
            Event::Execute(_, pass, times) => {
                resource.perform(rules, pass, times, violations);
                Some(())
            }
            Event::Crash(_, pass) => {
                resource.crash(pass);
                Some(())
            }
            Event::CutOff(_, pass) => resource.cut_off(pass).then_some(()),
            Event::OutliveLease(_, pass) => {
                resource.outlive_lease(pass);
                Some(())
            }
            Event::LateArrival(_, pass) => {
                resource.deliver_late(rules, pass, violations);
                Some(())
            }
            Event::Environment(_, next_move) => {
                let changed = resource.world.apply_move(next_move, &self.memo, violations)?;
                resource.mark_changed(changed, None);
                Some(())
            }
            Event::ToggleGate => None,
        }
    }
}

impl Event {
    const fn resource(self) -> Option<usize> {
        match self {
            Self::Delete(index)
            | Self::Retry(index)
            | Self::Claim(index)
            | Self::ClaimBlind(index)
            | Self::Read(index, _)
            | Self::Execute(index, ..)
            | Self::Crash(index, _)
            | Self::CutOff(index, _)
            | Self::OutliveLease(index, _)
            | Self::LateArrival(index, _)
            | Self::Environment(index, _) => Some(index),
            Self::ToggleGate => None,
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let resources = self.setting.resources.iter().zip(0..);
        let resources = resources.map(|((role, on_failure), number)| {
            let row = self.memo.declared(number, *role, *on_failure);
            let world = World::declared(row, self.setting.remaining_faults);
            Resource { world, passes: Vec::new() }
        });
        let resources = resources.collect();
        vec![State { resources, gate_open: true, violations: Violations::default() }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        if state.violations.any() {
            // One counterexample is enough.
            return;
        }
        for index in 0..state.resources.len() {
            self.events_of(state, index, events);
        }
        if self.setting.gate_moves {
            events.push(Event::ToggleGate);
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let Some(index) = event.resource() else {
            return Some(State { gate_open: !state.gate_open, ..state.clone() });
        };
        if let Event::Environment(_, next_move) = event {
            // Most moves are not possible, and a copy of a world is cheaper than a copy of a state.
            let mut world = state.resources[index].world;
            world.apply_move(next_move, &self.memo, &mut Violations::default())?;
        }
        let mut after = state.clone();
        let rules = self.rules(state);
        let resource = &mut after.resources[index];
        self.apply_event(rules, resource, event, &mut after.violations)?;
        resource.check_invariants(rules, &mut after.violations);
        resource.make_canonical(rules);
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! never {
            ($($name:literal: $violation:ident),+ $(,)?) => {
                vec![$(Property::always($name, |_, state: &State| !state.violations.has(Violation::$violation))),+]
            };
        }
        let mut all = never! {
            "S1 legal edges only, terminal phases stay": IllegalEdge,
            "S2 a phase change and its event are atomic": EventMismatch,
            "S3 events and versions have no gap": BrokenSequence,
            "S4 no token after close": TokenAfterClose,
            "S5 no live Node under deleted substrate": DeletedUnderNode,
            "S7 no object is left when Deleted is written": LeftBehind,
            "S8 no wanted object is deleted": UnwantedDeletion,
            "S8 no healthy Node is deregistered": HealthyNodeLeft,
            "S9 no change after Deleted": ChangeAfterDeleted,
            "S11 Ready is about the live generation": StaleReady,
            "S11 Ready is about the existing machine": OrphanedMachine,
            "S16 no write without a lease": WriteWithoutLease,
            "no XR is armed with a dead token": DeadToken,
            "the ProviderConfig is deleted last": ConfigGoneFirst,
            "S17 re-creation stays within the budget": OverBudget,
        };
        all.push(Property::always(
            "S12 without changes passes are no-ops",
            |model: &Self, state: &State| {
                state.violations.any() || model.passes_become_noops(state)
            },
        ));
        all.push(Property::always(
            "L1, L2 everything is settled after K passes",
            |model: &Self, state: &State| state.violations.any() || model.converges(state),
        ));
        all
    }
}
