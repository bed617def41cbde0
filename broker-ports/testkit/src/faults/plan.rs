//! What goes wrong, and when: by script, by seed, or both.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use super::mechanism::Method;
use super::ports::methods_of;
use broker_ports::PortName;

/// Something that goes wrong with one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing happens, and the caller is told so: `Transient`.
    BeforeEffect,
    /// It happens, and the answer is lost: `Unknown`, or `Transient` where nothing could change.
    AfterEffect,
    /// The call hangs, on tokio's clock. A caller that is more patient gets its answer afterwards: that of
    /// the request, or `Unknown` if that never arrives.
    Delay {
        /// For how long.
        by: Duration,
        /// What becomes of the request when its caller gives up first. A read changes nothing either way.
        late: Late,
    },
    /// It happens twice.
    Duplicate {
        /// Which of the two the caller is told of.
        answered: Answered,
    },
    /// A read is answered with what was true before the last change of the answer to that question. It cannot fire
    /// where nobody asked before that change.
    StaleRead,
}

/// What becomes of a request whose caller gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Late {
    /// It never arrives.
    Never,
    /// It arrives when [`Faults::land_next`](super::Faults::land_next) says so.
    Lands,
}

/// Which of two performances the caller is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the one of its name")]
pub enum Answered {
    First,
    Second,
}

/// How many of a thousand calls go wrong, in which way: a thousand in all, at the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Odds {
    /// [`Fault::BeforeEffect`].
    pub before_effect: u16,
    /// [`Fault::AfterEffect`].
    pub after_effect: u16,
    /// [`Fault::Delay`]; half of the requests that their callers give up on arrive late.
    pub delay: u16,
    /// [`Fault::Duplicate`]; half of them are answered by the second.
    pub duplicate: u16,
    /// [`Fault::StaleRead`], of reads only.
    pub stale_read: u16,
    /// How long a delayed call hangs: longer than its caller's deadline.
    pub delay_by: Duration,
}

impl Odds {
    /// Nothing goes wrong; a delay, once it has odds, lasts an hour.
    pub const NONE: Self = Self {
        before_effect: 0,
        after_effect: 0,
        delay: 0,
        duplicate: 0,
        stale_read: 0,
        delay_by: Duration::from_hours(1),
    };

    /// Each fault has the same odds.
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

    /// How many of a thousand calls go wrong in any way.
    fn of_a_thousand(self) -> u32 {
        let Self { before_effect, after_effect, delay, duplicate, stale_read, delay_by: _ } = self;
        [before_effect, after_effect, delay, duplicate, stale_read].map(u32::from).iter().sum()
    }
}

/// Which calls go wrong.
///
/// What the script says about a call goes before what its odds would be.
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct FaultPlan {
    script: Vec<Line>,
    seeded: Option<(u64, Odds)>,
    remembers: bool,
}

#[derive(Debug, Clone)]
struct Line {
    port: PortName,
    method: &'static str,
    calls: RangeInclusive<u64>,
    fault: Fault,
}

impl FaultPlan {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// Every call takes its chance. The nth call of a method meets the same fault in every run with this
    /// seed, whatever happens on other ports meanwhile.
    ///
    /// # Panics
    ///
    /// When the odds come to more than a thousand of a thousand: some faults would have no chance at all.
    #[track_caller]
    pub fn seeded(seed: u64, odds: Odds) -> Self {
        let sum = odds.of_a_thousand();
        assert!(sum <= 1_000, "the odds come to {sum} of 1,000 calls; use 1,000 at the most");
        Self { seeded: Some((seed, odds)), ..Self::none() }
    }

    /// One call of a method goes wrong: its nth, counted from one.
    ///
    /// # Panics
    ///
    /// When the port has no such method, or the method has no stale answer to give.
    #[track_caller]
    pub fn on(self, port: PortName, method: &'static str, nth: u64, fault: Fault) -> Self {
        self.with(Line { port, method, calls: nth..=nth, fault })
    }

    /// Every call of a method goes wrong from its nth on, until the faults are
    /// [healed](super::Faults::heal).
    ///
    /// # Panics
    ///
    /// As [`on`](Self::on).
    #[track_caller]
    pub fn from_call(self, port: PortName, method: &'static str, nth: u64, fault: Fault) -> Self {
        self.with(Line { port, method, calls: nth..=u64::MAX, fault })
    }

    /// Answers are remembered although no stale one is wanted, to learn
    /// [where one could be given](super::Faults::stale_calls), and [what each call is about](super::Faults::about).
    pub fn remembering(self) -> Self {
        Self { remembers: true, ..self }
    }

    pub(super) const fn remembers(&self) -> bool {
        self.remembers
    }

    #[track_caller]
    fn with(mut self, line: Line) -> Self {
        check(line.port, line.method, line.fault);
        self.script.push(line);
        self
    }

    /// Whether an answer may be wanted again.
    pub(super) fn has_stale_reads(&self) -> bool {
        self.remembers
            || self.script.iter().any(|line| line.fault == Fault::StaleRead)
            || self.seeded.is_some_and(|(_, odds)| odds.stale_read > 0)
    }

    pub(super) fn decide(&self, port: PortName, method: Method, nth: u64) -> Option<Fault> {
        let scripted = self.script.iter().find(|line| {
            line.port == port && line.method == method.name && line.calls.contains(&nth)
        });
        match (scripted, self.seeded) {
            (Some(line), _) => Some(line.fault),
            (None, Some((seed, odds))) => draw(seed, odds, port, method, nth),
            (None, None) => None,
        }
    }
}

/// A script that means nothing would test nothing, in silence.
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
        "{port}.{method} has no stale answer to give"
    );
}

/// What a call's chance comes to.
fn draw(seed: u64, odds: Odds, port: PortName, method: Method, nth: u64) -> Option<Fault> {
    let Odds { before_effect, after_effect, delay, duplicate, stale_read, delay_by } = odds;
    let mut hasher = Sha256::new();
    hasher.update(seed.to_be_bytes());
    hasher.update(nth.to_be_bytes());
    hasher.update(port.as_str());
    hasher.update([0]);
    hasher.update(method.name);
    let mut random = StdRng::from_seed(hasher.finalize().into());
    let late = if random.random() { Late::Lands } else { Late::Never };
    let answered = if random.random() { Answered::First } else { Answered::Second };
    let mut roll: u16 = random.random_range(0..1_000);
    let ways = [
        (before_effect, Some(Fault::BeforeEffect)),
        (after_effect, Some(Fault::AfterEffect)),
        (delay, Some(Fault::Delay { by: delay_by, late })),
        (duplicate, Some(Fault::Duplicate { answered })),
        (stale_read, method.may_be_stale.then_some(Fault::StaleRead)),
    ];
    for (of_a_thousand, fault) in ways {
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
            Self::Delay { by, late: Late::Never } => write!(f, "delayed by {by:?}, never arrives"),
            Self::Delay { by, late: Late::Lands } => write!(f, "delayed by {by:?}, lands late"),
            Self::Duplicate { answered: Answered::First } => f.write_str("twice, first answer"),
            Self::Duplicate { answered: Answered::Second } => f.write_str("twice, second answer"),
            Self::StaleRead => f.write_str("stale read"),
        }
    }
}
