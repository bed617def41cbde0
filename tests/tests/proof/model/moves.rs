//! Spontaneous changes outside. Each possible change of a real component is one move; the checker
//! chooses the order.

use broker_domain::Phase;

use super::memo::Memo;
use super::rule::{Rule, Violation, Violations};
use super::world::{MACHINES, Machine, Node, Readiness, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Move {
    /// Crossplane sets a shell's "paused" condition.
    Note,
    /// Crossplane refers to the object that it will compose.
    Refer,
    Compose,
    Enrol(u8),
    /// The provider has created the machine, and Crossplane reports ready.
    Report,
    /// The provider deletes a machine without an owner, or whose owner is being deleted.
    Finalise(u8),
    /// The composite resource is gone, after everything that it waited for.
    Vanish,
    /// A sweep finds an object of a Deleted row.
    RemoveOrphan,
    Fail,
    DeleteForeground,
    /// Another party deletes the composite resource in the background; the composed object
    /// survives.
    DeleteBackground,
    Drift,
    Pause,
    Unpause,
    LoseConfig,
}

impl Move {
    /// The moves without faults.
    pub(super) const ORDINARY: [Self; 11] = [
        Self::Note,
        Self::Refer,
        Self::Compose,
        Self::Enrol(0),
        Self::Enrol(1),
        Self::Enrol(2),
        Self::Report,
        Self::Finalise(0),
        Self::Finalise(1),
        Self::Finalise(2),
        Self::Unpause,
    ];
    /// The same after the teardown.
    pub(super) const ENDING: [Self; 2] = [Self::Vanish, Self::RemoveOrphan];
    /// Interference and failures.
    pub(super) const MISHAPS: [Self; 6] = [
        Self::Fail,
        Self::DeleteForeground,
        Self::DeleteBackground,
        Self::Drift,
        Self::Pause,
        Self::LoseConfig,
    ];
}

/// Which object changed, for readers that remember its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    Xr,
    XrGone,
    ConfigGone,
    Elsewhere,
}

impl World {
    fn owner_goes(&self, machine: u8) -> bool {
        let owner = self.xr.as_ref().filter(|xr| xr.refers_to == Some(machine));
        owner.is_none_or(|xr| xr.deleting)
    }

    /// Makes a move if it is enabled; returns the effect on the composite resource.
    pub(super) fn make(
        &mut self,
        which: Move,
        memo: &Memo,
        violations: &mut Violations,
    ) -> Option<Changed> {
        let over = memo.facts(self.row).phase == Phase::Deleted;
        match which {
            Move::Enrol(name) => {
                self.enrol(name)?;
                if over {
                    violations.add(Violation::LifeAfterDeleted);
                }
                Some(Changed::Elsewhere)
            }
            Move::Finalise(name) => {
                self.machines[usize::from(name)]?;
                // A provider needs its configuration to delete a machine; the garbage collector
                // does not.
                let able = self.config || memo.composes_secret;
                (self.owner_goes(name) && able).then_some(())?;
                self.machines[usize::from(name)] = None;
                Some(Changed::Elsewhere)
            }
            Move::Compose => {
                let xr = self.xr.as_ref().filter(|xr| !xr.deleting && !xr.paused)?;
                let (name, with) = (usize::from(xr.refers_to?), xr.armed?);
                self.machines[name].is_none().then_some(())?;
                self.machines[name] = Some(Machine { with });
                if over {
                    violations.add(Violation::LifeAfterDeleted);
                }
                Some(Changed::Elsewhere)
            }
            Move::Vanish => {
                // Crossplane does not finalize a paused composite resource either.
                let xr = self.xr.as_ref().filter(|xr| xr.deleting && !xr.paused)?;
                let owns = xr.refers_to.is_some_and(|it| self.machines[usize::from(it)].is_some());
                let waits = owns && (xr.foreground || !memo.composes_secret);
                (!waits).then_some(())?;
                self.xr = None;
                Some(Changed::XrGone)
            }
            Move::RemoveOrphan if memo.lacks(Rule::OrphansFound) => None,
            Move::RemoveOrphan => self.remove_orphan(over, violations),
            Move::DeleteBackground if memo.composes_secret => {
                // Crossplane's finalizer keeps the composite resource for a while.
                let xr = self.xr.as_mut().filter(|xr| !xr.deleting)?;
                self.left.deletions = self.left.deletions.checked_sub(1)?;
                xr.deleting = true;
                Some(Changed::Xr)
            }
            Move::DeleteBackground => {
                self.xr?;
                self.left.deletions = self.left.deletions.checked_sub(1)?;
                self.xr = None;
                Some(Changed::XrGone)
            }
            Move::LoseConfig => {
                self.config.then_some(())?;
                self.left.configs = self.left.configs.checked_sub(1)?;
                self.config = false;
                Some(Changed::ConfigGone)
            }
            Move::Note
            | Move::Refer
            | Move::Report
            | Move::Fail
            | Move::DeleteForeground
            | Move::Drift
            | Move::Pause
            | Move::Unpause => self.change_xr(which),
        }
    }

    fn change_xr(&mut self, which: Move) -> Option<Changed> {
        let machines = self.machines;
        let Self { xr, left, named, .. } = self;
        let xr = xr.as_mut().filter(|xr| !xr.deleting || which == Move::Unpause)?;
        match which {
            Move::Pause => {
                (xr.armed.is_some() && !xr.paused).then_some(())?;
                left.pauses = left.pauses.checked_sub(1)?;
                xr.paused = true;
            }
            Move::Unpause => {
                xr.paused.then_some(())?;
                xr.paused = false;
            }
            Move::Refer | Move::Report if xr.paused => return None,
            Move::Note => {
                (xr.armed.is_none() && !xr.noted).then_some(())?;
                xr.noted = true;
            }
            Move::Refer => {
                (xr.armed.is_some() && xr.refers_to.is_none()).then_some(())?;
                // The checker's bounds allow for every possible machine.
                assert!(usize::from(*named) < MACHINES, "more machines than the bound");
                xr.refers_to = Some(*named);
                *named += 1;
                xr.changed_spec();
            }
            Move::Report => {
                let made = machines[usize::from(xr.refers_to?)].is_some();
                (made && xr.ready != Readiness::Live).then_some(())?;
                xr.ready = Readiness::Live;
            }
            Move::Fail => {
                (xr.armed.is_some() && !xr.failed).then_some(())?;
                left.failures = left.failures.checked_sub(1)?;
                xr.failed = true;
            }
            Move::Drift => {
                (xr.armed.is_some() && !xr.drifted).then_some(())?;
                left.drifts = left.drifts.checked_sub(1)?;
                xr.drifted = true;
                xr.changed_spec();
            }
            Move::DeleteForeground => {
                left.deletions = left.deletions.checked_sub(1)?;
                xr.delete_in_foreground();
            }
            Move::Compose
            | Move::Enrol(_)
            | Move::Finalise(_)
            | Move::Vanish
            | Move::RemoveOrphan
            | Move::DeleteBackground
            | Move::LoseConfig => return None,
        }
        Some(Changed::Xr)
    }

    fn enrol(&mut self, name: u8) -> Option<()> {
        let token = self.machines[usize::from(name)]?.with.token()?;
        let (open, ordinal) = self.issuer.open?;
        (open == token).then_some(())?;
        let node = Node { token, machine: name, left: false };
        self.issuer.consumed[usize::from(ordinal) - 1] = Some(node);
        self.issuer.open = None;
        Some(())
    }

    /// The composite resource first; the ProviderConfig when nothing needs it any more.
    fn remove_orphan(&mut self, over: bool, violations: &mut Violations) -> Option<Changed> {
        over.then_some(())?;
        if let Some(xr) = &mut self.xr {
            (!xr.deleting).then_some(())?;
            if self.issuer.has_live_node() {
                violations.add(Violation::DeletedUnderNode);
            }
            xr.delete_in_foreground();
            return Some(Changed::Xr);
        }
        (self.config && !self.has_machine()).then_some(())?;
        self.config = false;
        Some(Changed::ConfigGone)
    }
}
