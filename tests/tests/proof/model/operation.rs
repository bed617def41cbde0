//! The contracts of store, issuer, mesh and cluster: what an operation changes, and which promises
//! it violates.

use broker_domain::Phase;

use super::environment_moves::Changed;
use super::pass::{Freshness, Rules};
use super::rule::{Rule, Violation, Violations};
use super::vocabulary::{Operation, Reply, RowFacts, RowId};
use super::world::{ArmedWith, Resource, Xr};

impl Resource {
    /// Executes an operation; `None` if a port refuses it, which ends the pass.
    pub(super) fn execute(
        &mut self,
        rules: Rules<'_>,
        index: usize,
        operation: Operation,
        violations: &mut Violations,
    ) -> Option<Reply> {
        match operation {
            Operation::Unchanged(row) => Some(Reply::Committed(row)),
            Operation::Refused => None,
            Operation::Commit { to, violation, .. } => {
                Some(self.commit(rules, index, to, violation, violations))
            }
            Operation::Close => {
                if !rules.lacks(Rule::CloseFirst) {
                    self.world.issuer.closed = true;
                    self.world.issuer.open = None;
                }
                Some(Reply::Done)
            }
            Operation::Issue { ordinal } => self.issue(rules, index, ordinal),
            Operation::Deregister(token) => {
                self.deregister(rules, token, violations);
                Some(Reply::Done)
            }
            Operation::ApplyConfig { first } => Some(self.apply_config(index, first)),
            Operation::ApplyShell { first: true } => Some(self.apply_first(rules, index)),
            Operation::ApplyShell { first: false } => Some(self.touch(rules, index)),
            Operation::Arm(with) => Some(self.arm(rules, index, with)),
            Operation::Reapply => Some(self.reapply(index)),
            Operation::DeleteXr => Some(self.delete_xr(rules, index, violations)),
            Operation::DeleteConfig => Some(self.delete_config(rules, index, violations)),
            Operation::CheckBrake => Some(Reply::Permitted),
            Operation::TakePermit(loss) => Some(self.take_permit(rules, index, loss)),
        }
    }

    /// The store: guarded by version and epoch, atomic.
    fn commit(
        &mut self,
        rules: Rules<'_>,
        index: usize,
        to: RowId,
        violation: Option<Violation>,
        violations: &mut Violations,
    ) -> Reply {
        let pass = self.passes[index];
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
        if crossing && after.phase == Phase::Deleted && self.something_is_left(rules, index, after)
        {
            violations.add(Violation::LeftBehind);
        }
        let decision_violation =
            pass.decision_violation.filter(|_| crossing && after.phase == Phase::Ready);
        for violation in violation.into_iter().chain(decision_violation) {
            violations.add(violation);
        }
        self.world.recorded |= after.secrets;
        self.wrote(to, Some(index));
        Reply::Committed(to)
    }

    /// An object that arrived after the last read is an orphan, which the sweep finds. The pass should
    /// have read every other object.
    fn something_is_left(&self, rules: Rules<'_>, index: usize, row: RowFacts) -> bool {
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
        composed || armed || in_the_mesh || (exists && !self.passes[index].missed_late_request)
    }

    fn issue(&mut self, rules: Rules<'_>, index: usize, ordinal: u8) -> Option<Reply> {
        let epoch = self.passes[index].epoch;
        let fresh = self.fresh_token(rules.memo);
        let issuer = &mut self.world.issuer;
        let closed = issuer.closed && !rules.lacks(Rule::IssuerClosed);
        if closed || (epoch < issuer.seen && !rules.lacks(Rule::IssuerEpoch)) {
            return None;
        }
        issuer.seen = issuer.seen.max(epoch);
        if let Some(node) = issuer.consumed[usize::from(ordinal) - 1] {
            let issues_again = rules.lacks(Rule::Consumed);
            return Some(if issues_again {
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
        for node in nodes.filter(|node| node.token == token && !node.deregistered) {
            node.deregistered = true;
            let is_wanted = |xr: &Xr| xr.armed == Some(ArmedWith::Token(token)) && !xr.deleting;
            if !row.phase.is_teardown() && self.world.xr.as_ref().is_some_and(is_wanted) {
                violations.add(Violation::HealthyNodeLeft);
            }
        }
    }

    /// The store: guarded like a write, and one permit per loss.
    fn take_permit(&mut self, rules: Rules<'_>, index: usize, loss: u8) -> Reply {
        let pass = self.passes[index];
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

    /// Uids differ only in settings that count losses; elsewhere they would multiply the states.
    fn next_uid(&mut self, rules: Rules<'_>) -> u8 {
        let xrs_created = &mut self.world.budget.xrs_created;
        let uid = *xrs_created;
        *xrs_created += u8::from(rules.allowance.is_some());
        uid
    }

    fn apply_config(&mut self, index: usize, first: bool) -> Reply {
        let fits = if first {
            !self.world.config
        } else {
            self.world.config && self.passes[index].config == Freshness::Same
        };
        if !fits {
            return Reply::LostRace;
        }
        self.world.config = true;
        self.passes[index].config = Freshness::Same;
        Reply::Applied(0)
    }

    fn apply_first(&mut self, rules: Rules<'_>, index: usize) -> Reply {
        if rules.lacks(Rule::Shell) {
            // Without the rule, the arm creates the object.
            return Reply::Applied(0);
        }
        if self.world.xr.is_some() {
            return Reply::LostRace;
        }
        let uid = self.next_uid(rules);
        self.world.xr = Some(Xr::shell(uid));
        self.passes[index].xr = Freshness::Same;
        Reply::Applied(uid)
    }

    fn touch(&mut self, rules: Rules<'_>, index: usize) -> Reply {
        if self.passes[index].xr != Freshness::Same {
            return Reply::LostRace;
        }
        let uid = self.world.xr.map_or(0, |xr| xr.uid);
        if rules.lacks(Rule::Touch) {
            return Reply::Applied(uid);
        }
        self.change_xr_by(index, |_| {});
        Reply::Applied(uid)
    }

    fn arm(&mut self, rules: Rules<'_>, index: usize, with: ArmedWith) -> Reply {
        let creates = rules.lacks(Rule::Shell) && self.passes[index].xr == Freshness::Gone;
        if creates && self.world.xr.is_none() {
            self.world.xr = Some(Xr { armed: Some(with), ..Xr::shell(0) });
            self.passes[index].xr = Freshness::Same;
            return Reply::Applied(0);
        }
        if self.passes[index].xr != Freshness::Same {
            return Reply::LostRace;
        }
        self.change_xr_by(index, |xr| {
            xr.armed = Some(with);
            xr.paused = false;
            xr.changed_spec();
        });
        if rules.allowance.is_some() {
            self.world.budget.armed += 1;
        }
        Reply::Applied(self.world.xr.map_or(0, |xr| xr.uid))
    }

    fn reapply(&mut self, index: usize) -> Reply {
        if self.passes[index].xr != Freshness::Same {
            return Reply::LostRace;
        }
        self.change_xr_by(index, |xr| {
            xr.drifted = false;
            xr.changed_spec();
        });
        Reply::Applied(0)
    }

    fn delete_xr(&mut self, rules: Rules<'_>, index: usize, violations: &mut Violations) -> Reply {
        let Some(xr) = self.world.xr else { return Reply::Done };
        if self.passes[index].xr == Freshness::Gone {
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
        self.change_xr_by(index, Xr::delete_in_foreground);
        Reply::Done
    }

    fn delete_config(
        &mut self,
        rules: Rules<'_>,
        index: usize,
        violations: &mut Violations,
    ) -> Reply {
        if !self.world.config {
            return Reply::Done;
        }
        if self.passes[index].config == Freshness::Gone {
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

    fn change_xr_by(&mut self, index: usize, change: impl FnOnce(&mut Xr)) {
        let Some(xr) = &mut self.world.xr else { return };
        change(xr);
        self.mark_changed(Changed::Xr, Some(index));
        self.passes[index].xr = Freshness::Same;
    }

    pub(super) fn check_invariants(&self, rules: Rules<'_>, violations: &mut Violations) {
        let world = &self.world;
        let row = rules.memo.facts(world.row);
        let issuer = &world.issuer;
        if row.closed && issuer.open.is_some() {
            violations.add(Violation::TokenAfterClose);
        }
        if let Some(ArmedWith::Token(token)) = world.xr.and_then(|xr| xr.armed)
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
            violations.add(Violation::ChangeAfterDeleted);
        }
    }
}
