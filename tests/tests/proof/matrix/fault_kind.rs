//! The faults of a call.

use std::fmt;
use std::time::Duration;

use broker_ports::PortName;
use broker_testkit::faults::{DuplicateResponse, Fault, LateArrival};

use super::workflow::{Call, NumberedCall};

/// Longer than every timeout.
pub(super) const AN_HOUR: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultKind {
    BeforeEffect,
    AfterEffect,
    DuplicateFirst,
    DuplicateSecond,
    Hangs,
    /// The worker dies before its request is sent.
    CrashBefore,
    /// The worker dies after its request has arrived, before the response.
    CrashAfter,
    /// The worker is cut off; its request arrives after the lease, when another worker has acted.
    AfterLease,
    StaleRead,
}

impl FaultKind {
    pub(super) const ALL: [Self; 9] = [
        Self::BeforeEffect,
        Self::AfterEffect,
        Self::DuplicateFirst,
        Self::DuplicateSecond,
        Self::Hangs,
        Self::CrashBefore,
        Self::CrashAfter,
        Self::AfterLease,
        Self::StaleRead,
    ];

    pub(super) fn applies_to(self, call: &NumberedCall) -> bool {
        self != Self::StaleRead || (call.can_be_stale && !must_be_fresh(&call.call))
    }

    pub(super) const fn cuts_off_its_worker(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter | Self::AfterLease)
    }

    /// Whether the call takes effect after its caller has stopped waiting.
    pub(super) const fn arrives_late(self) -> bool {
        matches!(self, Self::CrashAfter | Self::AfterLease)
    }

    pub(super) const fn fault(self) -> Fault {
        match self {
            Self::BeforeEffect => Fault::BeforeEffect,
            Self::AfterEffect => Fault::AfterEffect,
            Self::DuplicateFirst => Fault::Duplicate { response: DuplicateResponse::First },
            Self::DuplicateSecond => Fault::Duplicate { response: DuplicateResponse::Second },
            Self::Hangs | Self::CrashBefore => {
                Fault::Delay { by: AN_HOUR, late: LateArrival::Never }
            }
            Self::CrashAfter | Self::AfterLease => {
                Fault::Delay { by: AN_HOUR, late: LateArrival::Completes }
            }
            Self::StaleRead => Fault::StaleRead,
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
        "after the tokens are closed, it decides whether substrate may be deleted; \
         `stale_response_to_a_fresh_read_breaks_a_promise` shows the effect of a stale response",
    ),
];

pub(super) fn must_be_fresh(call: &Call) -> bool {
    FRESH.iter().any(|(fresh, _)| *fresh == (call.port, call.method))
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeEffect => "fails before it happens",
            Self::AfterEffect => "its response is lost",
            Self::DuplicateFirst => "twice, first response",
            Self::DuplicateSecond => "twice, second response",
            Self::Hangs => "hangs",
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::AfterLease => "past the lease",
            Self::StaleRead => "stale read",
        })
    }
}
