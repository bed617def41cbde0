//! The in-memory store, as a history wants it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::Declaration;
use broker_ports::memory::{ManualClock, MemoryStore};
use broker_ports::testing::builders::second;
use broker_ports::testing::store::StoreUnderTest;
use broker_ports::{AuditRecord, AuditSink, Backoff, Outbox, PortError, Repository, Schedule};

pub(super) struct Store {
    store: MemoryStore,
    clock: ManualClock,
}

impl Store {
    pub(super) fn new() -> Self {
        let clock = ManualClock::at(second(10_000));
        let store = MemoryStore::new(Arc::new(clock.clone())).checking_references();
        Self { store, clock }
    }
}

#[async_trait]
impl StoreUnderTest for Store {
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

    fn backoff(&self) -> Backoff {
        self.store.backoff()
    }

    async fn know(&self, declaration: &Declaration) -> Result<(), PortError> {
        self.store.know(declaration);
        Ok(())
    }

    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
        Ok(self.store.audit_trail())
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.clock.advance(by);
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.store.set_reachable(false);
        Ok(())
    }
}
