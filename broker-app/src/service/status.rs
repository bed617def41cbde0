//! The status of a resource for the one who asked for it: where it is, and whether something holds it up.
//!
//! An [explanation](crate::explain) is for operators: it asks every port and names objects. A status costs one read of the
//! store. In a process that runs the broker it also uses what the runner has learnt: the last sweep (pauses, brakes,
//! namespaces, unreadable references, problems that Crossplane reports) and the failures of its own passes. A failure of a pass on another replica is
//! unknown here until a sweep of this replica meets the same cause.

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_ports::{RequestContext, wire};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::Service;
use crate::error::Error;
use crate::explain::BudgetUse;
use crate::runner::Probe;
use crate::telemetry::trace;

/// Where a resource is, and what holds it up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The resource.
    pub id: ProvisionedResourceId,
    /// Its phase.
    pub phase: Phase,
    /// When it entered the phase.
    pub since: OffsetDateTime,
    /// Its deletion was asked for.
    pub is_leaving: bool,
    /// What holds it up, if that is known.
    pub hold_up: Option<HoldUp>,
    /// What the answer rests on.
    pub basis: Basis,
}

/// Why a resource does not go on. None of these names an object, a server or another Project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldUp {
    /// It failed and stays so. Retry it, replace it, or delete it.
    Failed,
    /// An operator paused it. No pass is made before it is resumed.
    Paused,
    /// The namespace of its Project takes no objects yet. It goes on when the platform has made it ready.
    NamespaceNotReady,
    /// The platform stopped automatic repair, because it lost too much at once. Its operators decide.
    SafetyBrake,
    /// The cluster, the store, the token issuer or the mesh does not answer. The broker tries again.
    Unavailable,
    /// A part of the platform refuses what the resource needs. Its operators have to act.
    Refused,
    /// What it was declared with is gone: the blueprint, the credential, the cloud or the assignment.
    ReferenceMissing,
    /// Crossplane reports a problem with its composite resource, for example a refusal of the cloud. It is tried again.
    ProblemReported,
    /// The phase takes longer than usual.
    Slow,
}

/// What a status rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Basis {
    /// The row alone: no runner works in this process.
    Row,
    /// The row, and what this process's runner learnt in its last sweep and passes.
    RowAndRunner,
}

impl HoldUp {
    /// The stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::NamespaceNotReady => "namespace_not_ready",
            Self::SafetyBrake => "safety_brake",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::ReferenceMissing => "reference_missing",
            Self::ProblemReported => "problem_reported",
            Self::Slow => "slow",
        }
    }

    /// One line for an end user.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Failed => "it failed; retry it, replace it or delete it",
            Self::Paused => "the operators of the platform paused it",
            Self::NamespaceNotReady => "the platform prepares its Project; it goes on by itself",
            Self::SafetyBrake => {
                "the platform lost many resources at once and repairs none before its operators agree"
            }
            Self::Unavailable => "a part of the platform does not answer; it is tried again",
            Self::Refused => "the platform refuses what it needs; its operators have to act",
            Self::ReferenceMissing => {
                "the blueprint, credential, cloud or assignment that it was declared with is gone"
            }
            Self::ProblemReported => {
                "the platform or the cloud reports a problem with it; it is tried again"
            }
            Self::Slow => "it takes longer than usual",
        }
    }

    /// What the reason of a failed pass or sweep means to the one who waits.
    fn of_reason(reason: &str) -> Self {
        let passes = ["node_deregistration_failed", "lease_ran_out", "stale_write"];
        if reason.ends_with("_not_found") {
            Self::ReferenceMissing
        } else if reason.ends_with("_transient")
            || reason.ends_with("_unknown")
            || passes.contains(&reason)
        {
            Self::Unavailable
        } else {
            Self::Refused
        }
    }
}

impl Status {
    /// The status as a JSON object. Keys are added, never changed.
    pub fn to_json(&self) -> Value {
        let hold_up = self.hold_up;
        json!({
            "id": self.id.to_string(),
            "phase": self.phase.as_str(),
            "since": wire::rfc3339(self.since),
            "is_leaving": self.is_leaving,
            "hold_up": hold_up.map(|it| json!({"reason": it.as_str(), "message": it.message()})),
            "basis": match self.basis {
                Basis::Row => "row",
                Basis::RowAndRunner => "row_and_runner",
            },
        })
    }
}

impl Service {
    /// Where a resource is, and what holds it up: one read of the store.
    ///
    /// Without a runner in this process, `hold_up` is only [`Failed`](HoldUp::Failed) or [`Slow`](HoldUp::Slow), and
    /// `basis` is [`Basis::Row`]. With one, pauses, brakes, namespaces and reported problems are as the last sweep found
    /// them. Failed passes are those of this replica: another replica's are unknown here.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    #[tracing::instrument(name = "broker.status", skip_all, fields(resource = %id, traceparent = trace(context)))]
    pub async fn status(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Status, Error> {
        let resource = self.get(context, id).await?;
        let known = self.probe().filter(|probe| probe.is_current());
        let is_failed =
            resource.phase() == Phase::Failed && resource.deletion_requested_at().is_none();
        let hold_up = if is_failed {
            Some(HoldUp::Failed)
        } else {
            known.and_then(|probe| known_to(probe, &resource))
        };
        Ok(Status {
            id,
            phase: resource.phase(),
            since: resource.phase_entered_at(),
            is_leaving: resource.deletion_requested_at().is_some(),
            hold_up: hold_up.or_else(|| self.is_slow(&resource).then_some(HoldUp::Slow)),
            basis: if known.is_some() { Basis::RowAndRunner } else { Basis::Row },
        })
    }

    fn is_slow(&self, resource: &ProvisionedResource) -> bool {
        let (budgets, now) = (self.config().budgets(), self.ports().clock.now());
        BudgetUse::of(&budgets, resource.phase(), resource.phase_entered_at(), now).is_over()
    }
}

/// What the runner of this process knows. A resource that reached its phase waits for nothing.
fn known_to(probe: &Probe, resource: &ProvisionedResource) -> Option<HoldUp> {
    let has_arrived = matches!(resource.phase(), Phase::Ready | Phase::Deleted)
        && resource.deletion_requested_at().is_none();
    if has_arrived {
        return None;
    }
    if probe.is_paused(resource.id()) {
        return Some(HoldUp::Paused);
    }
    if probe.is_braked(resource) {
        return Some(HoldUp::SafetyBrake);
    }
    let trouble = probe.trouble_of(resource.id()).map(HoldUp::of_reason);
    trouble
        .or_else(|| probe.lacks_namespace(resource).then_some(HoldUp::NamespaceNotReady))
        .or_else(|| probe.has_problem(resource).then_some(HoldUp::ProblemReported))
}
