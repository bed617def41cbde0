//! The verdict without an obstacle: the progress of the resource, and the worker that holds its lease.

use broker_domain::Phase;
use broker_ports::BlueprintState;

use super::{Judge, Judgement};
use crate::explain::facts::Reference;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    pub(super) fn progress(&mut self) -> Judgement {
        let facts = self.facts;
        let since = Some(facts.resource.phase_entered_at());
        if self.needs_pass()
            && let Some(found) = self.schedule_state()
        {
            return found.since(since);
        }
        let xr_may_exist = !matches!(facts.cluster.xr.known(), Some(None));
        let verdict = match facts.resource.phase() {
            Phase::Pending => Verdict::Declared,
            Phase::Provisioning | Phase::Enrolling | Phase::Ready if !xr_may_exist => {
                Verdict::CompositeMissing
            }
            Phase::Provisioning => Verdict::Provisioning,
            Phase::Enrolling => Verdict::Enrolling,
            // The resource is no longer ready; the next pass stores its phase.
            Phase::Ready if self.is_no_longer_ready() => Verdict::Provisioning,
            Phase::Ready if self.blueprint_is_retired() => Verdict::BlueprintRetired,
            Phase::Ready => Verdict::Ready,
            Phase::Failed => Verdict::RollingBack,
            Phase::Deregistering => Verdict::Draining,
            Phase::Deprovisioning => Verdict::Deprovisioning,
            Phase::Deleted => Verdict::Deleted,
        };
        Judgement::no_action(verdict).since(since)
    }

    fn blueprint_is_retired(&mut self) -> bool {
        let state = self.facts.blueprint_state.as_ref();
        let state = state.and_then(|state| self.known_or_doubt("blueprint state", state));
        state == Some(&BlueprintState::Retired)
    }

    fn is_no_longer_ready(&self) -> bool {
        let Some(Some(xr)) = self.facts.cluster.xr.known() else { return false };
        !self.is_ready(xr) || !self.node_is_settled()
    }

    /// The worker that holds the lease, or the time of the next attempt.
    fn schedule_state(&self) -> Option<Judgement> {
        let entry = self.facts.entry()?;
        let now = entry.now;
        if let Some((worker, until)) = &entry.lease {
            let (verdict, words) = if *until > now {
                (Verdict::PassUnderWay, format!("{worker} holds the lease until {until}"))
            } else {
                (Verdict::LeaseLeftBehind, format!("{worker} held the lease until {until}"))
            };
            return Some(Judgement::no_action(verdict).with_message(words));
        }
        if entry.attempts > 0 && entry.due_at.is_some_and(|due| due > now) {
            let words = self.facts.last_error().map(|error| error.message).unwrap_or_default();
            return Some(Judgement::no_action(Verdict::RetryPending).with_message(words));
        }
        let is_overdue = entry
            .due_at
            .is_some_and(|due| self.budget.allowed.is_some_and(|allowed| now - due > allowed));
        is_overdue.then(|| Judgement::new(Verdict::NoReplica, Remedy::StartReplicas))
    }

    /// Whether a pass has work now, instead of waiting for another component.
    fn needs_pass(&self) -> bool {
        let cluster = &self.facts.cluster;
        let phase = self.facts.resource.phase();
        let Some(xr) = cluster.xr.known() else { return false };
        if phase.is_teardown() {
            let node_is_registered = matches!(self.facts.node, Some(Reference::Found(true)));
            return node_is_registered || xr.as_ref().is_none_or(|xr| xr.deleting_since.is_none());
        }
        let Some(xr) = xr else { return true };
        if xr.armed.is_none() {
            return true;
        }
        let target = match (self.is_ready(xr), self.node_is_settled()) {
            (false, _) => Phase::Provisioning,
            (true, false) => Phase::Enrolling,
            (true, true) => Phase::Ready,
        };
        target != phase
    }
}
