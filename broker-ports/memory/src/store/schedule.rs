//! Persist: leases and due times in memory.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use broker_domain::{ClusterId, ProjectId, ProvisionedResourceId, Version};
use rand::RngExt;
use time::OffsetDateTime;

use super::MemoryStore;
use super::state::{Row, State};
use crate::PortResult;
use broker_ports::{
    Attribution, AuditAction, AuditEntry, Brake, BrakeRelease, ClaimRequest, ClaimTarget, Due,
    Lane, Lease, Loss, PageSize, PassOutcome, Permit, PermitRequest, Released, Schedule,
    ScheduleEntry, Wakeups,
};

impl State {
    fn claim(&mut self, request: &ClaimRequest) -> Vec<Lease> {
        let chosen = match request.target {
            ClaimTarget::One(id) | ClaimTarget::EvenPaused(id) => {
                let even_paused = matches!(request.target, ClaimTarget::EvenPaused(_));
                let row = self.rows.get(&id).filter(|row| even_paused || !row.schedule.paused);
                Vec::from_iter(row.is_some_and(|row| self.is_free(row, request)).then_some(id))
            }
            ClaimTarget::Due { lane, limit } => self.choose_fairly(lane, limit, request),
        };
        chosen.into_iter().filter_map(|id| self.lease(id, request)).collect()
    }

    fn is_free(&self, row: &Row, request: &ClaimRequest) -> bool {
        let (bound, caller) = (row.resource.substrate().cluster(), request.cluster.as_ref());
        let elsewhere = bound.zip(caller).is_some_and(|(bound, caller)| bound != caller);
        row.lane().is_some() && !elsewhere && !row.schedule.is_held(self.now)
    }

    /// The due resources of a lane: one of each Project per round, least recently served Project first.
    fn choose_fairly(
        &mut self,
        lane: Lane,
        limit: PageSize,
        request: &ClaimRequest,
    ) -> Vec<ProvisionedResourceId> {
        let mut due: BTreeMap<ProjectId, Vec<(OffsetDateTime, ProvisionedResourceId)>> =
            BTreeMap::new();
        for (id, row) in &self.rows {
            if let Some(due_at) = row.schedule.due_at
                && due_at <= self.now
                && row.lane() == Some(lane)
                && !row.schedule.paused
                && self.is_free(row, request)
            {
                due.entry(row.resource.project_id()).or_default().push((due_at, *id));
            }
        }
        let mut queues: Vec<_> = due.into_iter().collect();
        for (_, queue) in &mut queues {
            queue.sort_unstable();
        }
        queues.sort_by_key(|(project, queue)| {
            (self.last_served.get(&(lane, *project)).copied(), queue.first().copied())
        });
        let rounds = queues.iter().map(|(_, queue)| queue.len()).max().unwrap_or(0);
        let round_robin = (0..rounds).flat_map(|round| {
            queues.iter().filter_map(move |(project, queue)| Some((*project, queue.get(round)?.1)))
        });
        let chosen: Vec<_> = round_robin.take(usize::from(limit.get())).collect();
        for (project, _) in &chosen {
            self.last_turn += 1;
            self.last_served.insert((lane, *project), self.last_turn);
        }
        chosen.into_iter().map(|(_, id)| id).collect()
    }

    fn lease(&mut self, id: ProvisionedResourceId, request: &ClaimRequest) -> Option<Lease> {
        let until = self.after(request.lease_for);
        let schedule = &mut self.rows.get_mut(&id)?.schedule;
        schedule.epoch = schedule.epoch.next();
        schedule.pass_requested = false;
        let expired_lease = schedule.lease.replace((request.worker.clone(), until));
        let lease = Lease::new(id, schedule.epoch, request.worker.clone(), until);
        let lease = lease.with_attempts(schedule.attempts);
        Some(if expired_lease.is_some() { lease.taken_over() } else { lease })
    }

    fn release(&mut self, lease: &Lease, seen: Version, outcome: &PassOutcome) -> Released {
        let jitter: f64 = self.jitter.random();
        let Some(row) = self.rows.get(&lease.resource) else { return Released::LeaseLost };
        if row.schedule.epoch != lease.epoch || row.schedule.lease.is_none() {
            return Released::LeaseLost;
        }
        let unchanged = seen == Version::UNSTORED || row.resource.version() == seen;
        let attempts = row.schedule.attempts.saturating_add(u32::from(unchanged));
        let due_at = match outcome {
            PassOutcome::Succeeded { due_in } | PassOutcome::SucceededArmed { due_in } => {
                due_in.map(|wait| self.after(wait))
            }
            PassOutcome::Failed { retry_after, backoff, .. } => {
                let wait = backoff.ceiling(attempts).mul_f64(jitter);
                let requested_wait = retry_after.unwrap_or_default().min(backoff.longest);
                Some(self.after(wait.max(requested_wait)))
            }
            PassOutcome::Ended { backoff, .. } => {
                Some(self.after(backoff.ceiling(attempts).mul_f64(jitter)))
            }
        };
        let Some(row) = self.rows.get_mut(&lease.resource) else { return Released::LeaseLost };
        let schedule = &mut row.schedule;
        schedule.lease = None;
        if unchanged && !schedule.pass_requested {
            schedule.due_at = due_at;
        } else {
            schedule.bring_forward(due_at);
        }
        match outcome {
            PassOutcome::Succeeded { .. } | PassOutcome::SucceededArmed { .. } => {
                schedule.forget_failures();
            }
            PassOutcome::Failed { reason, message, .. }
            | PassOutcome::Ended { reason, message, .. }
                if unchanged =>
            {
                schedule.attempts = attempts;
                schedule.last_error = Some((reason.clone(), message.clone()));
            }
            PassOutcome::Failed { .. } | PassOutcome::Ended { .. } => {}
        }
        if matches!(outcome, PassOutcome::SucceededArmed { .. }) && !schedule.pass_requested {
            self.permits.retain(|loss, permit| loss.resource != lease.resource || !permit.accepted);
        }
        Released::Done
    }

    fn schedule(&mut self, id: ProvisionedResourceId, due: Due) -> bool {
        let due_at = match due {
            Due::Now => self.now,
            Due::After(wait) => self.after(wait),
        };
        let Some(row) = self.rows.get_mut(&id) else { return false };
        row.schedule.request_pass(due_at);
        if due == Due::Now {
            self.listeners.notify(id);
        }
        true
    }

    fn set_paused(&mut self, id: ProvisionedResourceId, paused: bool, by: &Attribution) -> bool {
        let now = self.now;
        let Some(row) = self.rows.get_mut(&id) else { return false };
        if row.schedule.paused == paused {
            return true;
        }
        row.schedule.paused = paused;
        let action = if paused { AuditAction::Paused } else { AuditAction::Resumed };
        let entry = AuditEntry::new(action, by.clone())
            .in_project(row.resource.project_id())
            .for_resource(id)
            .in_phase(row.resource.phase());
        if !paused {
            row.schedule.request_pass(now);
        }
        self.append_audit(entry, None, None);
        if !paused {
            self.listeners.notify(id);
        }
        true
    }

    fn entry(&self, id: ProvisionedResourceId) -> Option<ScheduleEntry> {
        let schedule = &self.rows.get(&id)?.schedule;
        let mut entry = ScheduleEntry::new(self.now, self.now);
        entry.due_at = schedule.due_at;
        entry.attempts = schedule.attempts;
        entry.last_error.clone_from(&schedule.last_error);
        entry.paused = schedule.paused;
        entry.epoch = schedule.epoch;
        entry.lease.clone_from(&schedule.lease);
        Some(entry)
    }
}

#[async_trait]
impl Schedule for MemoryStore {
    async fn claim(&self, request: &ClaimRequest) -> PortResult<Vec<Lease>> {
        self.transact(|state| Ok(state.claim(request)))
    }

    async fn release(
        &self,
        lease: &Lease,
        seen: Version,
        outcome: &PassOutcome,
    ) -> PortResult<Released> {
        self.transact(|state| Ok(state.release(lease, seen, outcome)))
    }

    async fn schedule(&self, id: ProvisionedResourceId, due: Due) -> PortResult<bool> {
        self.transact(|state| Ok(state.schedule(id, due)))
    }

    async fn entry(&self, id: ProvisionedResourceId) -> PortResult<Option<ScheduleEntry>> {
        self.transact(|state| Ok(state.entry(id)))
    }

    async fn set_paused(
        &self,
        id: ProvisionedResourceId,
        paused: bool,
        by: &Attribution,
    ) -> PortResult<bool> {
        self.transact(|state| Ok(state.set_paused(id, paused, by)))
    }

    async fn brakes(&self, cluster: &ClusterId) -> PortResult<Vec<Brake>> {
        self.transact(|state| Ok(state.brakes_of(cluster)))
    }

    async fn set_brake(
        &self,
        cluster: &ClusterId,
        brake: &Brake,
        by: &Attribution,
    ) -> PortResult<()> {
        self.transact(|state| {
            state.set_brake(cluster, brake, by);
            Ok(())
        })
    }

    async fn release_brake(&self, release: &BrakeRelease) -> PortResult<bool> {
        self.transact(|state| Ok(state.release_brake(release)))
    }

    async fn permit(&self, request: &PermitRequest) -> PortResult<Permit> {
        self.transact(|state| Ok(state.permit(request)))
    }

    async fn accepted_losses(&self, cluster: &ClusterId) -> PortResult<BTreeSet<Loss>> {
        self.transact(|state| Ok(state.accepted_losses(cluster)))
    }

    async fn wakeups(&self) -> PortResult<Wakeups> {
        self.transact(|state| Ok(Box::pin(state.listeners.subscribe()) as Wakeups))
    }
}
