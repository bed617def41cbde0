//! A decorator that makes any port misbehave, on purpose and on record.
//!
//! Wrap a port and use it as before; what goes wrong, and when, is in a [`FaultPlan`], by script or by seed:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use std::sync::Arc;
//!
//! use broker_domain::ProvisionedResourceId;
//! use broker_memory::{ManualClock, MemoryTokens};
//! use broker_testkit::faults::{Fault, FaultPlan, Faults};
//! use broker_ports::{FailureClass, PortName, TokenIssuer};
//! use time::OffsetDateTime;
//! use uuid::Uuid;
//!
//! let clock = Arc::new(ManualClock::at(OffsetDateTime::UNIX_EPOCH));
//! let issuer: Arc<dyn TokenIssuer> = Arc::new(MemoryTokens::seeded(7, clock));
//! let plan = FaultPlan::none().on(PortName::TokenIssuer, "close", 1, Fault::AfterEffect);
//! let faults = Faults::new(plan);
//! let issuer = faults.around(issuer);
//!
//! let resource = ProvisionedResourceId::new(Uuid::from_u128(1))?;
//! let error = issuer.close(resource).await.unwrap_err();
//! assert_eq!(error.class(), FailureClass::Unknown);
//! assert_eq!(faults.log().to_string(), "token_issuer.close call 1: after effect\n");
//! # Ok::<(), broker_domain::Error>(())
//! # }).unwrap();
//! ```
//!
//! Thirteen of the fifteen ports can be wrapped. [`Clock`](broker_ports::Clock) and
//! [`IdSource`](broker_ports::IdSource) cannot: they neither wait nor fail.

mod answers;
mod mechanism;
mod plan;
mod ports;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;

pub use mechanism::FaultyPort;
pub use plan::{Answered, Fault, FaultPlan, Late, Odds};

use broker_ports::PortName;

/// One plan over any number of ports, the log of what fired, and the requests that are still under way.
/// Clones are handles on the same.
#[derive(Clone)]
pub struct Faults(Arc<Shared>);

struct Shared {
    plan: FaultPlan,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: BTreeMap<(PortName, &'static str), u64>,
    stale: BTreeSet<(PortName, &'static str, u64)>,
    about: BTreeMap<(PortName, &'static str, u64), String>,
    log: Vec<Fired>,
    adrift: VecDeque<(Fired, BoxFuture<'static, ()>)>,
    healed: bool,
}

/// A fault that fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fired {
    /// On which port.
    pub port: PortName,
    /// In which of its methods.
    pub method: &'static str,
    /// In which call of that method, counted from one.
    pub nth: u64,
    /// What happened.
    pub fault: Fault,
}

/// The faults that fired, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FaultLog(Vec<Fired>);

impl Faults {
    /// Nothing is wrapped yet.
    pub fn new(plan: FaultPlan) -> Self {
        Self(Arc::new(Shared { plan, state: Mutex::default() }))
    }

    /// The same port, with the faults of the plan.
    pub fn around<P: FaultyPort + ?Sized>(&self, port: Arc<P>) -> Arc<P> {
        P::decorate(port, self.clone())
    }

    /// What fired so far.
    pub fn log(&self) -> FaultLog {
        FaultLog(self.lock().log.clone())
    }

    /// How often each method was called so far, whether or not something went wrong with it.
    pub fn calls(&self) -> BTreeMap<(PortName, &'static str), u64> {
        self.lock().calls.clone()
    }

    /// The calls so far, counted from one, to which something else would have been answered before. They are
    /// noted under a plan that has [`Fault::StaleRead`]s or [asks for them](FaultPlan::remembering), and nowhere
    /// else can one fire.
    pub fn stale_calls(&self) -> BTreeSet<(PortName, &'static str, u64)> {
        self.lock().stale.clone()
    }

    /// What the calls so far, counted from one, were about: of an apply and of a deletion the kind of the object. It is
    /// noted under a plan that [asks for it](FaultPlan::remembering).
    pub fn about(&self) -> BTreeMap<(PortName, &'static str, u64), String> {
        self.lock().about.clone()
    }

    /// From now on nothing goes wrong. What is under way still is.
    pub fn heal(&self) {
        self.lock().healed = true;
    }

    /// How many requests are under way whose callers have given up on them.
    pub fn adrift(&self) -> usize {
        self.lock().adrift.len()
    }

    /// Lets the oldest request that is under way arrive, and answers which. Its effect happens now; its
    /// answer interests nobody any more.
    pub async fn land_next(&self) -> Option<Fired> {
        let (fired, request) = self.lock().adrift.pop_front()?;
        request.await;
        Some(fired)
    }

    /// Lets every request that is under way arrive, the oldest first; answers how many.
    pub async fn land_all(&self) -> usize {
        let mut landed = 0;
        while self.land_next().await.is_some() {
            landed += 1;
        }
        landed
    }

    /// Whether a method may change something, so that a late request of it can arrive at all.
    pub fn may_change(port: PortName, method: &str) -> bool {
        ports::methods_of(port).iter().any(|known| known.name == method && known.may_change)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultLog {
    /// The entries.
    pub fn entries(&self) -> &[Fired] {
        &self.0
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("plan", &self.0.plan).finish_non_exhaustive()
    }
}

impl fmt::Display for Fired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, method, nth, fault } = self;
        write!(f, "{port}.{method} call {nth}: {fault}")
    }
}

/// One line per fault: what belongs beside the seed of a run that failed.
impl fmt::Display for FaultLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|fired| writeln!(f, "{fired}"))
    }
}
