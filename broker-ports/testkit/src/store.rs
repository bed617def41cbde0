//! The contracts of [`Repository`], [`Schedule`], [`Outbox`] and [`AuditSink`], which one store implements
//! together.
//!
//! Every promise of their documentation is a case. A case never sleeps: it moves the store's time by a hook
//! that the embedder provides.
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
//!     fn backoff(&self) -> Backoff { self.store.backoff() }
//!
//!     async fn know(&self, declaration: &Declaration) -> Result<(), PortError> {
//!         self.store.know(declaration);
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
mod bench;
mod prelude;
mod brake;
mod calls;
mod claim;
mod create;
mod delayed;
mod dropping;
mod guard;
mod list;
mod moments;
mod outage;
mod outbox;
mod purge;
mod release;
mod replace;
mod schedule;
mod dead_letter;
mod unreadable;
mod write;

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{Declaration, ProvisionedResourceId};
use broker_ports::{
    Admitted, AuditRecord, AuditSink, Backoff, Created, Outbox, Repository, Schedule,
};

use crate::prelude::*;

/// A store that is empty and that nobody else uses, with the hooks that the suites need.
#[async_trait]
pub trait StoreUnderTest: Send + Sync {
    /// The aggregate in the store.
    fn repository(&self) -> &dyn Repository;

    /// Who works on what, over the same store.
    fn schedule(&self) -> &dyn Schedule;

    /// Events on their way out, over the same store.
    fn outbox(&self) -> &dyn Outbox;

    /// The audit, over the same store.
    fn audit(&self) -> &dyn AuditSink;

    /// The bounds of the back-off that the store was told.
    fn backoff(&self) -> Backoff;

    /// Makes everything exist that the declaration refers to. What nobody asked for must not exist.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn know(&self, declaration: &Declaration) -> Result<(), PortError>;

    /// The whole audit, of all resources and of none, oldest line first.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError>;

    /// Lets time pass for the store, without waiting: by a clock that it was given, or by moving every time
    /// that it stored into the past. The suites compare times only within one answer, so that both will do.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn advance(&self, by: Duration) -> Result<(), PortError>;

    /// Begins to store a declaration, in a transaction that stays open until the case commits it: the new row
    /// is written and nobody sees it yet. Whoever can store in a transaction of the host's does it here.
    ///
    /// The default is for a store whose writes are one step, so that none of them can be seen half way:
    /// everything happens at the commit.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn begin_create<'a>(
        &'a self,
        admitted: &Admitted,
    ) -> Result<Box<dyn OpenTransaction + 'a>, PortError> {
        Ok(Box::new(OneStep { repository: self.repository(), admitted: admitted.clone() }))
    }

    /// Makes the stored row of a resource unreadable, behind the adapter's back: as it would be if somebody else
    /// had written what the domain's rules forbid. Answers whether that is possible.
    ///
    /// The default is for a store that keeps what it was given and reads nothing back.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn spoil(&self, _id: ProvisionedResourceId) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Cuts the adapter off from its store for the rest of the case, as a network does that fails.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// What the cases are checked in.
type World = dyn StoreUnderTest;

/// A transaction of [`StoreUnderTest::begin_create`].
#[async_trait]
pub trait OpenTransaction: Send {
    /// Commits it.
    ///
    /// # Errors
    ///
    /// Any ends the case as a violation.
    async fn commit(self: Box<Self>) -> Result<(), PortError>;
}

/// A write that is one step, and happens when it is committed.
struct OneStep<'a> {
    repository: &'a dyn Repository,
    admitted: Admitted,
}

#[async_trait]
impl OpenTransaction for OneStep<'_> {
    async fn commit(self: Box<Self>) -> Result<(), PortError> {
        match self.repository.create(&self.admitted).await? {
            Created::Stored => Ok(()),
            other @ (Created::Replayed(_) | Created::Conflict) => {
                Err(PortError::rejected(format!("a new declaration is answered {other:?}")))
            }
        }
    }
}

/// Every promise of [`Repository`].
pub fn repository_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let written = [create::cases(), write::cases(), replace::cases(), guard::cases()];
    let read = [list::cases(), moments::cases(), purge::cases(), unreadable::cases()];
    let broken = [outage::repository_cases(), dropping::repository_cases()];
    Suite::new(written.into_iter().chain(read).chain(broken).flatten())
}

/// Every promise of [`Schedule`].
pub fn schedule_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let worked = [claim::cases(), release::cases(), schedule::cases(), brake::cases()];
    let broken = [outage::schedule_cases(), dropping::schedule_cases()];
    Suite::new(worked.into_iter().chain(broken).flatten())
}

/// Every promise of [`Outbox`].
pub fn outbox_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    let delivered = [outbox::cases(), delayed::cases(), dead_letter::cases()];
    let broken = [outage::outbox_cases(), dropping::outbox_cases()];
    Suite::new(delivered.into_iter().chain(broken).flatten())
}

/// Every promise of [`AuditSink`].
pub fn audit_suite<W: StoreUnderTest + 'static>() -> Suite<W> {
    Suite::new(audit::cases())
}
