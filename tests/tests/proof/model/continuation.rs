//! L1 and L2: from every state, without further faults, everything is settled after a few passes.
//! S12: without changes outside, passes soon are no-ops, whatever they wait for.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use broker_tests::K;

use super::moves::Move;
use super::pass::{At, Rules, Times};
use super::rule::Violations;
use super::world::{Budget, Left, Resource, World};

/// Beyond this, the passes loop.
const FAR_TOO_MANY: u8 = 3 * K;

/// The relative speed of Crossplane and the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pace {
    /// All possible changes outside happen between any two effects of a pass.
    Quick,
    /// Nothing changes outside during a pass.
    Slow,
}

/// The number of passes per world, memoised.
#[derive(Default)]
pub(super) struct Continuations {
    settled: RwLock<HashMap<(World, Pace), Option<u8>>>,
    /// Whether passes alone terminate, by world and open gate.
    quiet: RwLock<HashMap<(World, bool), bool>>,
}

impl Continuations {
    /// The passes until everything is settled and a further pass is a no-op; `None` if that never
    /// happens.
    pub(super) fn passes(&self, rules: Rules<'_>, world: &World, pace: Pace) -> Option<u8> {
        self.passes_from(rules, world, pace, 0)
    }

    pub(super) fn longest(&self) -> Option<u8> {
        let known = self.settled.read().unwrap_or_else(PoisonError::into_inner);
        known.values().copied().flatten().max()
    }

    /// Whether passes soon have no effect if nothing changes outside.
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

/// The future does not depend on the epoch number or on the remaining faults.
fn forgetful(world: World, rules: Rules<'_>) -> Resource {
    let world = World { left: Left::default(), budget: Budget::default(), ..world };
    let mut resource = Resource { world, passes: Vec::new() };
    resource.make_canonical(rules);
    resource
}

fn settle(mut resource: Resource, rules: Rules<'_>) -> Resource {
    loop {
        let moves = Move::ORDINARY.into_iter().chain(Move::ENDING);
        // A violation here is found where the same step is a step of the checker.
        let mut ignored = Violations::default();
        let mut quiet = true;
        for which in moves {
            if let Some(changed) = resource.world.make(which, rules.memo, &mut ignored) {
                resource.mark_changed(changed, None);
                quiet = false;
            }
        }
        if quiet {
            return resource;
        }
    }
}

/// One pass without faults; returns the number of its effects.
fn pass(mut resource: Resource, rules: Rules<'_>, pace: Pace) -> (Resource, usize) {
    let mut ignored = Violations::default();
    let mut done = 0;
    resource.claim(rules, false);
    while let Some(place) = resource.holder() {
        if let At::Reading { .. } = resource.passes[place].at {
            resource.read_rest(rules, place);
            continue;
        }
        resource.perform(rules, place, Times::Once, &mut ignored);
        done += 1;
        if pace == Pace::Quick {
            resource = settle(resource, rules);
        }
    }
    (forgetful(resource.world, rules), done)
}
