//! Stores that break one promise each. The contract has to notice every one of them, by name.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a flaw concerns a few methods; everywhere else a store with it behaves"
)]

mod flaws;
mod outbox;
mod pages;
mod repository;
mod schedule;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{Declaration, ProvisionedResource, ProvisionedResourceId, RequestId};
use broker_ports::testing::Suite;
use broker_ports::testing::store::{
    InMemory, OpenTransaction, StoreUnderTest, audit_suite, outbox_suite, repository_suite,
    schedule_suite,
};
use broker_ports::{
    Admitted, AuditAction, AuditEntry, AuditRecord, AuditSink, Backoff, ClaimedEvent, Lease,
    Outbox, PortError, Repository, Schedule,
};

use self::flaws::{FLAWS, Flaw};
use crate::coverage::Coverage;

/// The in-memory store behind a wrapper that breaks one promise.
struct Broken {
    world: InMemory,
    flaw: Flaw,
    notes: Mutex<Notes>,
}

/// What some wrappers have to remember in order to be wrong.
#[derive(Default)]
struct Notes {
    scrubbed: BTreeSet<u64>,
    handed_out: Vec<ClaimedEvent>,
    ghosts: Vec<ClaimedEvent>,
    leases: Vec<Lease>,
    /// Whom somebody wants to be looked at.
    wishes: BTreeSet<ProvisionedResourceId>,
    requests: BTreeSet<RequestId>,
    rows: BTreeMap<ProvisionedResourceId, ProvisionedResource>,
    /// How many rows of a listing were handed out.
    visited: usize,
    /// What was written and is not committed.
    open: BTreeSet<ProvisionedResourceId>,
    skipped: u64,
    /// How many permits were asked for.
    permits: u128,
    /// A row cannot be read.
    spoilt: bool,
}

impl Broken {
    fn new(flaw: Flaw) -> Self {
        Self { world: InMemory::fresh(), flaw, notes: Mutex::default() }
    }

    fn note<T>(&self, take: impl FnOnce(&mut Notes) -> T) -> T {
        take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The audit as this store shows it.
    fn shown(&self, mut lines: Vec<AuditRecord>) -> Vec<AuditRecord> {
        lines.retain(|line| !self.hides(line));
        match self.flaw {
            Flaw::AuditNewestFirst => lines.reverse(),
            Flaw::AuditForgetsEpoch => lines.iter_mut().for_each(|line| line.epoch = None),
            _ => {}
        }
        lines
    }

    fn hides(&self, line: &AuditRecord) -> bool {
        let action = line.entry.action;
        match self.flaw {
            Flaw::ForgetsTheAuditLine => action == AuditAction::DeletionRequested,
            Flaw::ReplacesWithoutNaming => action == AuditAction::Replaced,
            Flaw::PausesWithoutAudit => action == AuditAction::Paused,
            Flaw::ResumesEventsWithoutAudit => action == AuditAction::EventsResumed,
            Flaw::PurgesWithoutAudit => action == AuditAction::Purged,
            Flaw::BrakesWithoutAudit => action == AuditAction::BrakeReleased,
            Flaw::ScrubRemovesLines => self.note(|notes| notes.scrubbed.contains(&line.sequence)),
            _ => false,
        }
    }

    async fn history_of(&self, id: ProvisionedResourceId) -> Result<Vec<AuditRecord>, PortError> {
        if self.flaw == Flaw::MixesHistories {
            return self.world.audit_trail().await;
        }
        Ok(self.shown(self.world.store.history(id).await?))
    }
}

#[async_trait]
impl StoreUnderTest for Broken {
    fn repository(&self) -> &dyn Repository {
        self
    }

    fn schedule(&self) -> &dyn Schedule {
        self
    }

    fn outbox(&self) -> &dyn Outbox {
        self
    }

    fn audit(&self) -> &dyn AuditSink {
        self
    }

    fn backoff(&self) -> Backoff {
        self.world.backoff()
    }

    async fn know(&self, declaration: &Declaration) -> Result<(), PortError> {
        self.world.know(declaration).await
    }

    async fn audit_trail(&self) -> Result<Vec<AuditRecord>, PortError> {
        Ok(self.shown(self.world.audit_trail().await?))
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.world.advance(by).await
    }

    async fn begin_create<'a>(
        &'a self,
        admitted: &Admitted,
    ) -> Result<Box<dyn OpenTransaction + 'a>, PortError> {
        if self.flaw == Flaw::WatermarkForgetsOpenTransactions {
            self.begin(admitted).await
        } else {
            self.world.begin_create(admitted).await
        }
    }

    async fn spoil(&self, id: ProvisionedResourceId) -> Result<bool, PortError> {
        self.note(|notes| notes.spoilt = true);
        self.world.spoil(id).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.world.cut_off().await
    }
}

#[async_trait]
impl AuditSink for Broken {
    async fn record(&self, entry: &AuditEntry) -> Result<(), PortError> {
        let recorded = match self.flaw {
            Flaw::LosesRecordedLines => Ok(()),
            Flaw::RecordsAThingOnce => {
                let trail = self.world.audit_trail().await?;
                if trail.iter().any(|line| line.entry == *entry) {
                    return Ok(());
                }
                self.world.store.record(entry).await
            }
            _ => self.world.store.record(entry).await,
        };
        match self.flaw {
            Flaw::RecordsNothingInAnOutage => recorded.or(Ok(())),
            _ => recorded,
        }
    }
}

/// How many cases a store fails that breaks one promise.
const AT_MOST: usize = 30;

fn suites() -> [Suite<Broken>; 4] {
    [repository_suite(), schedule_suite(), outbox_suite(), audit_suite()]
}

#[tokio::test]
async fn every_broken_store_fails_a_named_case_and_every_case_can_fail() {
    let suites = suites();
    let mut coverage = Coverage::of(suites.iter().flat_map(Suite::names), AT_MOST);
    for (flaw, named) in FLAWS {
        let mut failed = Vec::new();
        for suite in &suites {
            let report = suite.run(async || Broken::new(*flaw)).await;
            failed.extend(report.failures().map(|(name, _)| name));
        }
        coverage.note(flaw, named, failed);
    }
    coverage.assert_complete();
}
