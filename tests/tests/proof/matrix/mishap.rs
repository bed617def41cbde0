//! What can befall a call.

use std::fmt;
use std::time::Duration;

use broker_ports::PortName;
use broker_testkit::faults::{Answered, Fault, Late};

use super::workflow::{Call, Made};

/// Longer than anybody waits.
pub(super) const AN_HOUR: Duration = Duration::from_hours(1);

/// What befalls a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mishap {
    Before,
    After,
    TwiceFirst,
    TwiceSecond,
    /// It hangs, and never arrives.
    Hangs,
    /// Its worker dies, and it never arrives.
    CrashBefore,
    /// It arrives, and its worker dies before it hears of it.
    CrashAfter,
    /// Its worker is cut off; it arrives when the lease is over and another worker has been at it.
    PastTheLease,
    /// It answers what was true before the last change.
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

    /// What was under way arrives when nobody waits for it any more.
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
                Fault::Delay { by: AN_HOUR, late: Late::Lands }
            }
            Self::Stale => Fault::StaleRead,
        }
    }
}

/// A method of a port.
type Method = (PortName, &'static str);

/// The reads that have to be fresh by their contract, and what stands on each.
pub(super) const FRESH: [(Method, &str); 2] = [
    (
        (PortName::Cluster, "read"),
        "each object is read by its name, from no cache: what is absent there may be made anew, and Deleted is \
         written on it",
    ),
    (
        (PortName::NodeDeregistrar, "node_registered"),
        "asked when the tokens are closed, it decides whether substrate may go; \
         `what_has_to_be_fresh_cannot_be_stale` shows what a stale answer would do",
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
