//! Fault injection: a decorator that makes any port fail according to a plan and logs it.
//!
//! Wrap a port and use it as before. A [`FaultPlan`] defines the faults, by script or by seed:
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
//! let issuer = faults.wrap(issuer);
//!
//! let resource = ProvisionedResourceId::new(Uuid::from_u128(1))?;
//! let error = issuer.close(resource).await.unwrap_err();
//! assert_eq!(error.class(), FailureClass::Unknown);
//! assert_eq!(faults.log().to_string(), "token_issuer.close call 1: after effect\n");
//! # Ok::<(), broker_domain::Error>(())
//! # }).unwrap();
//! ```
//!
//! Every port can be wrapped except [`Clock`](broker_ports::Clock) and [`IdSource`](broker_ports::IdSource), which
//! neither wait nor fail.

mod copies;
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
pub use plan::{DuplicateResponse, Fault, FaultPlan, FaultRates, LateArrival};

use broker_ports::PortName;

/// One plan for any number of ports, the log of injected faults, and the in-flight requests. Clones are handles on the
/// same state.
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
    subjects: BTreeMap<(PortName, &'static str, u64), String>,
    log: Vec<InjectedFault>,
    pending: VecDeque<(InjectedFault, BoxFuture<'static, ()>)>,
    healed: bool,
}

/// An injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InjectedFault {
    /// The port.
    pub port: PortName,
    /// The method.
    pub method: &'static str,
    /// The number of the call of that method, from one.
    pub nth: u64,
    /// The fault.
    pub fault: Fault,
}

/// The injected faults, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FaultLog(Vec<InjectedFault>);

impl Faults {
    /// Starts a plan. No port is wrapped yet.
    pub fn new(plan: FaultPlan) -> Self {
        Self(Arc::new(Shared { plan, state: Mutex::default() }))
    }

    /// Wraps a port, so that the faults of the plan apply to it.
    pub fn wrap<P: FaultyPort + ?Sized>(&self, port: Arc<P>) -> Arc<P> {
        P::decorate(port, self.clone())
    }

    /// The faults so far.
    pub fn log(&self) -> FaultLog {
        FaultLog(self.lock().log.clone())
    }

    /// The number of calls per method so far, with or without a fault.
    pub fn calls(&self) -> BTreeMap<(PortName, &'static str), u64> {
        self.lock().calls.clone()
    }

    /// The calls so far, counted from one, whose response had changed since an earlier call. Only in these calls can a
    /// [`Fault::StaleRead`] be injected. Recorded under a plan that has stale reads or [records
    /// responses](FaultPlan::remembering).
    pub fn stale_calls(&self) -> BTreeSet<(PortName, &'static str, u64)> {
        self.lock().stale.clone()
    }

    /// The subject of each call so far, counted from one: for an apply or a deletion, the kind of the object. Recorded
    /// under a plan that [records responses](FaultPlan::remembering).
    pub fn subjects(&self) -> BTreeMap<(PortName, &'static str, u64), String> {
        self.lock().subjects.clone()
    }

    /// Stops injecting faults. In-flight requests stay in flight.
    pub fn heal(&self) {
        self.lock().healed = true;
    }

    /// The number of in-flight requests whose callers dropped the call.
    pub fn pending_requests(&self) -> usize {
        self.lock().pending.len()
    }

    /// Completes the oldest in-flight request and returns it. Its effect happens now; its response is discarded.
    pub async fn complete_next(&self) -> Option<InjectedFault> {
        let (fault, request) = self.lock().pending.pop_front()?;
        request.await;
        Some(fault)
    }

    /// Completes all in-flight requests, oldest first. Returns their number.
    pub async fn complete_pending(&self) -> usize {
        let mut completed = 0;
        while self.complete_next().await.is_some() {
            completed += 1;
        }
        completed
    }

    /// Whether a method may change state, so that a late request of it can take effect.
    pub fn may_change(port: PortName, method: &str) -> bool {
        ports::methods_of(port).iter().any(|known| known.name == method && known.may_change)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultLog {
    /// The entries.
    pub fn entries(&self) -> &[InjectedFault] {
        &self.0
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("plan", &self.0.plan).finish_non_exhaustive()
    }
}

impl fmt::Display for InjectedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, method, nth, fault } = self;
        write!(f, "{port}.{method} call {nth}: {fault}")
    }
}

/// One line per fault, to be logged with the seed of a failed run.
impl fmt::Display for FaultLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|fault| writeln!(f, "{fault}"))
    }
}
