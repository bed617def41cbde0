//! State reduction: equivalent states become one, so that there are finitely many. Numbers of
//! tokens and epochs are reused, and requests without a possible effect are dropped.

use super::memo::Memo;
use super::pass::{Freshness, Pass, Progress, Rules};
use super::rule::Rule;
use super::vocabulary::Operation;
use super::world::{Resource, World};

impl Resource {
    /// The lowest token number without a reference.
    pub(super) fn fresh_token(&self, memo: &Memo) -> u8 {
        let world = &self.world;
        let mut used = 0_u64;
        let mut mark_used = |token: Option<u8>| used |= token.map_or(0, |token| 1 << token);
        mark_used(memo.facts(world.row).token);
        mark_used(world.issuer.open.map(|(token, _)| token));
        mark_used(world.xr.and_then(|xr| xr.armed?.token()));
        for node in world.issuer.consumed.iter().flatten() {
            mark_used(Some(node.token));
        }
        for machine in world.machines.iter().flatten() {
            mark_used(machine.with.token());
        }
        for pass in &self.passes {
            match pass.progress {
                Progress::Reading { row, xr, .. } => {
                    mark_used(memo.facts(row).token);
                    mark_used(xr.and_then(|xr| xr.armed?.token()));
                }
                Progress::Executing { checkpoint, operation, .. } => {
                    mark_used(memo.facts(memo.row_of(checkpoint)).token);
                    mark_used(operation.token(memo));
                }
                Progress::InFlight(operation) => mark_used(operation.token(memo)),
            }
        }
        u8::try_from(used.trailing_ones()).unwrap()
    }

    /// States are equivalent if they differ only in epoch numbers, in the order of requests, or in
    /// requests without a possible effect.
    pub(super) fn make_canonical(&mut self, rules: Rules<'_>) {
        let world = self.world;
        self.passes.retain(|pass| pass.holds_lease || !pass.is_stale(rules, &world));
        let mut epochs = 1_u64 << self.world.epoch | 1 << self.world.issuer.seen | 1;
        self.passes.iter().for_each(|pass| epochs |= 1 << pass.epoch);
        let below = |epoch: u8| epochs & ((1 << epoch) - 1);
        let rank = |epoch: u8| u8::try_from(below(epoch).count_ones()).unwrap();
        self.world.epoch = rank(self.world.epoch);
        self.world.issuer.seen = rank(self.world.issuer.seen);
        for pass in &mut self.passes {
            pass.epoch = rank(pass.epoch);
        }
        self.passes.sort_unstable();
    }
}

impl Pass {
    /// Whether the request can have no effect in any future state.
    fn is_stale(&self, rules: Rules<'_>, world: &World) -> bool {
        let Progress::InFlight(operation) = self.progress else { return false };
        let issuer = &world.issuer;
        match operation {
            Operation::Unchanged(_) | Operation::Refused | Operation::CheckBrake => true,
            Operation::TakePermit(_) => !self.row_fresh || self.epoch != world.epoch,
            Operation::Commit { .. } => {
                let stale = !self.row_fresh && !rules.lacks(Rule::VersionGuard);
                stale || (self.epoch != world.epoch && !rules.lacks(Rule::LeaseGuard))
            }
            Operation::Close => issuer.closed,
            Operation::Issue { .. } => {
                let closed = issuer.closed && !rules.lacks(Rule::IssuerClosed);
                closed || (self.epoch < issuer.seen && !rules.lacks(Rule::IssuerEpoch))
            }
            Operation::Deregister(token) => issuer.node(token).is_none_or(|node| node.deregistered),
            Operation::ApplyConfig { first } => !first && self.config != Freshness::Same,
            Operation::ApplyShell { first } => !first && self.xr != Freshness::Same,
            Operation::Arm(_) => self.xr != Freshness::Same && !rules.lacks(Rule::Shell),
            Operation::Reapply => self.xr != Freshness::Same,
            Operation::DeleteXr => self.xr == Freshness::Gone,
            Operation::DeleteConfig => self.config == Freshness::Gone,
        }
    }
}

impl Operation {
    fn token(self, memo: &Memo) -> Option<u8> {
        if let Self::Commit { to, .. } = self {
            memo.facts(to).token
        } else if let Self::Arm(with) = self {
            with.token()
        } else if let Self::Deregister(token) = self {
            Some(token)
        } else {
            None
        }
    }
}
