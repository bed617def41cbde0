//! Schedules that break one promise each.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{ClusterId, ProvisionedResourceId, Version};
use broker_ports::testing::builders::{
    attribution, cluster as first_cluster, rows, worker, xr_uid,
};
use broker_ports::{
    Attribution, AuditAction, AuditEntry, AuditSink, Brake, BrakeRelease, ClaimRequest,
    ClaimTarget, Due, Lane, Lease, LeaseEpoch, ListQuery, Loss, Lost, PageSize, PassOutcome,
    Permit, PermitRequest, PortError, Released, Repository, Schedule, ScheduleEntry, Wakeups,
};
use futures_util::{FutureExt as _, StreamExt as _, stream};

use super::Broken;
use super::flaws::Flaw;
use crate::half_way::half_way;

/// A claim on one resource, out of the case's sight.
pub(super) fn by_name(id: ProvisionedResourceId) -> ClaimRequest {
    ClaimRequest::new(worker("flaw"), ClaimTarget::One(id), Duration::from_secs(1))
}

impl Broken {
    /// A lease on what somebody else holds.
    async fn claim_held(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::One(id) = request.target else { return Ok(Vec::new()) };
        let Some(entry) = self.world.store.entry(id).await? else { return Ok(Vec::new()) };
        let Some((_, until)) = entry.lease else { return Ok(Vec::new()) };
        let lease = Lease::new(id, entry.epoch, request.worker.clone(), until);
        Ok(vec![lease.with_attempts(entry.attempts)])
    }

    /// A lease on what is paused.
    async fn claim_paused(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::One(id) = request.target else { return Ok(Vec::new()) };
        let paused = self.world.store.entry(id).await?.is_some_and(|entry| entry.paused);
        if !paused {
            return Ok(Vec::new());
        }
        self.world.store.set_paused(id, false, &attribution()).await?;
        let leases = self.world.store.claim(request).await?;
        self.world.store.set_paused(id, true, &attribution()).await?;
        Ok(leases)
    }

    /// Whatever is due, chosen by `keep` from all of it; the rest goes back.
    async fn claim_chosen(
        &self,
        request: &ClaimRequest,
        keep: impl FnOnce(&mut Vec<Lease>, usize),
    ) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::Due { lane, limit } = request.target else {
            return self.world.store.claim(request).await;
        };
        let target = ClaimTarget::Due { lane, limit: PageSize::MAX };
        let everything = ClaimRequest::new(request.worker.clone(), target, request.lease_for);
        let mut leases = self.world.store.claim(&everything).await?;
        leases.sort_by_key(|lease| lease.resource);
        let all = leases.clone();
        keep(&mut leases, usize::from(limit.get()));
        for lease in all.iter().filter(|lease| !leases.contains(lease)) {
            let Some(row) = self.world.store.get_by_id(lease.resource).await? else { continue };
            let due = PassOutcome::Succeeded { due_in: Some(Duration::ZERO) };
            self.world.store.release(lease, row.version(), &due).await?;
        }
        Ok(leases)
    }

    /// A lease on what will never change again.
    async fn claim_at_rest(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::One(id) = request.target else { return Ok(Vec::new()) };
        let row = self.world.store.get_by_id(id).await?;
        let (Some(row), Some(entry)) = (row, self.world.store.entry(id).await?) else {
            return Ok(Vec::new());
        };
        let until = entry.now + request.lease_for;
        let lease = Lease::new(id, entry.epoch, request.worker.clone(), until);
        Ok(Vec::from_iter(row.at_rest().then(|| lease.with_attempts(entry.attempts))))
    }

    /// The claim that this store makes of the one that was asked for.
    fn widened(&self, request: &ClaimRequest) -> ClaimRequest {
        let mut request = request.clone();
        match (self.flaw, &mut request.target) {
            (Flaw::ClaimsForEveryCluster, _) => request.cluster = None,
            (Flaw::ClaimsForTheFirstCluster, _) => {
                request.cluster.get_or_insert_with(|| first_cluster(1));
            }
            (Flaw::PauseStopsPeople, ClaimTarget::EvenPaused(id)) => {
                request.target = ClaimTarget::One(*id);
            }
            (Flaw::ClaimsMoreThanAskedFor, ClaimTarget::Due { limit, .. }) => {
                *limit = rows(limit.get() + 1);
            }
            (Flaw::LeasesForTooShort, _) => request.lease_for /= 4,
            _ => {}
        }
        request
    }

    /// A claim of which only the epoch is left.
    fn raise_the_epoch(&self, request: &ClaimRequest) {
        let store = &self.world.store;
        let leases = store.claim(request).now_or_never();
        for lease in leases.and_then(Result::ok).unwrap_or_default() {
            let outcome = PassOutcome::Succeeded { due_in: Some(Duration::ZERO) };
            let _ = store.release(&lease, Version::FIRST, &outcome).now_or_never();
        }
    }

    async fn set_all_due(&self) -> Result<(), PortError> {
        let everything = ListQuery::new(PageSize::MAX);
        for resource in self.world.store.list(&everything).await?.resources {
            self.world.store.schedule(resource.id(), Due::Now).await?;
        }
        Ok(())
    }

    /// Takes a lease again at once, for whoever gave it back.
    async fn take_again(&self, lease: &Lease, lease_for: Duration) -> Result<(), PortError> {
        let target = ClaimTarget::One(lease.resource);
        let request = ClaimRequest::new(lease.worker.clone(), target, lease_for);
        self.world.store.claim(&request).await?;
        Ok(())
    }

    async fn never_taken_over(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        if let ClaimTarget::One(id) = request.target {
            let held = self.world.store.entry(id).await?.is_some_and(|entry| entry.lease.is_some());
            if held {
                return Ok(Vec::new());
            }
        }
        let mut leases = self.world.store.claim(request).await?;
        leases.retain(|lease| !lease.takeover);
        Ok(leases)
    }

    async fn in_any_lane(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        let ClaimTarget::Due { limit, .. } = request.target else {
            return self.world.store.claim(request).await;
        };
        let mut leases = Vec::new();
        for lane in [Lane::Teardown, Lane::Converge] {
            let target = ClaimTarget::Due { lane, limit };
            let request = ClaimRequest::new(request.worker.clone(), target, request.lease_for);
            leases.extend(self.world.store.claim(&request).await?);
        }
        Ok(leases)
    }
}

impl Broken {
    async fn is_over(&self, lease: &Lease) -> Result<bool, PortError> {
        let entry = self.world.store.entry(lease.resource).await?;
        Ok(entry.is_some_and(|entry| lease.until <= entry.now))
    }

    /// A release of which only the due time and the failure are left: the lease is held, by somebody new.
    fn count_alone(&self, lease: &Lease, seen: Version, outcome: &PassOutcome) {
        let store = &self.world.store;
        let _ = store.release(lease, seen, outcome).now_or_never();
        let _ = store.claim(&by_name(lease.resource)).now_or_never();
    }

    /// Gives back once more what a claim of its own took: that claim hears every wish.
    async fn forget_wishes(
        &self,
        id: ProvisionedResourceId,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<(), PortError> {
        for lease in self.world.store.claim(&by_name(id)).await? {
            self.world.store.release(&lease, seen, outcome).await?;
        }
        Ok(())
    }

    /// Ends the lease that somebody holds.
    async fn end(&self, id: ProvisionedResourceId, entry: &ScheduleEntry) -> Result<(), PortError> {
        let Some((worker, until)) = entry.lease.clone() else { return Ok(()) };
        let lease = Lease::new(id, entry.epoch, worker, until).with_attempts(entry.attempts);
        let outcome = PassOutcome::Succeeded { due_in: Some(Duration::ZERO) };
        self.world.store.release(&lease, Version::FIRST, &outcome).await?;
        Ok(())
    }
}

#[async_trait]
impl Schedule for Broken {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Lease>, PortError> {
        if self.flaw == Flaw::ClaimsHalfWhenDropped {
            half_way(|| self.raise_the_epoch(request)).await;
        }
        let one_at_a_time =
            matches!(request.target, ClaimTarget::Due { limit, .. } if limit.get() == 1);
        match self.flaw {
            Flaw::NeverTakesOver => return self.never_taken_over(request).await,
            Flaw::HasOneLane => return self.in_any_lane(request).await,
            Flaw::ServesTheOldestProject => return self.claim_chosen(request, Vec::truncate).await,
            Flaw::ServesOneProjectPerClaim if one_at_a_time => {
                return self.claim_chosen(request, Vec::truncate).await;
            }
            Flaw::ClaimsWhatIsNotDue => self.set_all_due().await?,
            _ => {}
        }
        let request = &self.widened(request);
        let mut leases = self.world.store.claim(request).await?;
        match self.flaw {
            Flaw::ClaimsTwice if leases.is_empty() => leases = self.claim_held(request).await?,
            Flaw::ClaimsWhatIsAtRest if leases.is_empty() => {
                leases = self.claim_at_rest(request).await?;
            }
            Flaw::IgnoresThePause if leases.is_empty() => {
                leases = self.claim_paused(request).await?;
            }
            Flaw::SharesWhatIsDue if leases.is_empty() => {
                leases = self.note(|notes| notes.leases.clone());
            }
            Flaw::SharesWhatIsDue => self.note(|notes| notes.leases.clone_from(&leases)),
            Flaw::KeepsTheEpoch => {
                for lease in &mut leases {
                    lease.epoch = LeaseEpoch::new(1);
                }
            }
            Flaw::HidesTheTakeover => leases.iter_mut().for_each(|lease| lease.takeover = false),
            _ => {}
        }
        Ok(leases)
    }

    async fn release(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> Result<Released, PortError> {
        let store = &self.world.store;
        if self.flaw == Flaw::ReleasesHalfWhenDropped {
            half_way(|| self.count_alone(lease, seen, outcome)).await;
        }
        match (self.flaw, outcome) {
            (Flaw::PutsOffAfterAChange, _) => {
                let stored = store.get_by_id(lease.resource).await?;
                let seen = stored.map_or(seen, |stored| stored.version());
                store.release(lease, seen, outcome).await
            }
            (Flaw::ReleaseResetsNothing, PassOutcome::Succeeded { due_in: None }) => {
                let failed = PassOutcome::Failed {
                    reason: "none".to_owned(),
                    message: "it went well".to_owned(),
                    retry_after: None,
                };
                store.release(lease, seen, &failed).await
            }
            (Flaw::KeepsWhatWasGivenBack, _) => {
                let released = store.release(lease, seen, outcome).await?;
                self.take_again(lease, Duration::from_hours(1)).await?;
                Ok(released)
            }
            (Flaw::ForgetsThatItWasGivenBack, _) => {
                let released = store.release(lease, seen, outcome).await?;
                self.take_again(lease, Duration::ZERO).await?;
                Ok(released)
            }
            (Flaw::TakesNoLateRelease, _) if self.is_over(lease).await? => Ok(Released::LeaseLost),
            (Flaw::ForgetsTheDueTime, PassOutcome::Succeeded { .. }) => {
                store.release(lease, seen, &PassOutcome::Succeeded { due_in: None }).await
            }
            (Flaw::SeesOwnWritesAsOthers, _) => {
                let seen = if seen == Version::FIRST { seen } else { seen.next() };
                store.release(lease, seen, outcome).await
            }
            (Flaw::ForgetsAWishOfMeanwhile | Flaw::ForgetsAResumeOfMeanwhile, _) => {
                let wished = self.note(|notes| notes.wishes.remove(&lease.resource));
                let released = store.release(lease, seen, outcome).await?;
                if wished {
                    self.forget_wishes(lease.resource, seen, outcome).await?;
                }
                Ok(released)
            }
            (Flaw::RemembersWishesForEver, _) => {
                if self.note(|notes| notes.wishes.contains(&lease.resource)) {
                    store.schedule(lease.resource, Due::Now).await?;
                }
                store.release(lease, seen, outcome).await
            }
            (Flaw::ReleasesTwice, _) => {
                store.release(lease, seen, outcome).await.map(|_| Released::Done)
            }
            _ => store.release(lease, seen, outcome).await,
        }
    }

    async fn schedule(&self, id: ProvisionedResourceId, due: Due) -> Result<bool, PortError> {
        if let (Flaw::PutsOffWhatIsDue, Due::After(wait)) = (self.flaw, due) {
            let Some(row) = self.world.store.get_by_id(id).await? else { return Ok(false) };
            for lease in self.world.store.claim(&by_name(id)).await? {
                let outcome = PassOutcome::Succeeded { due_in: Some(wait) };
                self.world.store.release(&lease, row.version(), &outcome).await?;
            }
            return Ok(true);
        }
        if self.flaw == Flaw::AuditsTheSchedule {
            let entry = AuditEntry::new(AuditAction::ReconcileRequested, attribution()).about(id);
            self.world.store.record(&entry).await?;
        }
        if matches!(self.flaw, Flaw::ForgetsAWishOfMeanwhile | Flaw::RemembersWishesForEver) {
            self.note(|notes| notes.wishes.insert(id));
        }
        let there = self.world.store.schedule(id, due).await?;
        Ok(there || self.flaw == Flaw::SchedulesNothing)
    }

    async fn entry(&self, id: ProvisionedResourceId) -> Result<Option<ScheduleEntry>, PortError> {
        let found = self.world.store.entry(id).await;
        let found =
            if self.flaw == Flaw::InventsAnEmptySchedule { found.or(Ok(None)) } else { found };
        let Some(mut entry) = found? else { return Ok(None) };
        let backoff = self.world.store.backoff();
        if entry.attempts > 0 {
            match self.flaw {
                Flaw::BacksOffWithoutJitter => {
                    entry.due_at = Some(entry.now + backoff.ceiling(entry.attempts));
                }
                Flaw::BacksOffWithoutBound => {
                    entry.due_at = entry
                        .due_at
                        .map(|due_at| due_at + backoff.first * 2_u32.pow(entry.attempts));
                }
                Flaw::NeverBacksOff => entry.due_at = Some(entry.now),
                _ => {}
            }
        }
        Ok(Some(entry))
    }

    async fn set_paused(
        &self,
        id: ProvisionedResourceId,
        paused: bool,
        by: &Attribution,
    ) -> Result<bool, PortError> {
        if self.flaw == Flaw::PausesHalfWhenDropped {
            let entry = AuditEntry::new(AuditAction::Paused, by.clone()).about(id);
            half_way(|| drop(self.world.store.record(&entry).now_or_never())).await;
        }
        let before = self.world.store.entry(id).await?;
        let there = self.world.store.set_paused(id, paused, by).await?;
        if self.flaw == Flaw::ForgetsAResumeOfMeanwhile && !paused {
            self.note(|notes| notes.wishes.insert(id));
        }
        match (self.flaw, before) {
            (Flaw::PauseEndsTheLease, Some(before)) if paused => self.end(id, &before).await?,
            (Flaw::ResumesWithoutHaste, Some(before)) if !paused => {
                let wait = before.due_at.map(|due_at| due_at - before.now);
                let due_in = wait.and_then(|wait| Duration::try_from(wait).ok());
                let row = self.world.store.get_by_id(id).await?;
                let seen = row.map_or(Version::FIRST, |row| row.version());
                for lease in self.world.store.claim(&by_name(id)).await? {
                    let outcome = PassOutcome::Succeeded { due_in };
                    self.world.store.release(&lease, seen, &outcome).await?;
                }
            }
            _ => {}
        }
        Ok(there)
    }

    async fn brakes(&self, cluster: &ClusterId) -> Result<Vec<Brake>, PortError> {
        let cluster = match self.flaw {
            Flaw::BrakesEveryCluster => &first_cluster(1),
            _ => cluster,
        };
        self.world.store.brakes(cluster).await
    }

    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        by: &Attribution,
    ) -> Result<(), PortError> {
        if self.flaw == Flaw::OverwritesTheBrake {
            let release = BrakeRelease::new(cluster.clone(), brake.project, Vec::new(), by.clone());
            self.world.store.release_brake(&release).await?;
        }
        let set = self.world.store.set_brake(cluster, brake, by).await;
        if self.flaw == Flaw::BrakesInAnOutage { set.or(Ok(())) } else { set }
    }

    async fn release_brake(&self, release: &BrakeRelease) -> Result<bool, PortError> {
        let mut release = release.clone();
        if self.flaw == Flaw::AcceptsNoLoss {
            release.accepted.clear();
        }
        self.world.store.release_brake(&release).await
    }

    async fn permit(&self, request: &PermitRequest) -> Result<Permit, PortError> {
        let mut request = request.clone();
        match self.flaw {
            Flaw::PermitsEverything => request.allowance.least = request.allowance.most,
            Flaw::PermitsNoFleet => request.allowance.percent = 0,
            Flaw::PermitsPerResource => {
                request.lost = Lost::Xr(xr_uid(0));
            }
            Flaw::PermitsEveryRetry => {
                let asked = self.note(|notes| {
                    notes.permits += 1;
                    notes.permits
                });
                request.lost = Lost::Xr(xr_uid(asked));
            }
            Flaw::PermitsUnderABrake => {
                let answer = self.world.store.permit(&request).await?;
                return Ok(match answer {
                    Permit::Braked => Permit::Granted,
                    other => other,
                });
            }
            Flaw::PermitsAnyVersion => {
                let row = self.world.store.get_by_id(request.lease.resource).await?;
                request.seen = row.map_or(request.seen, |row| row.version());
            }
            _ => {}
        }
        self.world.store.permit(&request).await
    }

    async fn accepted_losses(&self, cluster: &ClusterId) -> Result<BTreeSet<Loss>, PortError> {
        self.world.store.accepted_losses(cluster).await
    }

    async fn wakeups(&self) -> Result<Wakeups, PortError> {
        match self.flaw {
            Flaw::WakesNobody => Ok(Box::pin(stream::empty())),
            Flaw::WakesOnce => Ok(Box::pin(self.world.store.wakeups().await?.take(1))),
            Flaw::ListensInAnOutage => {
                let heard = self.world.store.wakeups().await;
                heard.or_else(|_| Ok(Box::pin(stream::pending())))
            }
            _ => self.world.store.wakeups().await,
        }
    }
}
