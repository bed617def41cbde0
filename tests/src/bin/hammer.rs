//! A process that does to a store, at random, whatever replicas and callers do, until it is killed.
//!
//! ```text
//! hammer URL SEED NAME calm      whatever fails, other than by a lost race, ends it
//! hammer URL SEED NAME faults    what is transient or unknown is to be expected
//! ```
//!
//! The database has to know Projects 1 to [`PROJECTS`], with tenancy Resources of the same numbers, blueprint
//! version 1 and credential 1.

use std::{process::ExitCode, time::Duration};

use broker_domain::{
    Change, Error, EventId, FailureReason, MeshRole, ObservedXr, Phase, ProvisionedResource,
    ProvisionedResourceId, ReferencesDigest, Stamp, next,
};
use broker_pg::PgStore;
use broker_ports::{
    Actor, Admitted, Attribution, ClaimEvents, ClaimRequest, ClaimTarget, CorrelationId,
    DeliveryFailure, Due, FailureClass, Lane, Lease, ListQuery, Outbox, PassOutcome, PortError,
    Repository, Resume, Schedule, SweepQuery, WorkerId, Write, WriteKind, Written,
};
use broker_testkit::builders::{
    cluster, composed, declaration, project, rows, second, valid_parameters,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

/// As many Projects as its declarations are spread over.
const PROJECTS: u128 = 4;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [url, seed, name, mode @ ("calm" | "faults")] => hammer(url, seed, name, mode).await,
        _ => Err(format!("unknown arguments: {arguments:?}").into()),
    };
    // It only comes here by a failure.
    if let Err(error) = outcome {
        eprintln!("{}", broker_app::one_line(&*error));
    }
    ExitCode::FAILURE
}

async fn hammer(
    url: &str,
    seed: &str,
    name: &str,
    mode: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPoolOptions::new().max_connections(2).connect_lazy(url)?;
    let mut hammer = Hammer {
        store: PgStore::new(pool),
        dice: StdRng::seed_from_u64(seed.parse()?),
        worker: WorkerId::new(name)?,
        by: Attribution::new(Actor::new(name)?, CorrelationId::new("hammer")?),
    };
    loop {
        match hammer.strike().await {
            Ok(()) => {}
            Err(error) if mode == "faults" && error.class() != FailureClass::Rejected => {}
            Err(error) => return Err(error.into()),
        }
    }
}

struct Hammer {
    store: PgStore,
    dice: StdRng,
    worker: WorkerId,
    by: Attribution,
}

impl Hammer {
    async fn strike(&mut self) -> Result<(), PortError> {
        match self.dice.random_range(0..100) {
            0..4 => self.declare().await,
            4..60 => self.work().await,
            60..66 => self.ask_for_deletion().await,
            66..84 => self.relay().await,
            84..90 => self.disturb().await,
            90..93 => self.resume_events().await,
            _ => self.look().await,
        }
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.dice.random_range(0..100) < percent
    }

    fn moment(&mut self, up_to_milliseconds: u64) -> Duration {
        Duration::from_millis(self.dice.random_range(1..=up_to_milliseconds))
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u128(self.dice.random())
    }

    /// Time is only written down; the version makes it grow.
    fn stamp(&mut self, version: u64) -> Result<Stamp, Error> {
        let at = second(i64::try_from(version).unwrap_or(i64::MAX));
        Ok(Stamp::new(EventId::new(self.uuid())?, at))
    }

    async fn declare(&mut self) -> Result<(), PortError> {
        let number = self.dice.random_range(1..=PROJECTS);
        let mut builder = declaration().in_project(project(number)).for_resource(number);
        if self.chance(50) {
            // From a few, so that two ask for the same.
            builder = builder.requested_as(&format!("order-{}", self.dice.random_range(0..200)));
        }
        if self.chance(30) {
            builder = builder.rolling_back();
        }
        let declaration = builder.build();
        let role = if self.chance(30) { MeshRole::Standalone } else { MeshRole::Node };
        let id = ProvisionedResourceId::new(self.uuid())?;
        let (parameters, stamp) = (valid_parameters("{}"), self.stamp(1)?);
        let by = self.by.clone();
        let admitted = Admitted::new(id, &declaration, role, parameters, stamp, by)?;
        self.store.create(&admitted).await.map(drop)
    }

    /// Any resource, if there is one.
    async fn any(&mut self) -> Result<Option<ProvisionedResource>, PortError> {
        let after = ProvisionedResourceId::new(self.uuid())?;
        let page = self.store.list(&ListQuery::new(rows(1)).after(after)).await?;
        Ok(page.resources.into_iter().next())
    }

    /// A few passes, with leases so short that some are lost.
    async fn work(&mut self) -> Result<(), PortError> {
        let target = if self.chance(30) {
            match self.any().await? {
                Some(resource) => ClaimTarget::One(resource.id()),
                None => return Ok(()),
            }
        } else {
            let lane = if self.chance(50) { Lane::Converge } else { Lane::Teardown };
            ClaimTarget::Due { lane, limit: rows(self.dice.random_range(1..=4)) }
        };
        let lease_for = self.moment(200);
        let request = ClaimRequest::new(self.worker.clone(), target, lease_for);
        for lease in self.store.claim(&request).await? {
            self.pass(&lease, lease_for).await?;
        }
        Ok(())
    }

    async fn pass(&mut self, lease: &Lease, lease_for: Duration) -> Result<(), PortError> {
        let Some(mut resource) = self.store.get_by_id(lease.resource).await? else { return Ok(()) };
        if self.chance(10) {
            // Somebody else may have it by then.
            tokio::time::sleep(lease_for * 2).await;
        }
        for _ in 0..self.dice.random_range(1..=4) {
            let Some((kind, change)) = self.step(&resource)? else { continue };
            let write = Write::by_worker(&change, lease.epoch, &self.by);
            match self.write(kind, &write).await? {
                Written::Committed => resource = change.into_resource(),
                // One that does not know when it has lost.
                Written::Stale | Written::LeaseLost if self.chance(30) => {}
                Written::Stale | Written::LeaseLost => return Ok(()),
            }
        }
        if self.chance(10) {
            return Ok(());
        }
        let outcome = if self.chance(70) {
            PassOutcome::Succeeded { due_in: Some(self.moment(100)) }
        } else {
            PassOutcome::Failed {
                reason: "cluster_transient".to_owned(),
                message: "the API server is away".to_owned(),
                retry_after: None,
            }
        };
        self.store.release(lease, resource.version(), &outcome).await.map(drop)
    }

    /// What a worker could find to write. What the domain refuses is nothing.
    fn step(
        &mut self,
        resource: &ProvisionedResource,
    ) -> Result<Option<(WriteKind, Change)>, PortError> {
        let stamp = self.stamp(resource.version().get())?;
        let phase = resource.phase();
        if phase.is_converging() && resource.mesh_role() == MeshRole::Node && self.chance(25) {
            let token = broker_domain::BootstrapTokenId::new(self.uuid())?;
            let change = resource.record_token(token, resource.token_ordinal(), stamp.at);
            return Ok(change.ok().map(|change| (WriteKind::Token, change)));
        }
        if phase.is_teardown() && !resource.token_closed() && self.chance(70) {
            let change = resource.record_closed(stamp.at);
            return Ok(change.ok().flatten().map(|change| (WriteKind::Closed, change)));
        }
        if self.chance(25) {
            let substrate = resource.substrate().clone();
            let substrate = if phase.is_converging() {
                let seen = composed(&format!("vm-{}", self.dice.random_range(0..3)));
                let digest = ReferencesDigest::new(self.dice.random());
                substrate.about_to_apply(cluster(1), composed("config")).observed([seen], digest)
            } else {
                let all = substrate.composed().iter().chain(substrate.provider_config());
                let gone = all.cloned().collect();
                substrate.without(&gone)
            };
            let change = resource.record_substrate(substrate, stamp.at);
            return Ok(change.ok().flatten().map(|change| (WriteKind::Substrate, change)));
        }
        let every: Vec<_> = ObservedXr::every().collect();
        let observed = every[self.dice.random_range(0..every.len())];
        let (_, to) = next(&observed, phase);
        let change = if to == Phase::Failed {
            resource.fail(FailureReason::from_message("quota"), stamp)
        } else {
            resource.advance(to, stamp)
        };
        Ok(change.ok().flatten().map(|change| (WriteKind::Phase, change)))
    }

    async fn write(&self, kind: WriteKind, write: &Write<'_>) -> Result<Written, PortError> {
        self.store.write(kind, write).await
    }

    async fn ask_for_deletion(&mut self) -> Result<(), PortError> {
        let Some(resource) = self.any().await? else { return Ok(()) };
        let stamp = self.stamp(resource.version().get())?;
        let Some(change) = resource.request_deletion(stamp) else { return Ok(()) };
        let write = Write::by_caller(&change, &self.by);
        self.store.write(WriteKind::DeletionIntent, &write).await.map(drop)
    }

    async fn relay(&mut self) -> Result<(), PortError> {
        let claim_for = self.moment(200);
        let request = ClaimEvents::new(self.worker.clone(), rows(5), claim_for);
        for event in self.store.claim_events(&request).await? {
            match self.dice.random_range(0..100) {
                0..80 => drop(self.store.acknowledge_event(&event.claim).await?),
                80..85 => drop(self.store.set_aside_event(&event.claim, "nobody takes it").await?),
                85..90 => tokio::time::sleep(claim_for).await,
                90..95 => {
                    let wait = self.moment(200);
                    let failure = DeliveryFailure::Rejected;
                    let _ = self.store.delay_event(&event.claim, wait, failure).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn resume_events(&mut self) -> Result<(), PortError> {
        let Some(resource) = self.any().await? else { return Ok(()) };
        let how = if self.chance(50) { Resume::Retry } else { Resume::Skip };
        self.store.resume_events(resource.id(), how, &self.by).await.map(drop)
    }

    async fn disturb(&mut self) -> Result<(), PortError> {
        let Some(resource) = self.any().await? else { return Ok(()) };
        if self.chance(50) {
            return self.store.schedule(resource.id(), Due::Now).await.map(drop);
        }
        let paused = self.chance(30);
        self.store.set_paused(resource.id(), paused, &self.by).await.map(drop)
    }

    async fn look(&mut self) -> Result<(), PortError> {
        let Some(resource) = self.any().await? else { return Ok(()) };
        self.store.history(resource.id()).await?;
        self.store.entry(resource.id()).await?;
        self.store.sweep_page(&SweepQuery::new(rows(20))).await?;
        self.store.backlog().await.map(drop)
    }
}
