//! Nothing stands in the way: how far it is, and who has it in hand.

use broker_domain::Phase;

use super::{Judge, Judgement};
use crate::explain::facts::Reference;
use crate::explain::remedy::Remedy;
use crate::explain::verdict::Verdict;

impl Judge<'_> {
    pub(super) fn progress(&mut self) -> Judgement {
        let facts = self.facts;
        let since = Some(facts.resource.phase_entered_at());
        if self.a_pass_would_move_it()
            && let Some(found) = self.in_hand()
        {
            return found.since(since);
        }
        let xr_stands = !matches!(facts.cluster.xr.known(), Some(None));
        let verdict = match facts.resource.phase() {
            Phase::Pending => Verdict::Declared,
            Phase::Provisioning | Phase::Enrolling | Phase::Ready if !xr_stands => {
                Verdict::CompositeMissing
            }
            Phase::Provisioning => Verdict::Provisioning,
            Phase::Enrolling => Verdict::Enrolling,
            // It was ready, and is not any more: the next pass writes that down.
            Phase::Ready if self.has_fallen_back() => Verdict::Provisioning,
            Phase::Ready => Verdict::Ready,
            Phase::Failed => Verdict::RollingBack,
            Phase::Deregistering => Verdict::Draining,
            Phase::Deprovisioning => Verdict::Deprovisioning,
            Phase::Deleted => Verdict::Deleted,
        };
        Judgement::calm(verdict).since(since)
    }

    fn has_fallen_back(&self) -> bool {
        let Some(Some(xr)) = self.facts.cluster.xr.known() else { return false };
        !self.is_ready(xr) || !self.node_is_settled()
    }

    /// Who is at it, or when somebody will be.
    fn in_hand(&self) -> Option<Judgement> {
        let entry = self.facts.entry()?;
        let now = entry.now;
        if let Some((worker, until)) = &entry.lease {
            let (verdict, words) = if *until > now {
                (Verdict::PassUnderWay, format!("{worker} holds it until {until}"))
            } else {
                (Verdict::LeaseLeftBehind, format!("{worker} held it until {until}"))
            };
            return Some(Judgement::calm(verdict).saying(words));
        }
        if entry.attempts > 0 && entry.due_at.is_some_and(|due| due > now) {
            let words = self.facts.last_error().map(|error| error.message).unwrap_or_default();
            return Some(Judgement::calm(Verdict::RetryPending).saying(words));
        }
        let waited = entry
            .due_at
            .is_some_and(|due| self.budget.allowed.is_some_and(|allowed| now - due > allowed));
        waited.then(|| Judgement::new(Verdict::NoReplica, Remedy::StartReplicas))
    }

    /// Whether there is anything to do for a pass now, or only to wait for others.
    fn a_pass_would_move_it(&self) -> bool {
        let cluster = &self.facts.cluster;
        let phase = self.facts.resource.phase();
        let Some(xr) = cluster.xr.known() else { return false };
        if phase.is_teardown() {
            let node_stays = matches!(self.facts.node, Some(Reference::Found(true)));
            return node_stays || xr.as_ref().is_none_or(|xr| xr.deleting_since.is_none());
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
