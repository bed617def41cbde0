//! Observe and act: a simulated management cluster in memory, with API server, garbage collector, Crossplane and
//! providers.
//!
//! The API server half keeps objects with versions, generations, finalizers and field owners, and serves the port.
//! Crossplane, providers and garbage collector work only during [`MemoryCluster::tick`], so that a test controls the
//! order and a run is repeatable.
//!
//! A test changes the cluster past the broker with methods of [`MemoryCluster`], which are not part of the port.

mod agent;
mod apply;
mod behaviour;
mod controls;
mod crossplane;
mod delete;
mod inspect;
mod object;
mod ownership;
mod provider;
mod read;
mod state;
mod watch;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::ClusterId;

pub use agent::AgentDocument;
pub use behaviour::Behaviour;
pub use controls::{Activity, KindScope};
pub use crossplane::Part;
pub use state::{StoredVersion, Verb};
pub use watch::HintDelivery;

use crate::PortResult;
use broker_ports::{
    Applied, ApplyRequest, CachedXr, Clock, Cluster, DeleteRequest, Deleted, DryRun, Hints,
    Inspection, OwnedPage, OwnedQuery, PortError, Reading, Target, XrTarget, refuse_foreign_write,
};
use state::{Caller, State};

/// A simulated cluster. Clones are handles on the same cluster.
///
/// ```
/// use std::sync::Arc;
///
/// use broker_domain::ClusterId;
/// use broker_memory::{Activity, ManualClock, MemoryCluster};
/// use time::OffsetDateTime;
///
/// let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
/// let cluster = MemoryCluster::new(Arc::new(clock), ClusterId::new("kube-system-uid")?);
/// cluster.create_namespace("team-a");
/// assert_eq!(cluster.tick(), Activity::Idle, "no controller has work");
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Clone)]
pub struct MemoryCluster {
    state: Arc<Mutex<State>>,
    /// Whose rights this handle has; `None` has all rights.
    caller: Caller,
    /// Runs at every [`BACKGROUND_INTERVAL`] while the cluster is watched; `None` leaves the ticks to the test.
    background: Option<Background>,
}

/// A turn of the simulated platform: [`MemoryCluster::tick`] and the agents.
type Background = Arc<dyn Fn() + Send + Sync>;

/// The pause before each turn of the background work.
const BACKGROUND_INTERVAL: Duration = Duration::from_millis(20);

impl MemoryCluster {
    /// An empty cluster.
    pub fn new(clock: Arc<dyn Clock>, identity: ClusterId) -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new(clock, identity))),
            caller: None,
            background: None,
        }
    }

    /// A handle on the same cluster for an identity with rights on these kinds only, given as apiVersion and kind.
    #[must_use]
    pub fn limited_to(&self, kinds: &[(&str, &str)]) -> Self {
        let to_owned =
            |(api_version, kind): &(&str, &str)| ((*api_version).to_owned(), (*kind).to_owned());
        let caller = Some(Arc::new(kinds.iter().map(to_owned).collect()));
        Self { state: Arc::clone(&self.state), caller, background: None }
    }

    /// A handle on the same cluster that calls `work` every 20 ms while it is watched.
    pub(crate) fn with_background(&self, work: impl Fn() + Send + Sync + 'static) -> Self {
        Self { background: Some(Arc::new(work)), ..self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Objects may hold tokens, so the state is not printed.
impl fmt::Debug for MemoryCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("MemoryCluster")
            .field("identity", &state.identity)
            .field("objects", &state.objects.len())
            .field("tick", &state.crossplane.tick)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Cluster for MemoryCluster {
    async fn identity(&self) -> PortResult<ClusterId> {
        self.state().identify(&self.caller)
    }

    async fn observe_many(&self, targets: &[XrTarget]) -> PortResult<Vec<PortResult<CachedXr>>> {
        let state = self.state();
        Ok(targets.iter().map(|target| state.observe(&self.caller, target)).collect())
    }

    async fn read(&self, target: &Target) -> PortResult<Reading> {
        self.state().read(&self.caller, target)
    }

    async fn inspect(&self, target: &Target) -> PortResult<Inspection> {
        self.state().inspect(&self.caller, target)
    }

    async fn apply(&self, request: &ApplyRequest) -> PortResult<Applied> {
        refuse_foreign_write(request.project(), request.target(), request.owner())?;
        self.state().apply(&self.caller, request)
    }

    async fn dry_run(&self, request: &ApplyRequest) -> PortResult<DryRun> {
        refuse_foreign_write(request.project(), request.target(), request.owner())?;
        self.state().dry_run(&self.caller, request)
    }

    async fn delete(&self, request: &DeleteRequest<'_>) -> PortResult<Deleted> {
        refuse_foreign_write(request.project, request.target, request.owner)?;
        self.state().delete(&self.caller, request)
    }

    async fn list_owned(&self, query: &OwnedQuery) -> PortResult<OwnedPage> {
        self.state().list_owned(&self.caller, query)
    }

    async fn hints(&self) -> PortResult<Hints> {
        let mut state = self.state();
        if state.unreachable {
            return Err(PortError::transient("watch: connection refused"));
        }
        Ok(Box::pin(state.watch.listeners.subscribe()))
    }

    async fn watch(&self) {
        let Some(work) = &self.background else { return std::future::pending().await };
        loop {
            tokio::time::sleep(BACKGROUND_INTERVAL).await;
            work();
        }
    }
}
