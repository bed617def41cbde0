//! The end of a worker: it dies or is cut off, and its request may arrive later.

use broker_domain::Phase;

use super::pass::{At, Memory, Pass, Rules, Stage};
use super::rule::Violations;
use super::words::Operation;
use super::world::Resource;

impl Resource {
    pub(super) fn crash(&mut self, place: usize) {
        self.passes.remove(place);
    }

    /// The worker is cut off while its request is in flight. Only the content of that request still
    /// matters.
    pub(super) fn cut_off(&mut self, place: usize) -> bool {
        let pass = &mut self.passes[place];
        let At::Talking { operation, .. } = pass.at else { return false };
        pass.holds = false;
        pass.at = At::Adrift(operation);
        if !matches!(operation, Operation::Commit { .. } | Operation::TakePermit(_)) {
            pass.row_fresh = false;
            pass.mistaken = None;
            pass.surprised = false;
        }
        if !matches!(
            operation,
            Operation::ApplyShell { .. }
                | Operation::Arm(_)
                | Operation::Reapply
                | Operation::DeleteXr
        ) {
            pass.xr = Memory::Gone;
        }
        if !matches!(operation, Operation::ApplyConfig { .. } | Operation::DeleteConfig) {
            pass.config = Memory::Gone;
        }
        true
    }

    /// The lease ends, and its worker continues unaware.
    pub(super) fn overstay(&mut self, place: usize) {
        self.passes[place].holds = false;
    }

    pub(super) fn land(&mut self, rules: Rules<'_>, place: usize, violations: &mut Violations) {
        let At::Adrift(operation) = self.passes[place].at else { return };
        self.execute(rules, place, operation, violations);
        self.passes.remove(place);
        for pass in self.passes.iter_mut().filter(|pass| pass.expects_nothing()) {
            pass.surprised = true;
        }
    }
}

impl Pass {
    fn expects_nothing(&self) -> bool {
        match self.at {
            At::Reading { .. } | At::Adrift(Operation::Commit { .. }) => true,
            At::Talking { stage: Stage::Act(_, to) | Stage::Persist(to), .. } => {
                to == Phase::Deleted
            }
            At::Talking { stage: Stage::Prepare, .. } | At::Adrift(_) => false,
        }
    }
}
