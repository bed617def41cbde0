//! Spontaneous changes of the environment. Each change of a real component is one move; the checker
//! chooses the order.

use broker_domain::Phase;

use super::memo::Memo;
use super::rule::{Rule, Violation, Violations};
use super::world::{MACHINES, Machine, Node, Readiness, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Move {
    /// Crossplane sets a shell's "paused" condition.
    ReportPaused,
    /// Crossplane refers to the object that it will compose.
    ReferToMachine,
    Compose,
    Enrol(u8),
    /// The provider has created the machine, and Crossplane reports ready.
    ReportReady,
    /// The provider deletes a machine without an owner, or whose owner is being deleted.
    Finalise(u8),
    /// Crossplane removes the composite resource, after everything that blocks its deletion.
    RemoveXr,
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
        Self::ReportPaused,
        Self::ReferToMachine,
        Self::Compose,
        Self::Enrol(0),
        Self::Enrol(1),
        Self::Enrol(2),
        Self::ReportReady,
        Self::Finalise(0),
        Self::Finalise(1),
        Self::Finalise(2),
        Self::Unpause,
    ];
    /// The moves without faults after a teardown.
    pub(super) const AFTER_TEARDOWN: [Self; 2] = [Self::RemoveXr, Self::RemoveOrphan];
    /// Interference and failures.
    pub(super) const INTERFERENCE: [Self; 6] = [
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
    Other,
}

impl World {
    fn owner_is_leaving(&self, machine: u8) -> bool {
        let owner = self.xr.as_ref().filter(|xr| xr.refers_to == Some(machine));
        owner.is_none_or(|xr| xr.deleting)
    }

    /// Makes a move if it is enabled; returns which object changed.
    pub(super) fn apply_move(
        &mut self,
        next_move: Move,
        memo: &Memo,
        violations: &mut Violations,
    ) -> Option<Changed> {
        let row_is_deleted = memo.facts(self.row).phase == Phase::Deleted;
        match next_move {
            Move::Enrol(name) => {
                self.enrol(name)?;
                if row_is_deleted {
                    violations.add(Violation::ChangeAfterDeleted);
                }
                Some(Changed::Other)
            }
            Move::Finalise(name) => {
                self.machines[usize::from(name)]?;
                // A provider needs its configuration to delete a machine; the garbage collector
                // does not.
                let can_delete = self.config || memo.composes_secret;
                (self.owner_is_leaving(name) && can_delete).then_some(())?;
                self.machines[usize::from(name)] = None;
                Some(Changed::Other)
            }
            Move::Compose => {
                let xr = self.xr.as_ref().filter(|xr| !xr.deleting && !xr.paused)?;
                let (name, with) = (usize::from(xr.refers_to?), xr.armed?);
                self.machines[name].is_none().then_some(())?;
                self.machines[name] = Some(Machine { with });
                if row_is_deleted {
                    violations.add(Violation::ChangeAfterDeleted);
                }
                Some(Changed::Other)
            }
            Move::RemoveXr => {
                // Crossplane does not finalize a paused composite resource either.
                let xr = self.xr.as_ref().filter(|xr| xr.deleting && !xr.paused)?;
                let owns_machine =
                    xr.refers_to.is_some_and(|name| self.machines[usize::from(name)].is_some());
                let blocked = owns_machine && (xr.foreground || !memo.composes_secret);
                (!blocked).then_some(())?;
                self.xr = None;
                Some(Changed::XrGone)
            }
            Move::RemoveOrphan if memo.lacks(Rule::OrphansFound) => None,
            Move::RemoveOrphan => self.remove_orphan(row_is_deleted, violations),
            Move::DeleteBackground if memo.composes_secret => {
                // Crossplane's finalizer keeps the composite resource for a while.
                let xr = self.xr.as_mut().filter(|xr| !xr.deleting)?;
                self.remaining_faults.deletions = self.remaining_faults.deletions.checked_sub(1)?;
                xr.deleting = true;
                Some(Changed::Xr)
            }
            Move::DeleteBackground => {
                self.xr?;
                self.remaining_faults.deletions = self.remaining_faults.deletions.checked_sub(1)?;
                self.xr = None;
                Some(Changed::XrGone)
            }
            Move::LoseConfig => {
                self.config.then_some(())?;
                self.remaining_faults.configs = self.remaining_faults.configs.checked_sub(1)?;
                self.config = false;
                Some(Changed::ConfigGone)
            }
            Move::ReportPaused
            | Move::ReferToMachine
            | Move::ReportReady
            | Move::Fail
            | Move::DeleteForeground
            | Move::Drift
            | Move::Pause
            | Move::Unpause => self.change_xr(next_move),
        }
    }

    fn change_xr(&mut self, next_move: Move) -> Option<Changed> {
        let machines = self.machines;
        let Self { xr, remaining_faults, machines_named, .. } = self;
        let xr = xr.as_mut().filter(|xr| !xr.deleting || next_move == Move::Unpause)?;
        match next_move {
            Move::Pause => {
                (xr.armed.is_some() && !xr.paused).then_some(())?;
                remaining_faults.pauses = remaining_faults.pauses.checked_sub(1)?;
                xr.paused = true;
            }
            Move::Unpause => {
                xr.paused.then_some(())?;
                xr.paused = false;
            }
            Move::ReferToMachine | Move::ReportReady if xr.paused => return None,
            Move::ReportPaused => {
                (xr.armed.is_none() && !xr.pause_reported).then_some(())?;
                xr.pause_reported = true;
            }
            Move::ReferToMachine => {
                (xr.armed.is_some() && xr.refers_to.is_none()).then_some(())?;
                // The checker's bounds allow for every possible machine.
                assert!(usize::from(*machines_named) < MACHINES, "more machines than the bound");
                xr.refers_to = Some(*machines_named);
                *machines_named += 1;
                xr.changed_spec();
            }
            Move::ReportReady => {
                let exists = machines[usize::from(xr.refers_to?)].is_some();
                (exists && xr.ready != Readiness::Live).then_some(())?;
                xr.ready = Readiness::Live;
            }
            Move::Fail => {
                (xr.armed.is_some() && !xr.failed).then_some(())?;
                remaining_faults.failures = remaining_faults.failures.checked_sub(1)?;
                xr.failed = true;
            }
            Move::Drift => {
                (xr.armed.is_some() && !xr.drifted).then_some(())?;
                remaining_faults.drifts = remaining_faults.drifts.checked_sub(1)?;
                xr.drifted = true;
                xr.changed_spec();
            }
            Move::DeleteForeground => {
                remaining_faults.deletions = remaining_faults.deletions.checked_sub(1)?;
                xr.delete_in_foreground();
            }
            Move::Compose
            | Move::Enrol(_)
            | Move::Finalise(_)
            | Move::RemoveXr
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
        let node = Node { token, machine: name, deregistered: false };
        self.issuer.consumed[usize::from(ordinal) - 1] = Some(node);
        self.issuer.open = None;
        Some(())
    }

    /// Removes the composite resource first, and the ProviderConfig when no object needs it.
    fn remove_orphan(
        &mut self,
        row_is_deleted: bool,
        violations: &mut Violations,
    ) -> Option<Changed> {
        row_is_deleted.then_some(())?;
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
