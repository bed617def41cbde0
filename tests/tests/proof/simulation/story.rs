//! A story: the actions of callers and other parties, and the faults, all from one number.

use std::fmt;

use broker_ports::PortName;
use broker_testkit::faults::{Fault, FaultPlan, FaultRates};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(super) const REPLICAS: usize = 3;
/// The timeout for settling after the faults, in rounds of ten seconds: a lease, the longest back-off, and a few sweeps.
const TIMEOUT: u32 = 90;

/// The methods that may return the value before the last change: the same as in the fault matrix.
const MAY_BE_STALE: [(PortName, &str); 6] = [
    (PortName::Repository, "get_by_id"),
    (PortName::Repository, "list"),
    (PortName::Repository, "sweep_page"),
    (PortName::Cluster, "list_owned"),
    (PortName::Cluster, "observe_many"),
    (PortName::NodeDeregistrar, "nodes_registered"),
];

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(super) seed: u64,
    pub(super) steps: Vec<Step>,
    pub(super) timeout: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Node,
    Standalone,
    /// The Composition fails, and the resource is retained.
    Failing,
    /// The Composition fails, and the resource is rolled back.
    RolledBack,
}

/// One step. Resources and replicas are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Declare(Kind),
    Delete(usize),
    /// Another party deletes its composite resource in the background.
    DeleteXr(usize),
    Pause(usize),
    Kill(usize),
    /// A request arrives after its sender has stopped waiting.
    LateArrival,
    FreezeWatch,
    CatchUp,
    EndWatch,
    Wait {
        millis: u64,
    },
}

impl Story {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut steps = vec![Step::Declare(kind(&mut random))];
        for _ in 0..random.random_range(6..16) {
            steps.push(step(&mut random));
        }
        Self { seed, steps, timeout: TIMEOUT }
    }

    /// The faults. Reads of rows and of the watch cache may be stale, because every write compares the version of its row.
    /// Direct reads of cluster and mesh must be fresh by contract.
    pub(crate) fn faults(&self) -> FaultPlan {
        let rates = FaultRates {
            stale_read: 0,
            ..FaultRates::evenly(u16::try_from(5 + self.seed % 4 * 10).unwrap())
        };
        let mut random = StdRng::seed_from_u64(self.seed ^ 0x0057_411e);
        let mut plan = FaultPlan::seeded(self.seed, rates);
        for (port, method) in MAY_BE_STALE {
            for _ in 0..4 {
                plan = plan.on(port, method, random.random_range(2..30), Fault::StaleRead);
            }
        }
        plan
    }
}

fn kind(random: &mut StdRng) -> Kind {
    match random.random_range(0..6) {
        0..3 => Kind::Node,
        3 => Kind::Standalone,
        4 => Kind::Failing,
        _ => Kind::RolledBack,
    }
}

fn step(random: &mut StdRng) -> Step {
    match random.random_range(0..16) {
        0..3 => Step::Declare(kind(random)),
        3..5 => Step::Delete(random.random_range(0..4)),
        5 => Step::DeleteXr(random.random_range(0..4)),
        6 => Step::Pause(random.random_range(0..4)),
        7..9 => Step::Kill(random.random_range(0..REPLICAS)),
        9 => Step::LateArrival,
        10 => Step::FreezeWatch,
        11 => Step::CatchUp,
        12 => Step::EndWatch,
        13 => Step::Wait { millis: 70_000 },
        _ => Step::Wait { millis: random.random_range(100..6_000) },
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declare(Kind::Node) => f.write_str("a node is declared"),
            Self::Declare(Kind::Standalone) => f.write_str("a standalone resource is declared"),
            Self::Declare(Kind::Failing) => f.write_str("a node is declared that will fail"),
            Self::Declare(Kind::RolledBack) => {
                f.write_str("a node is declared that will fail and be rolled back")
            }
            Self::Delete(number) => write!(f, "the deletion of #{number} is requested"),
            Self::DeleteXr(number) => {
                write!(f, "another party deletes the composite resource of #{number}")
            }
            Self::Pause(number) => {
                write!(f, "another party pauses the composite resource of #{number}")
            }
            Self::Kill(number) => write!(f, "replica {number} is killed and started again"),
            Self::LateArrival => f.write_str("a late request arrives"),
            Self::FreezeWatch => f.write_str("the watch falls behind"),
            Self::CatchUp => f.write_str("the watch catches up"),
            Self::EndWatch => f.write_str("the watch ends"),
            Self::Wait { millis } => write!(f, "{millis} ms pass"),
        }
    }
}
