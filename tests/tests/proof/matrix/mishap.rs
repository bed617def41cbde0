//! The faults of a call.

use std::fmt;
use std::time::Duration;

use broker_ports::PortName;
use broker_testkit::faults::{Answered, Fault, Late};

use super::workflow::{Call, Made};

/// Longer than every timeout.
pub(super) const AN_HOUR: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mishap {
    Before,
    After,
    TwiceFirst,
    TwiceSecond,
    Hangs,
    /// Its worker dies, and it never arrives.
    CrashBefore,
    /// It arrives, and its worker dies before the answer.
    CrashAfter,
    /// Its worker is cut off; it arrives after the lease, when another worker has acted.
    PastTheLease,
    Stale,
}

impl Mishap {
    pub(super) const ALL: [Self; 9] = [
        Self::Before,
        Self::After,
        Self::TwiceFirst,
        Self::TwiceSecond,
        Self::Hangs,
        Self::CrashBefore,
        Self::CrashAfter,
        Self::PastTheLease,
        Self::Stale,
    ];

    pub(super) fn can_befall(self, made: &Made) -> bool {
        self != Self::Stale || (made.could_be_stale && !has_to_be_fresh(&made.call))
    }

    pub(super) const fn cuts_off(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::PastTheLease)
    }

    /// Whether the call takes effect after its caller has stopped waiting.
    pub(super) const fn lands(self) -> bool {
        matches!(self, Self::CrashAfter | Self::PastTheLease)
    }

    pub(super) const fn fault(self) -> Fault {
        match self {
            Self::Before => Fault::BeforeEffect,
            Self::After => Fault::AfterEffect,
            Self::TwiceFirst => Fault::Duplicate { answered: Answered::First },
            Self::TwiceSecond => Fault::Duplicate { answered: Answered::Second },
            Self::Hangs | Self::CrashBefore => Fault::Delay { by: AN_HOUR, late: Late::Never },
            Self::CrashAfter | Self::PastTheLease => {
                Fault::Delay { by: AN_HOUR, late: Late::Completes }
            }
            Self::Stale => Fault::StaleRead,
        }
    }
}

type Method = (PortName, &'static str);

/// The reads that must be fresh by contract, and what depends on each.
pub(super) const FRESH: [(Method, &str); 2] = [
    (
        (PortName::Cluster, "read"),
        "each object is read by name, without a cache: an absent object may be recreated, and Deleted depends on \
         its absence",
    ),
    (
        (PortName::NodeDeregistrar, "node_registered"),
        "asked when the tokens are closed, it decides whether substrate may go; \
         `stale_answer_to_a_fresh_read_breaks_a_promise` shows what a stale answer would do",
    ),
];

pub(super) fn has_to_be_fresh(call: &Call) -> bool {
    FRESH.iter().any(|(fresh, _)| *fresh == (call.port, call.method))
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "fails before it happens",
            Self::After => "its answer is lost",
            Self::TwiceFirst => "twice, first answer",
            Self::TwiceSecond => "twice, second answer",
            Self::Hangs => "hangs",
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::PastTheLease => "past the lease",
            Self::Stale => "stale read",
        })
    }
}
