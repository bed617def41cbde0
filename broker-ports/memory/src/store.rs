//! Persist and emit in memory: the store behind [`Repository`](broker_ports::Repository),
//! [`Schedule`](broker_ports::Schedule), [`Outbox`](broker_ports::Outbox) and [`AuditSink`](broker_ports::AuditSink).

mod audit;
mod brake;
mod outbox;
mod purge;
mod query;
mod repository;
mod schedule;
mod state;

use std::sync::{Arc, Mutex, PoisonError};

use broker_domain::{Declaration, ProvisionedResourceId};
use rand::SeedableRng;
use rand::rngs::StdRng;

use self::state::{References, State};
use crate::Answer;
use broker_ports::{AuditRecord, Backoff, Clock, PortError};

/// A store in this process. Clones are handles on the same store, as connections are on a database.
///
/// Every method of the four ports is one critical section, and so one transaction: it looks at everything
/// that could refuse it before it changes anything, and it never waits in between. The store's clock decides
/// about due times, leases and claims; should it jump back, the store's time stands still until it has caught
/// up.
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
    /// An empty store with a clock of its own. It believes every reference of a declaration.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let state = Arc::new(Mutex::new(State::new(clock.now())));
        Self { clock, state }
    }

    /// With another seed for the jitter of the back-off.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.locked(|state| state.jitter = StdRng::seed_from_u64(seed));
        self
    }

    /// From now on a declaration may only refer to what the store was told of by
    /// [`know`](Self::know), as a database with foreign keys has it.
    #[must_use]
    pub fn checking_references(self) -> Self {
        self.locked(|state| {
            state.references.get_or_insert_with(References::default);
        });
        self
    }

    /// Makes everything exist that a declaration refers to.
    pub fn know(&self, declaration: &Declaration) {
        self.locked(|state| {
            if let Some(references) = &mut state.references {
                references.know(declaration);
            }
        });
    }

    /// The bounds of the back-off.
    pub fn backoff(&self) -> Backoff {
        self.locked(|state| state.backoff)
    }

    /// The whole audit, of all resources and of none, oldest line first.
    pub fn audit_trail(&self) -> Vec<AuditRecord> {
        self.locked(|state| state.audit.clone())
    }

    /// Makes the row of a resource unreadable, as a database's is after somebody wrote to it by hand. Answers whether
    /// there is one.
    pub fn spoil(&self, id: ProvisionedResourceId) -> bool {
        self.locked(|state| state.rows.get_mut(&id).map(|row| row.spoilt = true).is_some())
    }

    /// Cuts the store off, or brings it back: an outage. Until then every method of its ports is a
    /// `Transient` error, and nothing changes.
    pub fn set_reachable(&self, reachable: bool) {
        self.locked(|state| state.reachable = reachable);
    }

    /// One transaction, at one moment of the store's clock.
    ///
    /// Whoever runs one refuses before the first change; there is nothing that would take a change back.
    fn transact<T>(&self, work: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
        self.locked(|state| {
            if !state.reachable {
                return Err(PortError::transient("the store is cut off"));
            }
            state.now = state.now.max(self.clock.now());
            work(state)
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        // No code under this lock panics on its own account; a test that does so in a clock of its own
        // should not hide its message behind a poisoned lock.
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
