//! What makes two states one, so that there are finitely many: numbers of tokens and epochs that are used again, and
//! requests that can do nothing any more.

use super::book::Book;
use super::pass::{At, Law, Memory, Pass};
use super::rule::Rule;
use super::words::Deed;
use super::world::{Resource, World};

impl Resource {
    /// A number that no token has that anybody still speaks of.
    pub(super) fn fresh_token(&self, book: &Book) -> u8 {
        let world = &self.world;
        let mut spoken_of = 0_u64;
        let mut speak = |token: Option<u8>| spoken_of |= token.map_or(0, |token| 1 << token);
        speak(book.facts(world.row).token);
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
                    speak(book.facts(row).token);
                    speak(xr.and_then(|xr| xr.armed?.token()));
                }
                At::Talking { moment, deed, .. } => {
                    speak(book.facts(book.row_of(moment)).token);
                    speak(deed.token(book));
                }
                At::Adrift(deed) => speak(deed.token(book)),
            }
        }
        u8::try_from(spoken_of.trailing_ones()).unwrap()
    }

    /// States that differ in nothing but the numbers of epochs, in the order of requests, or in requests that
    /// can do nothing any more, are one.
    pub(super) fn make_canonical(&mut self, law: Law<'_>) {
        let world = self.world;
        self.passes.retain(|pass| pass.holds || !pass.is_in_vain(law, &world));
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
    /// Whatever happens, its request will find that it came too late.
    fn is_in_vain(&self, law: Law<'_>, world: &World) -> bool {
        let At::Adrift(deed) = self.at else { return false };
        let issuer = &world.issuer;
        match deed {
            Deed::Unchanged(_) | Deed::Refused | Deed::CheckBrake => true,
            Deed::TakePermit(_) => !self.row_fresh || self.epoch != world.epoch,
            Deed::Commit { .. } => {
                let stale = !self.row_fresh && !law.lacks(Rule::VersionGuard);
                stale || (self.epoch != world.epoch && !law.lacks(Rule::LeaseGuard))
            }
            Deed::Close => issuer.closed,
            Deed::Issue { .. } => {
                let closed = issuer.closed && !law.lacks(Rule::IssuerClosed);
                closed || (self.epoch < issuer.seen && !law.lacks(Rule::IssuerEpoch))
            }
            Deed::Deregister(token) => issuer.node(token).is_none_or(|node| node.left),
            Deed::ApplyConfig { first } => !first && self.config != Memory::Same,
            Deed::ApplyShell { first } => !first && self.xr != Memory::Same,
            Deed::Arm(_) => self.xr != Memory::Same && !law.lacks(Rule::Shell),
            Deed::Reapply => self.xr != Memory::Same,
            Deed::DeleteXr => self.xr == Memory::Gone,
            Deed::DeleteConfig => self.config == Memory::Gone,
        }
    }
}

impl Deed {
    fn token(self, book: &Book) -> Option<u8> {
        if let Self::Commit { to, .. } = self {
            book.facts(to).token
        } else if let Self::Arm(with) = self {
            with.token()
        } else if let Self::Deregister(token) = self {
            Some(token)
        } else {
            None
        }
    }
}
