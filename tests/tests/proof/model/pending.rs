//! A worker dies or is cut off, and its request may arrive later.

use broker_domain::Phase;

use super::pass::{Freshness, Pass, Progress, Rules, Stage};
use super::rule::Violations;
use super::vocabulary::Operation;
use super::world::Resource;

impl Resource {
    pub(super) fn crash(&mut self, index: usize) {
        self.passes.remove(index);
    }

    /// The worker is cut off while its request is in flight. Only that request of the pass remains.
    pub(super) fn cut_off(&mut self, index: usize) -> bool {
        let pass = &mut self.passes[index];
        let Progress::Executing { operation, .. } = pass.progress else { return false };
        pass.holds_lease = false;
        pass.progress = Progress::InFlight(operation);
        if !matches!(operation, Operation::Commit { .. } | Operation::TakePermit(_)) {
            pass.row_fresh = false;
            pass.decision_violation = None;
            pass.missed_late_request = false;
        }
        if !matches!(
            operation,
            Operation::ApplyShell { .. }
                | Operation::Arm(_)
                | Operation::Reapply
                | Operation::DeleteXr
        ) {
            pass.xr = Freshness::Gone;
        }
        if !matches!(operation, Operation::ApplyConfig { .. } | Operation::DeleteConfig) {
            pass.config = Freshness::Gone;
        }
        true
    }

    /// The lease ends, and its worker continues.
    pub(super) fn outlive_lease(&mut self, index: usize) {
        self.passes[index].holds_lease = false;
    }

    pub(super) fn deliver_late(
        &mut self,
        rules: Rules<'_>,
        index: usize,
        violations: &mut Violations,
    ) {
        let Progress::InFlight(operation) = self.passes[index].progress else { return };
        self.execute(rules, index, operation, violations);
        self.passes.remove(index);
        for pass in self.passes.iter_mut().filter(|pass| pass.expects_no_late_request()) {
            pass.missed_late_request = true;
        }
    }
}

impl Pass {
    fn expects_no_late_request(&self) -> bool {
        match self.progress {
            Progress::Reading { .. } | Progress::InFlight(Operation::Commit { .. }) => true,
            Progress::Executing { stage: Stage::Act(_, to) | Stage::Persist(to), .. } => {
                to == Phase::Deleted
            }
            Progress::Executing { stage: Stage::Prepare, .. } | Progress::InFlight(_) => false,
        }
    }
}
