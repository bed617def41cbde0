//! What is outside: the row as it is stored, issuer and mesh, and the cluster, where Crossplane is at work.
//!
//! Small on purpose. What a real part may do at any time is one move here; the order is the checker's.

use broker_domain::{MeshRole, Phase};
use broker_render::Armed;

use super::book::{Book, RowId, XrView, token_id, token_number};
use super::pass::Pass;
use super::rule::{Wrong, Wrongs};

/// How many machines there can be of one resource, in all: one per composite resource that was armed.
pub(super) const MACHINES: usize = 3;
/// How many tokens can be consumed for one resource.
const ORDINALS: usize = 3;

/// What a composite resource is armed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum With {
    Token(u8),
    Standalone,
}

impl With {
    pub(super) fn of(armed: Armed) -> Self {
        match armed {
            Armed::Token(token) => Self::Token(token_number(token)),
            Armed::Standalone => Self::Standalone,
        }
    }

    pub(super) fn armed(self) -> Armed {
        match self {
            Self::Token(token) => Armed::Token(token_id(token)),
            Self::Standalone => Armed::Standalone,
        }
    }

    pub(super) const fn token(self) -> Option<u8> {
        match self {
            Self::Token(token) => Some(token),
            Self::Standalone => None,
        }
    }
}

/// What the Ready condition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Readiness {
    No,
    /// True, of an older generation.
    Stale,
    /// True, of the live generation.
    Live,
}

/// One resource: its row, everything that stands for it, and who is at work on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    pub(super) world: World,
    /// At most one of them holds the lease.
    pub(super) passes: Vec<Pass>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) row: RowId,
    /// The epoch of the last lease.
    pub(super) epoch: u8,
    pub(super) issuer: Issuer,
    pub(super) xr: Option<Xr>,
    pub(super) config: bool,
    pub(super) machines: [Option<Machine>; MACHINES],
    /// How many of them were ever named.
    pub(super) named: u8,
    pub(super) left: Left,
}

/// How often something may still go wrong by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Left {
    /// Somebody deletes the composite resource.
    pub(super) deletions: u8,
    /// The Composition gives up.
    pub(super) failures: u8,
    /// Somebody changes a field of ours.
    pub(super) drifts: u8,
    /// Somebody pauses the composite resource.
    pub(super) pauses: u8,
}

/// Token issuer and mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Issuer {
    /// The highest epoch that was seen.
    pub(super) seen: u8,
    pub(super) closed: bool,
    /// The live token, and its ordinal.
    pub(super) open: Option<(u8, u8)>,
    /// Whoever enrolled, by ordinal.
    pub(super) consumed: [Option<Node>; ORDINALS],
}

/// A Node that enrolled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) token: u8,
    /// The machine that it runs on.
    pub(super) machine: u8,
    /// It was told to leave.
    pub(super) left: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Xr {
    pub(super) armed: Option<With>,
    pub(super) deleting: bool,
    pub(super) refers_to: Option<u8>,
    pub(super) ready: Readiness,
    pub(super) failed: bool,
    pub(super) drifted: bool,
    /// Somebody paused it, after it was armed.
    pub(super) paused: bool,
    /// Crossplane has written onto the shell that it is paused.
    pub(super) noted: bool,
    /// The epoch on it is that of the last lease.
    pub(super) own_epoch: bool,
}

/// A composed object, and the machine that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    /// What was injected.
    pub(super) with: With,
}

/// Something that happens outside, without us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Move {
    /// Crossplane writes onto a shell that it is paused.
    Note,
    /// Crossplane names what it is going to compose.
    Refer,
    /// Crossplane creates it.
    Compose,
    /// The agent on it enrols.
    Enrol(u8),
    /// The provider has made it, and Crossplane says that everything is ready.
    Report,
    /// The provider deletes a machine that nobody owns any more, or whose owner goes.
    Finalise(u8),
    /// The composite resource is gone, now that nothing is left that it waited for.
    Vanish,
    /// A sweep finds what belongs to a row that is Deleted.
    RemoveOrphan,
    /// The Composition gives up for good.
    Fail,
    /// Somebody deletes the composite resource, and what it composed with it.
    DeleteForeground,
    /// Somebody deletes the composite resource, and what it composed lives on.
    DeleteBackground,
    /// Somebody changes a field of ours.
    Drift,
    /// Somebody pauses the composite resource.
    Pause,
    /// They let it go on.
    Unpause,
}

impl Move {
    /// What happens by itself when nothing goes wrong.
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
    /// The same, for what is over.
    pub(super) const ENDING: [Self; 2] = [Self::Vanish, Self::RemoveOrphan];
    /// What happens when somebody meddles or something breaks.
    pub(super) const MISHAPS: [Self; 5] =
        [Self::Fail, Self::DeleteForeground, Self::DeleteBackground, Self::Drift, Self::Pause];
}

impl Xr {
    pub(super) const fn shell(own_epoch: bool) -> Self {
        Self {
            armed: None,
            deleting: false,
            refers_to: None,
            ready: Readiness::No,
            failed: false,
            drifted: false,
            paused: false,
            noted: false,
            own_epoch,
        }
    }

    pub(super) const fn view(&self) -> XrView {
        let Self { armed, deleting, refers_to, ready, failed, drifted, paused, .. } = *self;
        XrView { armed, deleting, refers_to, ready, failed, drifted, paused }
    }

    /// A change of its spec is a new generation.
    pub(super) fn changed_spec(&mut self) {
        if self.ready == Readiness::Live {
            self.ready = Readiness::Stale;
        }
    }
}

impl Issuer {
    pub(super) const NEW: Self =
        Self { seen: 0, closed: false, open: None, consumed: [None; ORDINALS] };

    pub(super) fn node(&self, token: u8) -> Option<&Node> {
        self.consumed.iter().flatten().find(|node| node.token == token)
    }

    /// A Node of the resource is in the mesh.
    pub(super) fn has_live_node(&self) -> bool {
        self.consumed.iter().flatten().any(|node| !node.left)
    }

    /// Somebody could enrol with it, or has.
    pub(super) fn knows(&self, token: u8) -> bool {
        self.open.is_some_and(|(open, _)| open == token) || self.node(token).is_some()
    }
}

impl World {
    pub(super) fn declared(row: RowId, left: Left) -> Self {
        Self {
            row,
            epoch: 0,
            issuer: Issuer::NEW,
            xr: None,
            config: false,
            machines: [None; MACHINES],
            named: 0,
            left,
        }
    }

    pub(super) fn has_machine(&self) -> bool {
        self.machines.iter().any(Option::is_some)
    }

    /// One bit for each composed object that stands.
    pub(super) fn composed(&self) -> u8 {
        self.machines
            .iter()
            .enumerate()
            .fold(0, |bits, (name, machine)| bits | (u8::from(machine.is_some()) << name))
    }

    fn owner_goes(&self, machine: u8) -> bool {
        let owner = self.xr.as_ref().filter(|xr| xr.refers_to == Some(machine));
        owner.is_none_or(|xr| xr.deleting)
    }

    /// Makes a move, if it can be made; answers what of the composite resource changed.
    pub(super) fn make(
        &mut self,
        which: Move,
        book: &Book,
        wrongs: &mut Wrongs,
    ) -> Option<Changed> {
        let over = book.facts(self.row).phase == Phase::Deleted;
        match which {
            Move::Enrol(name) => {
                self.enrol(name)?;
                if over {
                    wrongs.add(Wrong::LifeAfterDeleted);
                }
                Some(Changed::Elsewhere)
            }
            Move::Finalise(name) => {
                self.machines[usize::from(name)]?;
                // A provider needs its configuration to delete anything.
                (self.owner_goes(name) && self.config).then_some(())?;
                self.machines[usize::from(name)] = None;
                Some(Changed::Elsewhere)
            }
            Move::Compose => {
                let xr = self.xr.as_ref().filter(|xr| !xr.deleting && !xr.paused)?;
                let (name, with) = (usize::from(xr.refers_to?), xr.armed?);
                self.machines[name].is_none().then_some(())?;
                self.machines[name] = Some(Machine { with });
                if over {
                    wrongs.add(Wrong::LifeAfterDeleted);
                }
                Some(Changed::Elsewhere)
            }
            Move::Vanish => {
                // What is paused is not let go either.
                let xr = self.xr.as_ref().filter(|xr| xr.deleting && !xr.paused)?;
                let waits = xr.refers_to.is_some_and(|it| self.machines[usize::from(it)].is_some());
                (!waits).then_some(())?;
                self.xr = None;
                Some(Changed::XrGone)
            }
            Move::RemoveOrphan => self.remove_orphan(over, wrongs),
            Move::DeleteBackground => {
                self.xr?;
                self.left.deletions = self.left.deletions.checked_sub(1)?;
                self.xr = None;
                Some(Changed::XrGone)
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
                // The checker's bounds leave room for every machine that can come to be.
                assert!(usize::from(*named) < MACHINES, "a machine too many");
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
                xr.deleting = true;
            }
            Move::Compose
            | Move::Enrol(_)
            | Move::Finalise(_)
            | Move::Vanish
            | Move::RemoveOrphan
            | Move::DeleteBackground => return None,
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

    /// The composite resource first, the ProviderConfig when nothing is left that needs it.
    fn remove_orphan(&mut self, over: bool, wrongs: &mut Wrongs) -> Option<Changed> {
        over.then_some(())?;
        if let Some(xr) = &mut self.xr {
            (!xr.deleting).then_some(())?;
            if self.issuer.has_live_node() {
                wrongs.add(Wrong::DeletedUnderNode);
            }
            xr.deleting = true;
            return Some(Changed::Xr);
        }
        (self.config && !self.has_machine()).then_some(())?;
        self.config = false;
        Some(Changed::ConfigGone)
    }

    /// Nothing is left to be done.
    pub(super) fn is_settled(&self, book: &Book) -> bool {
        let row = book.facts(self.row);
        match row.phase {
            Phase::Deleted => self.xr.is_none() && !self.config && !self.has_machine(),
            Phase::Failed => row.at_rest,
            Phase::Ready => {
                let armed = match row.role {
                    MeshRole::Standalone => Some(With::Standalone),
                    MeshRole::Node => row.token.map(With::Token),
                };
                let enrolled = row
                    .token
                    .is_none_or(|token| self.issuer.node(token).is_some_and(|node| !node.left));
                let ready = |xr: &Xr| xr.armed == armed && xr.ready == Readiness::Live;
                self.xr.as_ref().is_some_and(ready) && enrolled
            }
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning => false,
        }
    }
}

/// What of the objects changed, for everybody who remembers a version of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    Xr,
    XrGone,
    ConfigGone,
    Elsewhere,
}
