//! Fault plans: which call fails and how, by script, by seed, or both.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use super::mechanism::Method;
use super::ports::methods_of;
use broker_ports::PortName;

/// A fault of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No effect; the caller gets `Transient`.
    BeforeEffect,
    /// The effect happens and the response is lost: `Unknown`, or `Transient` for a read-only call.
    AfterEffect,
    /// The call hangs, on tokio's clock. A caller that waits longer gets the response, or `Unknown` if the request
    /// never arrives.
    Delay {
        /// The duration.
        by: Duration,
        /// Whether the request arrives after its caller dropped the call. Irrelevant for reads.
        late: LateArrival,
    },
    /// The effect happens twice.
    Duplicate {
        /// The response that the caller gets.
        response: DuplicateResponse,
    },
    /// A read returns the response from before its last change. It requires an earlier call that read that response.
    StaleRead,
}

/// Whether a request arrives after its caller dropped the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LateArrival {
    /// The request never arrives.
    Never,
    /// The request arrives on [`Faults::complete_next`](super::Faults::complete_next).
    Completes,
}

/// The response that the caller of a duplicated request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the one of its name")]
pub enum DuplicateResponse {
    First,
    Second,
}

/// The number of calls in a thousand that fail, per fault. The sum is at most a thousand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FaultRates {
    /// [`Fault::BeforeEffect`].
    pub before_effect: u16,
    /// [`Fault::AfterEffect`].
    pub after_effect: u16,
    /// [`Fault::Delay`]; half of the dropped requests arrive late.
    pub delay: u16,
    /// [`Fault::Duplicate`]; half of them return the second response.
    pub duplicate: u16,
    /// [`Fault::StaleRead`], for reads only.
    pub stale_read: u16,
    /// The duration of a delay; longer than the caller's deadline.
    pub delay_by: Duration,
}

impl FaultRates {
    /// No faults; the default delay is one hour.
    pub const NONE: Self = Self {
        before_effect: 0,
        after_effect: 0,
        delay: 0,
        duplicate: 0,
        stale_read: 0,
        delay_by: Duration::from_hours(1),
    };

    /// The same rate for each fault.
    pub const fn evenly(of_a_thousand: u16) -> Self {
        let each = of_a_thousand;
        Self {
            before_effect: each,
            after_effect: each,
            delay: each,
            duplicate: each,
            stale_read: each,
            ..Self::NONE
        }
    }

    /// The sum of all rates.
    fn of_a_thousand(self) -> u32 {
        let Self { before_effect, after_effect, delay, duplicate, stale_read, delay_by: _ } = self;
        [before_effect, after_effect, delay, duplicate, stale_read].map(u32::from).iter().sum()
    }
}

/// The calls that fail.
///
/// The script overrides the rates.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct FaultPlan {
    script: Vec<ScriptedFault>,
    seeded: Option<(u64, FaultRates)>,
    records_responses: bool,
}

#[derive(Debug, Clone)]
struct ScriptedFault {
    port: PortName,
    method: &'static str,
    calls: RangeInclusive<u64>,
    fault: Fault,
}

impl FaultPlan {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Random faults. The nth call of a method gets the same fault in every run with this seed, independent of other
    /// ports.
    ///
    /// # Panics
    ///
    /// When the sum of the rates exceeds a thousand: some faults could never occur.
    #[track_caller]
    pub fn seeded(seed: u64, rates: FaultRates) -> Self {
        let sum = rates.of_a_thousand();
        assert!(sum <= 1_000, "the rates add up to {sum} of 1,000 calls; use at most 1,000");
        Self { seeded: Some((seed, rates)), ..Self::none() }
    }

    /// Injects a fault into the nth call of a method, counted from one.
    ///
    /// # Panics
    ///
    /// When the port has no such method, or the method has no stale response.
    #[track_caller]
    pub fn on(self, port: PortName, method: &'static str, nth: u64, fault: Fault) -> Self {
        self.with(ScriptedFault { port, method, calls: nth..=nth, fault })
    }

    /// Injects a fault into every call of a method from the nth on, until [healed](super::Faults::heal).
    ///
    /// # Panics
    ///
    /// As [`on`](Self::on).
    #[track_caller]
    pub fn from_call(self, port: PortName, method: &'static str, nth: u64, fault: Fault) -> Self {
        self.with(ScriptedFault { port, method, calls: nth..=u64::MAX, fault })
    }

    /// Records responses without a planned stale read, for [`stale_calls`](super::Faults::stale_calls) and
    /// [`subjects`](super::Faults::subjects).
    pub fn remembering(self) -> Self {
        Self { records_responses: true, ..self }
    }

    pub(super) const fn records_responses(&self) -> bool {
        self.records_responses
    }

    #[track_caller]
    fn with(mut self, line: ScriptedFault) -> Self {
        check(line.port, line.method, line.fault);
        self.script.push(line);
        self
    }

    /// Whether earlier responses have to be recorded.
    pub(super) fn has_stale_reads(&self) -> bool {
        self.records_responses
            || self.script.iter().any(|line| line.fault == Fault::StaleRead)
            || self.seeded.is_some_and(|(_, rates)| rates.stale_read > 0)
    }

    pub(super) fn decide(&self, port: PortName, method: Method, nth: u64) -> Option<Fault> {
        let scripted = self.script.iter().find(|line| {
            line.port == port && line.method == method.name && line.calls.contains(&nth)
        });
        match (scripted, self.seeded) {
            (Some(line), _) => Some(line.fault),
            (None, Some((seed, rates))) => draw(seed, rates, port, method, nth),
            (None, None) => None,
        }
    }
}

/// Rejects a script without effect, which would silently test nothing.
#[track_caller]
fn check(port: PortName, method: &str, fault: Fault) {
    let methods = methods_of(port);
    let found = methods.iter().find(|known| known.name == method);
    let names = || methods.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
    let known = found.unwrap_or_else(|| {
        panic!("{port} has no method {method:?} that can fail; use {}", names())
    });
    assert!(
        fault != Fault::StaleRead || known.may_be_stale,
        "{port}.{method} has no stale response"
    );
}

/// Draws the fault of a call from the rates.
fn draw(seed: u64, rates: FaultRates, port: PortName, method: Method, nth: u64) -> Option<Fault> {
    let FaultRates { before_effect, after_effect, delay, duplicate, stale_read, delay_by } = rates;
    let mut hasher = Sha256::new();
    hasher.update(seed.to_be_bytes());
    hasher.update(nth.to_be_bytes());
    hasher.update(port.as_str());
    hasher.update([0]);
    hasher.update(method.name);
    let mut random = StdRng::from_seed(hasher.finalize().into());
    let late = if random.random() { LateArrival::Completes } else { LateArrival::Never };
    let response =
        if random.random() { DuplicateResponse::First } else { DuplicateResponse::Second };
    let mut roll: u16 = random.random_range(0..1_000);
    let choices = [
        (before_effect, Some(Fault::BeforeEffect)),
        (after_effect, Some(Fault::AfterEffect)),
        (delay, Some(Fault::Delay { by: delay_by, late })),
        (duplicate, Some(Fault::Duplicate { response })),
        (stale_read, method.may_be_stale.then_some(Fault::StaleRead)),
    ];
    for (of_a_thousand, fault) in choices {
        if roll < of_a_thousand {
            return fault;
        }
        roll -= of_a_thousand;
    }
    None
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeEffect => f.write_str("before effect"),
            Self::AfterEffect => f.write_str("after effect"),
            Self::Delay { by, late: LateArrival::Never } => {
                write!(f, "delayed by {by:?}, never arrives")
            }
            Self::Delay { by, late: LateArrival::Completes } => {
                write!(f, "delayed by {by:?}, arrives late")
            }
            Self::Duplicate { response: DuplicateResponse::First } => {
                f.write_str("twice, first answer")
            }
            Self::Duplicate { response: DuplicateResponse::Second } => {
                f.write_str("twice, second answer")
            }
            Self::StaleRead => f.write_str("stale read"),
        }
    }
}
