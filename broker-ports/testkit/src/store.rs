//! The contracts of [`Repository`], [`Schedule`], [`Outbox`] and [`AuditSink`], which one store implements
//! together.
//!
//! Every guarantee of their documentation is a case. Cases never sleep: a hook advances the store's time.
//!
//! ```
//! # fn main() {
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use async_trait::async_trait;
//! # use broker_domain::Declaration;
//! # use broker_ports::*;
//! # use broker_memory::{ManualClock, MemoryStore};
//! # use broker_testkit::builders::second;
//! # struct MyStore { store: MemoryStore, clock: ManualClock }
//! # impl MyStore {
//! #     async fn fresh() -> Self {
//! #         let clock = ManualClock::at(second(0));
//! #         Self { store: MemoryStore::new(Arc::new(clock.clone())).checking_references(), clock }
//! #     }
//! # }
//! use broker_testkit::store::{StoreUnderTest, outbox_suite};
//!
//! #[async_trait]
//! impl StoreUnderTest for MyStore {
//!     fn repository(&self) -> &dyn Repository { &self.store }
//!     fn schedule(&self) -> &dyn Schedule { &self.store }
//!     fn outbox(&self) -> &dyn Outbox { &self.store }
//!     fn audit(&self) -> &dyn AuditSink { &self.store }
//!
//!     async fn register_references(&self, declaration: &Declaration) -> Result<(), PortError> {
//!         self.store.register_references(declaration);
//!         Ok(())
//!     }
//!     async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
//!         Ok(self.store.audit_trail())
//!     }
//!     async fn advance(&self, by: Duration) -> Result<(), PortError> {
//!         self.clock.advance(by);
//!         Ok(())
//!     }
//!     async fn cut_off(&self) -> Result<(), PortError> {
//!         self.store.set_reachable(false);
//!         Ok(())
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! outbox_suite().run(MyStore::fresh).await.assert_passed();
//! # });
//! # }
//! ```

mod audit;
mod prelude;
mod brake;
mod calls;
mod claim;
mod create;
mod delayed;
mod dropping;
mod guard;
mod helpers;
mod list;
mod moments;
mod outage;
mod outbox;
mod purge;
mod release;
mod replace;
mod schedule;
mod shared_configs;
mod dead_letter;
mod unreadable;
mod write;

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{Declaration, ProvisionedResourceId};
use broker_ports::{Admitted, AuditRecord, AuditSink, Created, Outbox, Repository, Schedule};

use crate::prelude::*;

/// An empty store, exclusive to one case, with the hooks that the suites need.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The repository of the store.
    fn repository(&self) -> &dyn Repository;

    /// The schedule of the same store.
    fn schedule(&self) -> &dyn Schedule;

    /// The outbox of the same store.
    fn outbox(&self) -> &dyn Outbox;

    /// The audit of the same store.
    fn audit(&self) -> &dyn AuditSink;

    /// Creates everything that the declaration refers to. Nothing else may exist.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn register_references(&self, declaration: &Declaration) -> Result<(), PortError>;

    /// The whole audit, including lines without a resource, oldest first.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError>;

    /// Advances the store's time without waiting: with an injected clock, or by moving stored times into the past. The
    /// suites compare times only within one response, so both work.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn advance(&self, by: Duration) -> Result<(), PortError>;

    /// Stores a declaration in a transaction that stays open until the case commits it. The new row is not visible
    /// before. An adapter that supports the host's transactions uses one here.
    ///
    /// The default, for a store without transactions of the host, writes at the commit.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn begin_create<'a>(
        &'a self,
        admitted: &Admitted,
    ) -> Result<Box<dyn OpenTransaction + 'a>, PortError> {
        Ok(Box::new(DeferredCreate { repository: self.repository(), admitted: admitted.clone() }))
    }

    /// Makes the stored row of a resource unreadable, past the adapter. Returns whether the store can do that.
    ///
    /// The default is for a store without a parsing step.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn corrupt(&self, _id: ProvisionedResourceId) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Makes the store unreachable for the rest of the case, like a network failure.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// The world of the cases.
type World = dyn StoreUnderTest;

/// A transaction of [`StoreUnderTest::begin_create`].
#[async_trait]
pub trait OpenTransaction: Send {
    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn commit(self: Box<Self>) -> Result<(), PortError>;
}

/// A creation that is written at the commit.
struct DeferredCreate<'a> {
    repository: &'a dyn Repository,
    admitted: Admitted,
}

#[async_trait]
impl OpenTransaction for DeferredCreate<'_> {
    async fn commit(self: Box<Self>) -> Result<(), PortError> {
        match self.repository.create(&self.admitted).await? {
            Created::Stored => Ok(()),
            other @ (Created::Replayed(_) | Created::Conflict) => {
                Err(PortError::rejected(format!("the creation returned {other:?}")))
            }
        }
    }
}

/// The contract of [`Repository`].
pub fn repository_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let write_cases = [create::cases(), write::cases(), replace::cases(), guard::cases()];
    let write_cases = write_cases.into_iter().chain([shared_configs::cases()]);
    let read_cases = [list::cases(), moments::cases(), purge::cases(), unreadable::cases()];
    let failure_cases = [outage::repository_cases(), dropping::repository_cases()];
    Suite::new(write_cases.chain(read_cases).chain(failure_cases).flatten())
}

/// The contract of [`Schedule`].
pub fn schedule_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let cases = [claim::cases(), release::cases(), schedule::cases(), brake::cases()];
    let failure_cases = [outage::schedule_cases(), dropping::schedule_cases()];
    Suite::new(cases.into_iter().chain(failure_cases).flatten())
}

/// The contract of [`Outbox`].
pub fn outbox_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let cases = [outbox::cases(), delayed::cases(), dead_letter::cases()];
    let failure_cases = [outage::outbox_cases(), dropping::outbox_cases()];
    Suite::new(cases.into_iter().chain(failure_cases).flatten())
}

/// The contract of [`AuditSink`].
pub fn audit_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    Suite::new(audit::cases())
}
