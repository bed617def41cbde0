//! Persist and emit in memory: the store behind [`Repository`](broker_ports::Repository),
//! [`Schedule`](broker_ports::Schedule), [`Outbox`](broker_ports::Outbox) and [`AuditSink`](broker_ports::AuditSink).

mod audit;
mod brake;
mod outbox;
mod purge;
mod query;
mod repository;
mod schedule;
mod shared_config;
mod state;

use std::sync::{Arc, Mutex, PoisonError};

use broker_domain::{Declaration, ProvisionedResourceId};
use rand::SeedableRng;
use rand::rngs::StdRng;

use self::state::{References, State};
use crate::PortResult;
use broker_ports::{AuditRecord, Clock, PortError};

/// A store in this process. Clones are handles on the same store, like connections to a database.
///
/// Every method of the four ports is one critical section, so one transaction. A method makes all checks before
/// its first change and never waits between the two. The store's clock decides due times, leases and claims. If the clock
/// jumps back, the store's time stands still until the clock catches up.
///
/// ```
/// use std::sync::Arc;
///
/// use broker_memory::{ManualClock, MemoryStore};
/// use broker_ports::{Outbox, Repository, Schedule};
/// use time::OffsetDateTime;
///
/// let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
/// let store = MemoryStore::new(Arc::new(clock.clone()));
/// let repository: Arc<dyn Repository> = Arc::new(store.clone());
/// let schedule: Arc<dyn Schedule> = Arc::new(store.clone());
/// let outbox: Arc<dyn Outbox> = Arc::new(store);
/// ```
#[derive(Clone)]
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

impl MemoryStore {
    /// An empty store that accepts every reference of a declaration.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Arc::new(Mutex::new(State::new(clock.now())));
        Self { clock, state }
    }

    /// Sets the seed of the back-off's jitter.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.locked(|state| state.jitter = StdRng::seed_from_u64(seed));
        self
    }

    /// Makes the store reject references that [`register_references`](Self::register_references) did not register, as foreign keys do.
    #[must_use]
    pub fn checking_references(self) -> Self {
        self.locked(|state| {
            state.references.get_or_insert_with(References::default);
        });
        self
    }

    /// Registers everything that a declaration refers to.
    pub fn register_references(&self, declaration: &Declaration) {
        self.locked(|state| {
            if let Some(references) = &mut state.references {
                references.register(declaration);
            }
        });
    }

    /// The whole audit, including lines without a resource, oldest first.
    pub fn audit_trail(&self) -> Vec<AuditRecord> {
        self.locked(|state| state.audit.clone())
    }

    /// Makes the row of a resource unreadable, like a manual write to a database. Returns whether the row exists.
    pub fn corrupt(&self, id: ProvisionedResourceId) -> bool {
        self.locked(|state| state.rows.get_mut(&id).map(|row| row.corrupt = true).is_some())
    }

    /// Simulates an outage. While unreachable, every method of its ports is a `Transient` error and changes nothing.
    pub fn set_reachable(&self, reachable: bool) {
        self.locked(|state| state.reachable = reachable);
    }

    /// Runs one transaction at one moment of the store's clock.
    ///
    /// The closure makes all checks before its first change, because there is no rollback.
    fn transact<T>(&self, work: impl FnOnce(&mut State) -> PortResult<T>) -> PortResult<T> {
        self.locked(|state| {
            if !state.reachable {
                return Err(PortError::transient("the store is unreachable"));
            }
            state.now = state.now.max(self.clock.now());
            work(state)
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // Ignores poisoning: the store does not panic under this lock, and a panic in a test's clock should show its
        // own message.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
