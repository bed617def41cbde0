//! The status of a resource for its user: its phase, and what delays it.
//!
//! An [explanation](crate::explain) is for operators: it reads every port and names objects. A status costs one read of
//! the store. In a process that runs the broker it also uses the last sweep (pauses, brakes, namespaces, unreadable
//! references, problems that Crossplane reports) and the failed passes of this replica. A failed pass of another replica
//! is unknown until a sweep of this replica finds its cause.

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_ports::{RequestContext, wire};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::Service;
use crate::error::Error;
use crate::explain::BudgetUse;
use crate::observe::Gate;
use crate::runner::Probe;
use crate::telemetry::traceparent;

/// The phase of a resource, and what delays it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The resource.
    pub id: ProvisionedResourceId,
    /// Its phase.
    pub phase: Phase,
    /// When it entered the phase.
    pub since: OffsetDateTime,
    /// A caller or a rollback requested its deletion.
    pub is_leaving: bool,
    /// What delays it, if known.
    pub hold_up: Option<HoldUp>,
    /// The data behind this status.
    pub basis: Basis,
}

/// Why a resource does not continue. No value names an object, a server or another Project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldUp {
    /// It failed. Retry it, replace it or delete it.
    Failed,
    /// An operator paused it. No pass runs until it is resumed.
    Paused,
    /// The namespace of its Project is not ready. The resource continues once the platform has prepared the namespace.
    NamespaceNotReady,
    /// Its credential expired, was revoked, or is not approved for its Project. What runs keeps running; nothing is
    /// created.
    CredentialWithdrawn,
    /// The ProviderConfig that its Project shares is being deleted. The resource continues with a new one.
    SharedConfigLeaving,
    /// A brake is set: too many composite resources were lost at once. An operator has to release it.
    SafetyBrake,
    /// The cluster, the store, the token issuer or the mesh does not answer. The broker retries.
    Unavailable,
    /// A part of the platform rejects a request for the resource. An operator has to act.
    Refused,
    /// Its blueprint, credential, cloud or assignment no longer exists.
    ReferenceMissing,
    /// Crossplane reports a problem with its composite resource, such as an error of the cloud, and retries.
    ProblemReported,
    /// The phase takes longer than usual.
    Slow,
}

/// The data behind a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Basis {
    /// Only the row: this process has no runner, or no recent sweep.
    Row,
    /// The row, and the last sweep and passes of this process's runner.
    RowAndRunner,
}

impl HoldUp {
    const fn behind(gate: Gate) -> Self {
        match gate {
            Gate::Credential(_) => Self::CredentialWithdrawn,
            Gate::ConfigLeaving => Self::SharedConfigLeaving,
            Gate::Namespace(_) | Gate::OtherCluster | Gate::Open | Gate::NotRead => {
                Self::NamespaceNotReady
            }
        }
    }

    /// The stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Paused => "paused",
            Self::NamespaceNotReady => "namespace_not_ready",
            Self::CredentialWithdrawn => "credential_withdrawn",
            Self::SharedConfigLeaving => "shared_config_leaving",
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
            Self::NamespaceNotReady => {
                "the platform is still preparing its Project; no action is needed"
            }
            Self::CredentialWithdrawn => {
                "its cloud credential was withdrawn; the platform has to approve it again"
            }
            Self::SharedConfigLeaving => {
                "the platform is removing what earlier resources left; no action is needed"
            }
            Self::SafetyBrake => {
                "the platform lost many resources at once; its operators have to approve the repair"
            }
            Self::Unavailable => "a part of the platform does not answer; the platform retries",
            Self::Refused => "the platform rejects a request for it; its operators have to act",
            Self::ReferenceMissing => {
                "its blueprint, credential, cloud or assignment no longer exists"
            }
            Self::ProblemReported => {
                "the platform or the cloud reports a problem with it; the platform retries"
            }
            Self::Slow => "it takes longer than usual",
        }
    }

    /// The delay behind the reason of a failed pass or sweep.
    fn from_reason(reason: &str) -> Self {
        let retried = ["node_deregistration_failed", "lease_ran_out", "stale_write"];
        if reason.ends_with("_not_found") {
            Self::ReferenceMissing
        } else if reason.ends_with("_transient")
            || reason.ends_with("_unknown")
            || retried.contains(&reason)
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
    /// The phase of a resource, and what delays it, with one read of the store.
    ///
    /// Without a runner in this process, `hold_up` is only [`Failed`](HoldUp::Failed) or [`Slow`](HoldUp::Slow), and
    /// `basis` is [`Basis::Row`]. With a runner, pauses, brakes, namespaces and reported problems come from the last sweep,
    /// and failed passes are those of this replica only.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    #[tracing::instrument(name = "broker.status", skip_all, fields(resource = %id, traceparent = traceparent(context)))]
    pub async fn status(
        &self,
        context: &RequestContext,
        id: ProvisionedResourceId,
    ) -> Result<Status, Error> {
        let resource = self.get(context, id).await?;
        let current_probe = self.probe().filter(|probe| probe.is_current());
        let is_failed =
            resource.phase() == Phase::Failed && resource.deletion_requested_at().is_none();
        let hold_up = if is_failed {
            Some(HoldUp::Failed)
        } else {
            current_probe.and_then(|probe| hold_up_by_runner(probe, &resource))
        };
        Ok(Status {
            id,
            phase: resource.phase(),
            since: resource.phase_entered_at(),
            is_leaving: resource.deletion_requested_at().is_some(),
            hold_up: hold_up.or_else(|| self.is_slow(&resource).then_some(HoldUp::Slow)),
            basis: if current_probe.is_some() { Basis::RowAndRunner } else { Basis::Row },
        })
    }

    fn is_slow(&self, resource: &ProvisionedResource) -> bool {
        let (budgets, now) = (self.config().budgets(), self.ports().clock.now());
        BudgetUse::of(&budgets, resource.phase(), resource.phase_entered_at(), now).is_over()
    }
}

/// The delay that the runner of this process knows. A Ready or Deleted resource has none.
fn hold_up_by_runner(probe: &Probe, resource: &ProvisionedResource) -> Option<HoldUp> {
    let needs_nothing = matches!(resource.phase(), Phase::Ready | Phase::Deleted)
        && resource.deletion_requested_at().is_none();
    if needs_nothing {
        return None;
    }
    if probe.is_paused(resource.id()) {
        return Some(HoldUp::Paused);
    }
    if probe.is_braked(resource) {
        return Some(HoldUp::SafetyBrake);
    }
    let error = probe.error_reason(resource.id()).map(HoldUp::from_reason);
    error
        .or_else(|| probe.closed_gate(resource).map(HoldUp::behind))
        .or_else(|| probe.has_problem(resource).then_some(HoldUp::ProblemReported))
}
