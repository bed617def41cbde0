//! The in-memory store as the world of the suites, for its own tests and for the comparison with Postgres.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{Declaration, ProvisionedResourceId};

use broker_memory::{ManualClock, MemoryStore};
use broker_ports::{AuditRecord, AuditSink, Outbox, PortError, Repository, Schedule};
use broker_testkit::builders::second;
use broker_testkit::store::StoreUnderTest;

/// A [`MemoryStore`] and its clock.
pub(crate) struct InMemoryStore {
    /// The store, which checks references as a database does.
    pub(crate) store: MemoryStore,
    /// Its clock.
    pub(crate) clock: ManualClock,
}

impl InMemoryStore {
    /// An empty store.
    #[must_use]
    pub(crate) fn fresh() -> Self {
        let clock = ManualClock::at(second(10_000));
        let store = MemoryStore::new(Arc::new(clock.clone())).checking_references();
        Self { store, clock }
    }
}

#[async_trait]
impl StoreUnderTest for InMemoryStore {
    fn repository(&self) -> &dyn Repository {
        &self.store
    }

    fn schedule(&self) -> &dyn Schedule {
        &self.store
    }

    fn outbox(&self) -> &dyn Outbox {
        &self.store
    }

    fn audit(&self) -> &dyn AuditSink {
        &self.store
    }

    async fn register_references(&self, declaration: &Declaration) -> Result<(), PortError> {
        self.store.register_references(declaration);
        Ok(())
    }

    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
        Ok(self.store.audit_trail())
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.clock.advance(by);
        Ok(())
    }

    async fn corrupt(&self, id: ProvisionedResourceId) -> Result<bool, PortError> {
        Ok(self.store.corrupt(id))
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.store.set_reachable(false);
        Ok(())
    }
}
