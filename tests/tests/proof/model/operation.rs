//! The effect of an operation outside, and whether it violates a promise: the contracts of store,
//! issuer, mesh and cluster.

use broker_domain::Phase;

use super::moves::Changed;
use super::pass::{Memory, Rules};
use super::rule::{Rule, Violation, Violations};
use super::words::{Operation, Reply, RowFacts, RowId};
use super::world::{Resource, With, Xr};

impl Resource {
    /// Executes it; `None` when it is refused, which ends a pass.
    pub(super) fn execute(
        &mut self,
        rules: Rules<'_>,
        place: usize,
        operation: Operation,
        violations: &mut Violations,
    ) -> Option<Reply> {
        match operation {
            Operation::Unchanged(row) => Some(Reply::Committed(row)),
            Operation::Refused => None,
            Operation::Commit { to, violation, .. } => {
                Some(self.commit(rules, place, to, violation, violations))
            }
            Operation::Close => {
                if !rules.lacks(Rule::CloseFirst) {
                    self.world.issuer.closed = true;
                    self.world.issuer.open = None;
                }
                Some(Reply::Done)
            }
            Operation::Issue { ordinal } => self.issue(rules, place, ordinal),
            Operation::Deregister(token) => {
                self.deregister(rules, token, violations);
                Some(Reply::Done)
            }
            Operation::ApplyConfig { first } => Some(self.apply_config(place, first)),
            Operation::ApplyShell { first: true } => Some(self.apply_first(rules, place)),
            Operation::ApplyShell { first: false } => Some(self.touch(rules, place)),
            Operation::Arm(with) => Some(self.arm(rules, place, with)),
            Operation::Reapply => Some(self.reapply(place)),
            Operation::DeleteXr => Some(self.delete_xr(rules, place, violations)),
            Operation::DeleteConfig => Some(self.delete_config(rules, place, violations)),
            Operation::CheckBrake => Some(Reply::Permitted),
            Operation::TakePermit(loss) => Some(self.take_permit(rules, place, loss)),
        }
    }

    /// The store: guarded by version and epoch, atomic.
    fn commit(
        &mut self,
        rules: Rules<'_>,
        place: usize,
        to: RowId,
        violation: Option<Violation>,
        violations: &mut Violations,
    ) -> Reply {
        let pass = self.passes[place];
        let (before, after) = (rules.memo.facts(self.world.row), rules.memo.facts(to));
        let has_lease = pass.epoch == self.world.epoch;
        if !(pass.row_fresh || rules.lacks(Rule::VersionGuard)) {
            return Reply::LostRace;
        }
        if !(has_lease || rules.lacks(Rule::LeaseGuard)) {
            return Reply::LostRace;
        }
        if !has_lease {
            violations.add(Violation::WriteWithoutLease);
        }
        if before.phase != after.phase && !before.phase.can_become(after.phase) {
            violations.add(Violation::IllegalEdge);
        }
        let crossing = before.phase != after.phase;
        if crossing && after.phase == Phase::Deleted && self.something_is_left(rules, place, after)
        {
            violations.add(Violation::LeftBehind);
        }
        let mistaken = pass.mistaken.filter(|_| crossing && after.phase == Phase::Ready);
        for violation in violation.into_iter().chain(mistaken) {
            violations.add(violation);
        }
        self.world.recorded |= after.secrets;
        self.wrote(to, Some(place));
        Reply::Committed(to)
    }

    /// An object of a request that arrived after the last read is an orphan, and the sweep finds
    /// it. Anything else should have been read.
    fn something_is_left(&self, rules: Rules<'_>, place: usize, row: RowFacts) -> bool {
        let world = &self.world;
        // A recorded Secret may be left to the garbage collector if the row, and so the event,
        // names it.
        let composed = if rules.memo.composes_secret {
            world.composed() & world.recorded & !row.secrets != 0
        } else {
            world.has_machine()
        };
        let armed = world.xr.is_some_and(|xr| xr.armed.is_some());
        let exists = world.xr.is_some() || world.config;
        let in_the_mesh = world.issuer.has_live_node() || world.issuer.open.is_some();
        composed || armed || in_the_mesh || (exists && !self.passes[place].surprised)
    }

    fn issue(&mut self, rules: Rules<'_>, place: usize, ordinal: u8) -> Option<Reply> {
        let epoch = self.passes[place].epoch;
        let fresh = self.fresh_token(rules.memo);
        let issuer = &mut self.world.issuer;
        let closed = issuer.closed && !rules.lacks(Rule::IssuerClosed);
        if closed || (epoch < issuer.seen && !rules.lacks(Rule::IssuerEpoch)) {
            return None;
        }
        issuer.seen = issuer.seen.max(epoch);
        if let Some(node) = issuer.consumed[usize::from(ordinal) - 1] {
            let again = rules.lacks(Rule::Consumed);
            return Some(if again {
                Reply::Issued(node.token)
            } else {
                Reply::Consumed(node.token)
            });
        }
        issuer.open = Some((fresh, ordinal));
        Some(Reply::Issued(fresh))
    }

    fn deregister(&mut self, rules: Rules<'_>, token: u8, violations: &mut Violations) {
        let row = rules.memo.facts(self.world.row);
        let nodes = self.world.issuer.consumed.iter_mut().flatten();
        for node in nodes.filter(|node| node.token == token && !node.left) {
            node.left = true;
            let wanted = |xr: &Xr| xr.armed == Some(With::Token(token)) && !xr.deleting;
            if !row.phase.is_teardown() && self.world.xr.as_ref().is_some_and(wanted) {
                violations.add(Violation::HealthyNodeLeft);
            }
        }
    }

    /// The store: guarded like a write, and one permit per loss.
    fn take_permit(&mut self, rules: Rules<'_>, place: usize, loss: u8) -> Reply {
        let pass = self.passes[place];
        if !pass.row_fresh || pass.epoch != self.world.epoch {
            return Reply::LostRace;
        }
        let budget = &mut self.world.budget;
        let Some(allowance) = rules.allowance.filter(|_| !rules.lacks(Rule::Permit)) else {
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

    /// Uids differ only where losses are counted; elsewhere they would only multiply states.
    fn next_uid(&mut self, rules: Rules<'_>) -> u8 {
        let born = &mut self.world.budget.born;
        let uid = *born;
        *born += u8::from(rules.allowance.is_some());
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

    fn apply_first(&mut self, rules: Rules<'_>, place: usize) -> Reply {
        if rules.lacks(Rule::Shell) {
            // Skipped: the arm has to create the object in any case.
            return Reply::Applied(0);
        }
        if self.world.xr.is_some() {
            return Reply::LostRace;
        }
        let uid = self.next_uid(rules);
        self.world.xr = Some(Xr::shell(uid));
        self.passes[place].xr = Memory::Same;
        Reply::Applied(uid)
    }

    fn touch(&mut self, rules: Rules<'_>, place: usize) -> Reply {
        if self.passes[place].xr != Memory::Same {
            return Reply::LostRace;
        }
        let uid = self.world.xr.map_or(0, |xr| xr.uid);
        if rules.lacks(Rule::Touch) {
            return Reply::Applied(uid);
        }
        self.change_xr_by(place, |_| {});
        Reply::Applied(uid)
    }

    fn arm(&mut self, rules: Rules<'_>, place: usize, with: With) -> Reply {
        let unseen = rules.lacks(Rule::Shell) && self.passes[place].xr == Memory::Gone;
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
        if rules.allowance.is_some() {
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

    fn delete_xr(&mut self, rules: Rules<'_>, place: usize, violations: &mut Violations) -> Reply {
        let Some(xr) = self.world.xr else { return Reply::Done };
        if self.passes[place].xr == Memory::Gone {
            return Reply::LostRace;
        }
        if xr.foreground {
            return Reply::Done;
        }
        let issuer = &self.world.issuer;
        if issuer.has_live_node() || issuer.open.is_some() {
            violations.add(Violation::DeletedUnderNode);
        }
        if !rules.memo.facts(self.world.row).phase.is_teardown() {
            violations.add(Violation::UnwantedDeletion);
        }
        self.change_xr_by(place, Xr::delete_in_foreground);
        Reply::Done
    }

    fn delete_config(
        &mut self,
        rules: Rules<'_>,
        place: usize,
        violations: &mut Violations,
    ) -> Reply {
        if !self.world.config {
            return Reply::Done;
        }
        if self.passes[place].config == Memory::Gone {
            return Reply::LostRace;
        }
        let armed = self.world.xr.is_some_and(|xr| xr.armed.is_some());
        let needed = self.world.has_machine() && !rules.memo.composes_secret;
        if needed || armed {
            violations.add(Violation::ConfigGoneFirst);
        }
        if !rules.memo.facts(self.world.row).phase.is_teardown() {
            violations.add(Violation::UnwantedDeletion);
        }
        self.world.config = false;
        self.mark_changed(Changed::ConfigGone, None);
        Reply::Done
    }

    fn change_xr_by(&mut self, place: usize, change: impl FnOnce(&mut Xr)) {
        let Some(xr) = &mut self.world.xr else { return };
        change(xr);
        self.mark_changed(Changed::Xr, Some(place));
        self.passes[place].xr = Memory::Same;
    }

    pub(super) fn check_invariants(&self, rules: Rules<'_>, violations: &mut Violations) {
        let world = &self.world;
        let row = rules.memo.facts(world.row);
        let issuer = &world.issuer;
        if row.closed && issuer.open.is_some() {
            violations.add(Violation::TokenAfterClose);
        }
        if let Some(With::Token(token)) = world.xr.and_then(|xr| xr.armed)
            && !issuer.closed
            && !issuer.knows(token)
        {
            violations.add(Violation::DeadToken);
        }
        if rules.allowance.is_some_and(|allowance| world.budget.armed > allowance + 1) {
            violations.add(Violation::OverBudget);
        }
        let machine = world.has_machine() && !rules.memo.composes_secret;
        let alive = machine || world.xr.is_some_and(|xr| xr.armed.is_some());
        if row.phase == Phase::Deleted && alive {
            violations.add(Violation::LifeAfterDeleted);
        }
    }
}
