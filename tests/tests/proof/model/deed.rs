//! What an effect does outside, and whether it should have: the contracts of store, issuer, mesh and cluster.

use broker_domain::Phase;

use super::moves::Changed;
use super::pass::{Law, Memory};
use super::rule::{Rule, Wrong, Wrongs};
use super::words::{Deed, Reply, RowFacts, RowId};
use super::world::{Resource, With, Xr};

impl Resource {
    /// Does it; `None` when it is refused, which ends a pass.
    pub(super) fn do_deed(
        &mut self,
        law: Law<'_>,
        place: usize,
        deed: Deed,
        wrongs: &mut Wrongs,
    ) -> Option<Reply> {
        match deed {
            Deed::Unchanged(row) => Some(Reply::Committed(row)),
            Deed::Refused => None,
            Deed::Commit { to, wrong, .. } => Some(self.commit(law, place, to, wrong, wrongs)),
            Deed::Close => {
                if !law.lacks(Rule::CloseFirst) {
                    self.world.issuer.closed = true;
                    self.world.issuer.open = None;
                }
                Some(Reply::Done)
            }
            Deed::Issue { ordinal } => self.issue(law, place, ordinal),
            Deed::Deregister(token) => {
                self.deregister(law, token, wrongs);
                Some(Reply::Done)
            }
            Deed::ApplyConfig { first } => Some(self.apply_config(place, first)),
            Deed::ApplyShell { first: true } => Some(self.apply_first(law, place)),
            Deed::ApplyShell { first: false } => Some(self.touch(law, place)),
            Deed::Arm(with) => Some(self.arm(law, place, with)),
            Deed::Reapply => Some(self.reapply(place)),
            Deed::DeleteXr => Some(self.delete_xr(law, place, wrongs)),
            Deed::DeleteConfig => Some(self.delete_config(law, place, wrongs)),
            Deed::CheckBrake => Some(Reply::Permitted),
            Deed::TakePermit(loss) => Some(self.take_permit(law, place, loss)),
        }
    }

    /// The store: guarded by version and epoch, all or nothing.
    fn commit(
        &mut self,
        law: Law<'_>,
        place: usize,
        to: RowId,
        wrong: Option<Wrong>,
        wrongs: &mut Wrongs,
    ) -> Reply {
        let pass = self.passes[place];
        let (before, after) = (law.book.facts(self.world.row), law.book.facts(to));
        let has_lease = pass.epoch == self.world.epoch;
        if !(pass.row_fresh || law.lacks(Rule::VersionGuard)) {
            return Reply::LostRace;
        }
        if !(has_lease || law.lacks(Rule::LeaseGuard)) {
            return Reply::LostRace;
        }
        if !has_lease {
            wrongs.add(Wrong::WriteWithoutLease);
        }
        if before.phase != after.phase && !before.phase.can_become(after.phase) {
            wrongs.add(Wrong::IllegalEdge);
        }
        let crossing = before.phase != after.phase;
        if crossing && after.phase == Phase::Deleted && self.something_is_left(law, place, after) {
            wrongs.add(Wrong::LeftBehind);
        }
        let mistaken = pass.mistaken.filter(|_| crossing && after.phase == Phase::Ready);
        for wrong in wrong.into_iter().chain(mistaken) {
            wrongs.add(wrong);
        }
        self.world.recorded |= after.secrets;
        self.wrote(to, Some(place));
        Reply::Committed(to)
    }

    /// What a request left that arrived after the last look is an orphan, and found as such; anything else
    /// should have been seen.
    fn something_is_left(&self, law: Law<'_>, place: usize, row: RowFacts) -> bool {
        let world = &self.world;
        // A Secret that was on record may be left to the garbage collector if the row, and so the event, names it.
        let composed = if law.book.composes_secret {
            world.composed() & world.recorded & !row.secrets != 0
        } else {
            world.has_machine()
        };
        let armed = world.xr.is_some_and(|xr| xr.armed.is_some());
        let stands = world.xr.is_some() || world.config;
        let in_the_mesh = world.issuer.has_live_node() || world.issuer.open.is_some();
        composed || armed || in_the_mesh || (stands && !self.passes[place].surprised)
    }

    fn issue(&mut self, law: Law<'_>, place: usize, ordinal: u8) -> Option<Reply> {
        let epoch = self.passes[place].epoch;
        let fresh = self.fresh_token(law.book);
        let issuer = &mut self.world.issuer;
        let closed = issuer.closed && !law.lacks(Rule::IssuerClosed);
        if closed || (epoch < issuer.seen && !law.lacks(Rule::IssuerEpoch)) {
            return None;
        }
        issuer.seen = issuer.seen.max(epoch);
        if let Some(node) = issuer.consumed[usize::from(ordinal) - 1] {
            let again = law.lacks(Rule::Consumed);
            return Some(if again {
                Reply::Issued(node.token)
            } else {
                Reply::Consumed(node.token)
            });
        }
        issuer.open = Some((fresh, ordinal));
        Some(Reply::Issued(fresh))
    }

    fn deregister(&mut self, law: Law<'_>, token: u8, wrongs: &mut Wrongs) {
        let row = law.book.facts(self.world.row);
        let nodes = self.world.issuer.consumed.iter_mut().flatten();
        for node in nodes.filter(|node| node.token == token && !node.left) {
            node.left = true;
            let wanted = |xr: &Xr| xr.armed == Some(With::Token(token)) && !xr.deleting;
            if !row.phase.is_teardown() && self.world.xr.as_ref().is_some_and(wanted) {
                wrongs.add(Wrong::HealthyNodeLeft);
            }
        }
    }

    /// The store: guarded like a write, and one permit for each loss.
    fn take_permit(&mut self, law: Law<'_>, place: usize, loss: u8) -> Reply {
        let pass = self.passes[place];
        if !pass.row_fresh || pass.epoch != self.world.epoch {
            return Reply::LostRace;
        }
        let budget = &mut self.world.budget;
        let Some(allowance) = law.allowance.filter(|_| !law.lacks(Rule::Permit)) else {
            return Reply::Permitted;
        };
        if budget.permit != Some(loss) {
            if budget.spent >= allowance {
                return Reply::OverBudget;
            }
            budget.permit = Some(loss);
            budget.spent += 1;
        }
        Reply::Permitted
    }

    /// Uids differ only where losses are counted: elsewhere they would only tell states apart.
    fn next_uid(&mut self, law: Law<'_>) -> u8 {
        let born = &mut self.world.budget.born;
        let uid = *born;
        *born += u8::from(law.allowance.is_some());
        uid
    }

    fn apply_config(&mut self, place: usize, first: bool) -> Reply {
        let fits = if first {
            !self.world.config
        } else {
            self.world.config && self.passes[place].config == Memory::Same
        };
        if !fits {
            return Reply::LostRace;
        }
        self.world.config = true;
        self.passes[place].config = Memory::Same;
        Reply::Applied(0)
    }

    fn apply_first(&mut self, law: Law<'_>, place: usize) -> Reply {
        if law.lacks(Rule::Shell) {
            // It is left out: whatever stands, the arm will have to create it.
            return Reply::Applied(0);
        }
        if self.world.xr.is_some() {
            return Reply::LostRace;
        }
        let uid = self.next_uid(law);
        self.world.xr = Some(Xr::shell(uid));
        self.passes[place].xr = Memory::Same;
        Reply::Applied(uid)
    }

    fn touch(&mut self, law: Law<'_>, place: usize) -> Reply {
        if self.passes[place].xr != Memory::Same {
            return Reply::LostRace;
        }
        let uid = self.world.xr.map_or(0, |xr| xr.uid);
        if law.lacks(Rule::Touch) {
            return Reply::Applied(uid);
        }
        self.change_xr_by(place, |_| {});
        Reply::Applied(uid)
    }

    fn arm(&mut self, law: Law<'_>, place: usize, with: With) -> Reply {
        let unseen = law.lacks(Rule::Shell) && self.passes[place].xr == Memory::Gone;
        if unseen && self.world.xr.is_none() {
            self.world.xr = Some(Xr { armed: Some(with), ..Xr::shell(0) });
            self.passes[place].xr = Memory::Same;
            return Reply::Applied(0);
        }
        if self.passes[place].xr != Memory::Same {
            return Reply::LostRace;
        }
        self.change_xr_by(place, |xr| {
            xr.armed = Some(with);
            xr.paused = false;
            xr.changed_spec();
        });
        if law.allowance.is_some() {
            self.world.budget.armed += 1;
        }
        Reply::Applied(self.world.xr.map_or(0, |xr| xr.uid))
    }

    fn reapply(&mut self, place: usize) -> Reply {
        if self.passes[place].xr != Memory::Same {
            return Reply::LostRace;
        }
        self.change_xr_by(place, |xr| {
            xr.drifted = false;
            xr.changed_spec();
        });
        Reply::Applied(0)
    }

    fn delete_xr(&mut self, law: Law<'_>, place: usize, wrongs: &mut Wrongs) -> Reply {
        let Some(xr) = self.world.xr else { return Reply::Done };
        if self.passes[place].xr == Memory::Gone {
            return Reply::LostRace;
        }
        if xr.foreground {
            return Reply::Done;
        }
        let issuer = &self.world.issuer;
        if issuer.has_live_node() || issuer.open.is_some() {
            wrongs.add(Wrong::DeletedUnderNode);
        }
        if !law.book.facts(self.world.row).phase.is_teardown() {
            wrongs.add(Wrong::UnwantedDeletion);
        }
        self.change_xr_by(place, Xr::delete_in_foreground);
        Reply::Done
    }

    fn delete_config(&mut self, law: Law<'_>, place: usize, wrongs: &mut Wrongs) -> Reply {
        if !self.world.config {
            return Reply::Done;
        }
        if self.passes[place].config == Memory::Gone {
            return Reply::LostRace;
        }
        let armed = self.world.xr.is_some_and(|xr| xr.armed.is_some());
        let needed = self.world.has_machine() && !law.book.composes_secret;
        if needed || armed {
            wrongs.add(Wrong::ConfigGoneFirst);
        }
        if !law.book.facts(self.world.row).phase.is_teardown() {
            wrongs.add(Wrong::UnwantedDeletion);
        }
        self.world.config = false;
        self.told(Changed::ConfigGone, None);
        Reply::Done
    }

    fn change_xr_by(&mut self, place: usize, change: impl FnOnce(&mut Xr)) {
        let Some(xr) = &mut self.world.xr else { return };
        change(xr);
        self.told(Changed::Xr, Some(place));
        self.passes[place].xr = Memory::Same;
    }

    /// What must hold in every state of a resource.
    pub(super) fn look(&self, law: Law<'_>, wrongs: &mut Wrongs) {
        let world = &self.world;
        let row = law.book.facts(world.row);
        let issuer = &world.issuer;
        if row.closed && issuer.open.is_some() {
            wrongs.add(Wrong::TokenAfterClose);
        }
        if let Some(With::Token(token)) = world.xr.and_then(|xr| xr.armed)
            && !issuer.closed
            && !issuer.knows(token)
        {
            wrongs.add(Wrong::DeadToken);
        }
        if law.allowance.is_some_and(|allowance| world.budget.armed > allowance + 1) {
            wrongs.add(Wrong::OverBudget);
        }
        let machine = world.has_machine() && !law.book.composes_secret;
        let alive = machine || world.xr.is_some_and(|xr| xr.armed.is_some());
        if row.phase == Phase::Deleted && alive {
            wrongs.add(Wrong::LifeAfterDeleted);
        }
    }
}
