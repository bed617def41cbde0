//! State reduction: equivalent states become one, so that there are finitely many. Numbers of
//! tokens and epochs are reused, and requests without a possible effect are dropped.

use super::memo::Memo;
use super::pass::{At, Memory, Pass, Rules};
use super::rule::Rule;
use super::words::Operation;
use super::world::{Resource, World};

impl Resource {
    /// A token number that nothing refers to any more.
    pub(super) fn fresh_token(&self, memo: &Memo) -> u8 {
        let world = &self.world;
        let mut spoken_of = 0_u64;
        let mut speak = |token: Option<u8>| spoken_of |= token.map_or(0, |token| 1 << token);
        speak(memo.facts(world.row).token);
        speak(world.issuer.open.map(|(token, _)| token));
        speak(world.xr.and_then(|xr| xr.armed?.token()));
        for node in world.issuer.consumed.iter().flatten() {
            speak(Some(node.token));
        }
        for machine in world.machines.iter().flatten() {
            speak(machine.with.token());
        }
        for pass in &self.passes {
            match pass.at {
                At::Reading { row, xr, .. } => {
                    speak(memo.facts(row).token);
                    speak(xr.and_then(|xr| xr.armed?.token()));
                }
                At::Talking { checkpoint, operation, .. } => {
                    speak(memo.facts(memo.row_of(checkpoint)).token);
                    speak(operation.token(memo));
                }
                At::Adrift(operation) => speak(operation.token(memo)),
            }
        }
        u8::try_from(spoken_of.trailing_ones()).unwrap()
    }

    /// States are equivalent if they differ only in epoch numbers, in the order of requests, or in
    /// requests without a possible effect.
    pub(super) fn make_canonical(&mut self, rules: Rules<'_>) {
        let world = self.world;
        self.passes.retain(|pass| pass.holds || !pass.is_stale(rules, &world));
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
    /// Whether its request is stale in every future.
    fn is_stale(&self, rules: Rules<'_>, world: &World) -> bool {
        let At::Adrift(operation) = self.at else { return false };
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
            Operation::Deregister(token) => issuer.node(token).is_none_or(|node| node.left),
            Operation::ApplyConfig { first } => !first && self.config != Memory::Same,
            Operation::ApplyShell { first } => !first && self.xr != Memory::Same,
            Operation::Arm(_) => self.xr != Memory::Same && !rules.lacks(Rule::Shell),
            Operation::Reapply => self.xr != Memory::Same,
            Operation::DeleteXr => self.xr == Memory::Gone,
            Operation::DeleteConfig => self.config == Memory::Gone,
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
