//! The environment: the stored row, issuer and mesh, and the cluster with Crossplane.
//!
//! Contains only what a promise or a move depends on.

use broker_domain::{MeshRole, Phase};
use broker_render::Armed;

use super::memo::Memo;
use super::pass::Pass;
use super::vocabulary::{RowId, XrView, token_id, token_number};

/// The most machines of one resource: one per armed composite resource.
pub(super) const MACHINES: usize = 3;
/// The most tokens that one resource can consume.
const ORDINALS: usize = 3;

/// The content with which a composite resource is armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ArmedWith {
    Token(u8),
    Standalone,
}

impl ArmedWith {
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Readiness {
    No,
    /// True, for an older generation.
    Stale,
    /// True, for the current generation.
    Live,
}

/// One resource: its row, its objects, and its passes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resource {
    pub(super) world: World,
    /// At most one of them holds the lease.
    pub(super) passes: Vec<Pass>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) row: RowId,
    pub(super) epoch: u8,
    pub(super) issuer: Issuer,
    pub(super) xr: Option<Xr>,
    pub(super) config: bool,
    pub(super) machines: [Option<Machine>; MACHINES],
    /// The number of machines that any XR referred to.
    pub(super) machines_named: u8,
    /// One bit per Secret that was ever recorded.
    pub(super) recorded: u8,
    pub(super) remaining_faults: RemainingFaults,
    pub(super) budget: Budget,
}

/// Automatic destruction, in settings that count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Budget {
    /// The number of composite resources so far: the uid of the next one.
    pub(super) xrs_created: u8,
    /// The loss that the last permit is for.
    pub(super) permit: Option<u8>,
    pub(super) spent: u8,
    pub(super) armed: u8,
}

/// The faults that may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct RemainingFaults {
    /// Deletions of the composite resource by another party.
    pub(super) deletions: u8,
    pub(super) failures: u8,
    pub(super) drifts: u8,
    pub(super) pauses: u8,
    pub(super) configs: u8,
    /// Retries by an operator, after the cause of the failure was removed.
    pub(super) retries: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Issuer {
    pub(super) seen: u8,
    pub(super) closed: bool,
    pub(super) open: Option<(u8, u8)>,
    pub(super) consumed: [Option<Node>; ORDINALS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) token: u8,
    pub(super) machine: u8,
    pub(super) deregistered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Xr {
    pub(super) uid: u8,
    pub(super) armed: Option<ArmedWith>,
    pub(super) deleting: bool,
    /// The deletion is in the foreground: owned objects are deleted first.
    pub(super) foreground: bool,
    pub(super) refers_to: Option<u8>,
    pub(super) ready: Readiness,
    pub(super) failed: bool,
    pub(super) drifted: bool,
    /// Another party paused it after it was armed.
    pub(super) paused: bool,
    /// Crossplane has reported the shell as paused.
    pub(super) pause_reported: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Machine {
    pub(super) with: ArmedWith,
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
            pause_reported: false,
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

    /// Accepts a foreground deletion, also of an object that is already being deleted, as the API
    /// server does.
    pub(super) const fn delete_in_foreground(&mut self) {
        self.deleting = true;
        self.foreground = true;
    }

    /// A change of the spec increments the generation.
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

    pub(super) fn has_live_node(&self) -> bool {
        self.consumed.iter().flatten().any(|node| !node.deregistered)
    }

    /// Whether the token is open or consumed.
    pub(super) fn knows(&self, token: u8) -> bool {
        self.open.is_some_and(|(open, _)| open == token) || self.node(token).is_some()
    }
}

impl World {
    pub(super) fn declared(row: RowId, remaining_faults: RemainingFaults) -> Self {
        Self {
            row,
            epoch: 0,
            issuer: Issuer::NEW,
            xr: None,
            config: false,
            machines: [None; MACHINES],
            machines_named: 0,
            recorded: 0,
            remaining_faults,
            budget: Budget::default(),
        }
    }

    pub(super) fn has_machine(&self) -> bool {
        self.machines.iter().any(Option::is_some)
    }

    /// One bit per existing composed object.
    pub(super) fn composed(&self) -> u8 {
        self.machines
            .iter()
            .enumerate()
            .fold(0, |bits, (name, machine)| bits | (u8::from(machine.is_some()) << name))
    }

    pub(super) fn is_settled(&self, memo: &Memo) -> bool {
        let row = memo.facts(self.row);
        match row.phase {
            Phase::Deleted => self.xr.is_none() && !self.config && !self.has_machine(),
            Phase::Failed => row.terminal,
            Phase::Ready => {
                let armed = match row.role {
                    MeshRole::Standalone => Some(ArmedWith::Standalone),
                    MeshRole::Node => row.token.map(ArmedWith::Token),
                };
                let enrolled = row.token.is_none_or(|token| {
                    self.issuer.node(token).is_some_and(|node| !node.deregistered)
                });
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
