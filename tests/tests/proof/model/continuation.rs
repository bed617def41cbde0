//! L1 and L2: from every state, once nothing goes wrong any more, everything is settled after a few passes. S12: where
//! nothing happens, passes soon have nothing to do, whatever it is that is waited for.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use broker_tests::K;

use super::moves::Move;
use super::pass::{At, Rules, Times};
use super::rule::Violations;
use super::world::{Budget, Left, Resource, World};

/// Whoever has not got there by then goes round in circles.
const FAR_TOO_MANY: u8 = 3 * K;

/// How quick Crossplane and the agents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pace {
    /// Whatever can happen outside happens between any two effects of a pass.
    Quick,
    /// Nothing happens outside while a pass is under way.
    Slow,
}

/// How many passes each world takes, each counted once.
#[derive(Default)]
pub(super) struct Continuations {
    settled: RwLock<HashMap<(World, Pace), Option<u8>>>,
    /// Whether passes alone come to an end, by the world and by whether the gate is open.
    quiet: RwLock<HashMap<(World, bool), bool>>,
}

impl Continuations {
    /// How many passes it takes until everything is settled and a further pass does nothing; `None` if it
    /// never comes to that.
    pub(super) fn passes(&self, rules: Rules<'_>, world: &World, pace: Pace) -> Option<u8> {
        self.passes_from(rules, world, pace, 0)
    }

    /// The most passes that any world took.
    pub(super) fn longest(&self) -> Option<u8> {
        let known = self.settled.read().unwrap_or_else(PoisonError::into_inner);
        known.values().copied().flatten().max()
    }

    /// Whether passes soon have no effect if nothing at all happens outside.
    pub(super) fn falls_quiet(&self, rules: Rules<'_>, world: &World) -> bool {
        let mut here = forgetful(*world, rules);
        let key = (here.world, rules.gate_open);
        if let Some(known) = self.quiet.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *known;
        }
        let falls_quiet = (0..=K).any(|_| {
            let alone = Resource { world: here.world, passes: Vec::new() };
            let (after, done) = pass(alone, rules, Pace::Slow);
            here = after;
            done == 0
        });
        self.quiet.write().unwrap_or_else(PoisonError::into_inner).insert(key, falls_quiet);
        falls_quiet
    }

    fn passes_from(&self, rules: Rules<'_>, world: &World, pace: Pace, made: u8) -> Option<u8> {
        let here = forgetful(*world, rules);
        let key = (here.world, pace);
        if let Some(known) = self.settled.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *known;
        }
        let settled = settle(here, rules).world;
        let passes = if settled == key.0 {
            let (after, done) = pass(Resource { world: settled, passes: Vec::new() }, rules, pace);
            let after = settle(after, rules).world;
            if done == 0 && after == settled {
                after.is_settled(rules.memo).then_some(0)
            } else if made == FAR_TOO_MANY {
                None
            } else {
                self.passes_from(rules, &after, pace, made + 1).map(|more| more + 1)
            }
        } else {
            self.passes_from(rules, &settled, pace, made)
        };
        self.settled.write().unwrap_or_else(PoisonError::into_inner).insert(key, passes);
        passes
    }
}

/// What is to come does not depend on which epoch it is, nor on what could still have gone wrong.
fn forgetful(world: World, rules: Rules<'_>) -> Resource {
    let world = World { left: Left::default(), budget: Budget::default(), ..world };
    let mut resource = Resource { world, passes: Vec::new() };
    resource.make_canonical(rules);
    resource
}

/// Everything that can happen outside happens.
fn settle(mut resource: Resource, rules: Rules<'_>) -> Resource {
    loop {
        let moves = Move::ORDINARY.into_iter().chain(Move::ENDING);
        // What it would break is found where it is a step of the checker.
        let mut unheard = Violations::default();
        let mut quiet = true;
        for which in moves {
            if let Some(changed) = resource.world.make(which, rules.memo, &mut unheard) {
                resource.told(changed, None);
                quiet = false;
            }
        }
        if quiet {
            return resource;
        }
    }
}

/// One pass that nothing goes wrong for; answers how many effects it had.
fn pass(mut resource: Resource, rules: Rules<'_>, pace: Pace) -> (Resource, usize) {
    let mut unheard = Violations::default();
    let mut done = 0;
    resource.claim(rules, false);
    while let Some(place) = resource.holder() {
        if let At::Reading { .. } = resource.passes[place].at {
            resource.read_rest(rules, place);
            continue;
        }
        resource.perform(rules, place, Times::Once, &mut unheard);
        done += 1;
        if pace == Pace::Quick {
            resource = settle(resource, rules);
        }
    }
    (forgetful(resource.world, rules), done)
}
