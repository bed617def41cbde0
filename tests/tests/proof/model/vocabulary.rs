//! The types that memo and model share: ids of rows and checkpoints, views, commands and replies.

use broker_domain::{BootstrapTokenId, MeshRole, Phase};
use broker_ports::LostObject;
use broker_testkit::builders::id;

use super::rule::Violation;
use super::world::{ArmedWith, Readiness};

const FIRST_TOKEN: u128 = 0x70;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct RowId(pub(super) u32);
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ObservationId(pub(super) u32);
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CheckpointId(pub(super) u32);

/// The properties of a row that the model needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowFacts {
    pub(super) phase: Phase,
    pub(super) role: MeshRole,
    pub(super) token: Option<u8>,
    pub(super) closed: bool,
    pub(super) terminal: bool,
    /// One bit per recorded Secret, which may still exist.
    pub(super) secrets: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Command {
    Perform(Operation),
    Continue,
    End,
}

/// An effect, with its content in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Operation {
    /// A write of the row, and the row afterwards.
    Commit {
        to: RowId,
        violation: Option<Violation>,
    },
    /// A write without a change.
    Unchanged(RowId),
    /// The aggregate refuses the change: the pass fails.
    Refused,
    Close,
    ApplyConfig {
        first: bool,
    },
    ApplyShell {
        first: bool,
    },
    Issue {
        ordinal: u8,
    },
    Deregister(u8),
    Arm(ArmedWith),
    Reapply,
    DeleteXr,
    DeleteConfig,
    /// Reads the brakes; the model sets none.
    CheckBrake,
    /// Takes a permit for the loss of this number.
    TakePermit(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Committed(RowId),
    LostRace,
    Done,
    Permitted,
    OverBudget,
    /// The object exists with this uid.
    Applied(u8),
    Issued(u8),
    Consumed(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact that can be read by itself")]
pub(super) struct XrView {
    pub(super) uid: u8,
    pub(super) armed: Option<ArmedWith>,
    pub(super) deleting: bool,
    pub(super) foreground: bool,
    pub(super) refers_to: Option<u8>,
    pub(super) ready: Readiness,
    pub(super) failed: bool,
    pub(super) drifted: bool,
    pub(super) paused: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct View {
    pub(super) xr: Option<XrView>,
    pub(super) config: bool,
    /// One bit per existing composed object.
    pub(super) composed: u8,
    pub(super) registered: bool,
    pub(super) gate_open: bool,
}

/// The decision of a pass, and the checkpoint at which its act begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Plan {
    pub(super) seen: ObservationId,
    pub(super) to: Phase,
    pub(super) begin: CheckpointId,
}

/// The number of the first Node loss; the loss of a composite resource has its uid's number.
const FIRST_NODE_LOSS: u8 = 100;

pub(super) fn loss_number(lost: &LostObject) -> u8 {
    match lost {
        LostObject::Xr(uid) => uid.as_str().trim_start_matches(UID_PREFIX).parse().unwrap(),
        LostObject::Node(token) => FIRST_NODE_LOSS + token_number(*token),
    }
}

const UID_PREFIX: &str = "uid-";

pub(super) fn uid(number: u8) -> String {
    format!("{UID_PREFIX}{number}")
}

pub(super) fn token_id(token: u8) -> BootstrapTokenId {
    id(FIRST_TOKEN + u128::from(token))
}

pub(super) fn token_number(token: BootstrapTokenId) -> u8 {
    u8::try_from(token.as_uuid().as_u128() - FIRST_TOKEN).unwrap()
}
