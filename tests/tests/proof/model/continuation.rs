//! L1 and L2: from every state, without further faults, everything is settled after a few passes.
//! S12: without changes of the environment, passes become no-ops.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use broker_ports::NamespacePhase;
use broker_tests::K;

use super::environment_moves::Move;
use super::pass::{Progress, Rules, Times};
use super::rule::Violations;
use super::world::{Budget, RemainingFaults, Resource, World};

/// The maximum number of passes; after more, the passes are considered to loop.
const LOOP_LIMIT: u8 = 3 * K;

/// The relative speed of Crossplane and the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pace {
    /// After each effect of a pass, all possible changes of the environment happen.
    Quick,
    /// The environment does not change during a pass.
    Slow,
}

/// The number of passes per world, memoised.
#[derive(Default)]
pub(super) struct Continuations {
    settled: RwLock<HashMap<(World, Pace), Option<u8>>>,
    /// Whether passes alone become no-ops, by world and phase of the namespace.
    become_noops: RwLock<HashMap<(World, NamespacePhase), bool>>,
}

impl Continuations {
    /// The passes until everything is settled and a further pass is a no-op; `None` if that never
    /// happens.
    pub(super) fn passes(&self, rules: Rules<'_>, world: &World, pace: Pace) -> Option<u8> {
        self.passes_from(rules, world, pace, 0)
    }

    pub(super) fn longest(&self) -> Option<u8> {
        let memoised = self.settled.read().unwrap_or_else(PoisonError::into_inner);
        memoised.values().copied().flatten().max()
    }

    /// Whether passes become no-ops while the environment does not change.
    pub(super) fn passes_become_noops(&self, rules: Rules<'_>, world: &World) -> bool {
        let mut start = without_history(*world, rules);
        let key = (start.world, rules.namespace);
        if let Some(memoised) =
            self.become_noops.read().unwrap_or_else(PoisonError::into_inner).get(&key)
        {
            return *memoised;
        }
        let passes_become_noops = (0..=K).any(|_| {
            let alone = Resource { world: start.world, passes: Vec::new() };
            let (after, done) = pass(alone, rules, Pace::Slow);
            start = after;
            done == 0
        });
        self.become_noops
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, passes_become_noops);
        passes_become_noops
    }

    fn passes_from(
        &self,
        rules: Rules<'_>,
        world: &World,
        pace: Pace,
        passes_made: u8,
    ) -> Option<u8> {
        let start = without_history(*world, rules);
        let key = (start.world, pace);
        if let Some(memoised) =
            self.settled.read().unwrap_or_else(PoisonError::into_inner).get(&key)
        {
            return *memoised;
        }
        let settled = settle(start, rules).world;
        let passes = if settled == key.0 {
            let (after, done) = pass(Resource { world: settled, passes: Vec::new() }, rules, pace);
            let after = settle(after, rules).world;
            if done == 0 && after == settled {
                after.is_settled(rules.memo).then_some(0)
            } else if passes_made == LOOP_LIMIT {
                None
            } else {
                self.passes_from(rules, &after, pace, passes_made + 1).map(|more| more + 1)
            }
        } else {
            self.passes_from(rules, &settled, pace, passes_made)
        };
        self.settled.write().unwrap_or_else(PoisonError::into_inner).insert(key, passes);
        passes
    }
}

/// The future does not depend on the epoch number or on the remaining faults.
fn without_history(world: World, rules: Rules<'_>) -> Resource {
    let world =
        World { remaining_faults: RemainingFaults::default(), budget: Budget::default(), ..world };
    let mut resource = Resource { world, passes: Vec::new() };
    resource.make_canonical(rules);
    resource
}

/// Applies moves of the environment until none is enabled.
fn settle(mut resource: Resource, rules: Rules<'_>) -> Resource {
    loop {
        let moves = Move::ORDINARY.into_iter().chain(Move::AFTER_TEARDOWN);
        // The checker reports this violation when it makes the same move itself.
        let mut ignored = Violations::default();
        let mut unchanged = true;
        for next_move in moves {
            if let Some(changed) = resource.world.apply_move(next_move, rules.memo, &mut ignored) {
                resource.mark_changed(changed, None);
                unchanged = false;
            }
        }
        if unchanged {
            return resource;
        }
    }
}

/// One pass without faults; returns the number of its effects.
fn pass(mut resource: Resource, rules: Rules<'_>, pace: Pace) -> (Resource, usize) {
    let mut ignored = Violations::default();
    let mut done = 0;
    resource.claim(rules, false);
    while let Some(index) = resource.holder() {
        if let Progress::Reading { .. } = resource.passes[index].progress {
            resource.read_rest(rules, index);
            continue;
        }
        resource.perform(rules, index, Times::Once, &mut ignored);
        done += 1;
        if pace == Pace::Quick {
            resource = settle(resource, rules);
        }
    }
    (without_history(resource.world, rules), done)
}
