//! What is outside: the row as it is stored, issuer and mesh, and the cluster, where Crossplane is at work.
//!
//! Small on purpose: nothing is here but what a promise or a move depends on.

use broker_domain::{MeshRole, Phase};
use broker_render::Armed;

use super::memo::Memo;
use super::pass::Pass;
use super::words::{RowId, XrView, token_id, token_number};

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
    /// One bit for each Secret that was ever on record.
    pub(super) recorded: u8,
    pub(super) left: Left,
    pub(super) budget: Budget,
}

/// What was destroyed automatically, where that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    /// How many composite resources there were: the uid of the next one.
    pub(super) born: u8,
    /// The loss that the last permit is for.
    pub(super) permit: Option<u8>,
    /// How many permits were taken.
    pub(super) spent: u8,
    /// How many composite resources were armed, ever.
    pub(super) armed: u8,
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
    /// An operator deletes the ProviderConfig.
    pub(super) configs: u8,
    /// An operator removes the cause of a failure and retries.
    pub(super) retries: u8,
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
    pub(super) uid: u8,
    pub(super) armed: Option<With>,
    pub(super) deleting: bool,
    /// It is deleted in the foreground: what it owns goes first.
    pub(super) foreground: bool,
    pub(super) refers_to: Option<u8>,
    pub(super) ready: Readiness,
    pub(super) failed: bool,
    pub(super) drifted: bool,
    /// Somebody paused it, after it was armed.
    pub(super) paused: bool,
    /// Crossplane has written onto the shell that it is paused.
    pub(super) noted: bool,
}

/// A composed object, and the machine that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    /// What was injected.
    pub(super) with: With,
}

impl Xr {
    pub(super) const fn shell(uid: u8) -> Self {
        Self {
            uid,
            armed: None,
            deleting: false,
            foreground: false,
            refers_to: None,
            ready: Readiness::No,
            failed: false,
            drifted: false,
            paused: false,
            noted: false,
        }
    }

    pub(super) const fn view(&self) -> XrView {
        let Self {
            uid,
            armed,
            deleting,
            foreground,
            refers_to,
            ready,
            failed,
            drifted,
            paused,
            ..
        } = *self;
        XrView { uid, armed, deleting, foreground, refers_to, ready, failed, drifted, paused }
    }

    /// The API server accepts a foreground deletion, also of an object that is already being deleted.
    pub(super) const fn delete_in_foreground(&mut self) {
        self.deleting = true;
        self.foreground = true;
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
            recorded: 0,
            left,
            budget: Budget::default(),
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

    /// Nothing is left to be done.
    pub(super) fn is_settled(&self, memo: &Memo) -> bool {
        let row = memo.facts(self.row);
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
                self.xr.as_ref().is_some_and(ready) && enrolled && self.config
            }
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning => false,
        }
    }
}
