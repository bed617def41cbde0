//! The only constructor of a resource: checks each field and the combinations of fields.

use time::OffsetDateTime;

use super::ProvisionedResource;
use crate::error::Error;
use crate::failure::{Failure, FailureReason};
use crate::ids::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, ProjectId, ProvisionedResourceId,
    ResourceId,
};
use crate::phase::Phase;
use crate::roles::{MeshRole, OnFailure};
use crate::snapshot::Snapshot;
use crate::token::TokenOrdinal;
use crate::version::Version;

impl ProvisionedResource {
    /// The private builder behind `new`, `hydrate` and every change. Rejects a candidate whose fields
    /// contradict each other.
    pub(super) fn build(self) -> Result<Self, Error> {
        self.check_times()?;
        self.check_failure()?;
        self.check_token()?;
        self.check_deletion()?;
        self.check_substrate()?;
        self.check_events()?;
        Ok(self)
    }

    fn check_times(&self) -> Result<(), Error> {
        if self.updated_at < self.created_at {
            return Err(Error::invalid("updated_at", "is before created_at"));
        }
        let times = [
            ("created_at", Some(self.created_at)),
            ("phase_entered_at", Some(self.phase_entered_at)),
            ("first_ready_at", self.first_ready_at),
            ("deletion_requested_at", self.deletion_requested_at),
        ];
        for (field, at) in times {
            let Some(at) = at else { continue };
            if at <= OffsetDateTime::UNIX_EPOCH {
                return Err(Error::invalid(field, "is not after 1970"));
            }
            if at < self.created_at {
                return Err(Error::invalid(field, "is before created_at"));
            }
        }
        let failed_in = self.failure.as_ref().map(Failure::step);
        let was_ready = self.phase == Phase::Ready || failed_in == Some(Phase::Ready);
        match self.first_ready_at {
            None if was_ready => Err(Error::invalid(
                "first_ready_at",
                format!("is missing in {} although it was Ready", self.phase),
            )),
            Some(at) if self.phase == Phase::Ready && at > self.phase_entered_at => {
                Err(Error::invalid("first_ready_at", "is after phase_entered_at in Ready"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Each event was committed with a change, and each phase implies a minimum number of events.
    fn check_events(&self) -> Result<(), Error> {
        let min = match self.phase {
            Phase::Pending | Phase::Provisioning | Phase::Enrolling => 1,
            Phase::Ready | Phase::Failed | Phase::Deregistering | Phase::Deprovisioning => 2,
            Phase::Deleted => 3,
        };
        let max = self.version.get();
        if self.event_sequence < min || self.event_sequence > max {
            return Err(Error::invalid(
                "event_sequence",
                format!(
                    "is {} in {} at version {max}; use {min} to {max}",
                    self.event_sequence, self.phase
                ),
            ));
        }
        Ok(())
    }

    /// Invariant: a Deleted resource has no composed object on record unless it was abandoned
    /// (`deleted_leaves_nothing_on_record`). The ProviderConfig's name stays, for a late apply.
    fn check_substrate(&self) -> Result<(), Error> {
        self.substrate.check()?;
        if self.phase == Phase::Deleted && !self.abandoned && !self.substrate.is_clear() {
            return Err(Error::invalid(
                "substrate",
                "names composed objects in Deleted; prove each absent first, or abandon the resource",
            ));
        }
        Ok(())
    }

    fn check_failure(&self) -> Result<(), Error> {
        match (self.phase, &self.failure) {
            (Phase::Failed, None) => {
                Err(Error::invalid("failure", "is missing in Failed; it says what went wrong"))
            }
            (Phase::Pending | Phase::Provisioning | Phase::Enrolling | Phase::Ready, Some(_)) => {
                Err(Error::invalid(
                    "failure",
                    format!(
                        "is set in {}; it belongs to Failed and to the teardown after it",
                        self.phase
                    ),
                ))
            }
            (Phase::Failed | Phase::Deregistering | Phase::Deprovisioning | Phase::Deleted, _)
            | (_, None) => Ok(()),
        }
    }

    fn check_token(&self) -> Result<(), Error> {
        match (self.mesh_role, self.bootstrap_token_id) {
            (MeshRole::Standalone, Some(_)) => {
                return Err(Error::invalid(
                    "bootstrap_token_id",
                    "is set on a standalone resource; only a node has a token",
                ));
            }
            (MeshRole::Node, None) if self.phase == Phase::Ready => {
                return Err(Error::invalid(
                    "bootstrap_token_id",
                    "is missing on a node in Ready; a Node enrols with a token",
                ));
            }
            (MeshRole::Standalone | MeshRole::Node, _) => {}
        }
        if self.mesh_role == MeshRole::Standalone {
            self.check_standalone()?;
        }
        if self.token_closed && !self.phase.is_teardown() {
            return Err(Error::invalid(
                "token_closed",
                format!("is set in {}; tokens are closed by teardown", self.phase),
            ));
        }
        // Invariant: no resource is Deleted while one of its tokens can still enrol a Node
        // (`deleted_needs_closed_tokens`).
        if self.phase == Phase::Deleted && !self.token_closed {
            return Err(Error::invalid(
                "token_closed",
                "is not set; tokens are closed before a resource is Deleted",
            ));
        }
        Ok(())
    }

    fn check_standalone(&self) -> Result<(), Error> {
        let failed_in = self.failure.as_ref().map(Failure::step);
        if self.phase == Phase::Enrolling || failed_in == Some(Phase::Enrolling) {
            let field = if self.phase == Phase::Enrolling { "phase" } else { "failure_step" };
            return Err(Error::invalid(
                field,
                "is Enrolling on a standalone resource; no Node enrols from it",
            ));
        }
        if self.token_ordinal != TokenOrdinal::FIRST {
            return Err(Error::invalid(
                "token_ordinal",
                format!("is {} on a standalone resource; use 1", self.token_ordinal),
            ));
        }
        Ok(())
    }

    fn check_deletion(&self) -> Result<(), Error> {
        match (self.phase.is_teardown(), self.deletion_requested_at) {
            (true, None) => {
                return Err(Error::invalid(
                    "deletion_requested_at",
                    format!("is missing in {}", self.phase),
                ));
            }
            (false, Some(_)) => {
                return Err(Error::invalid(
                    "deletion_requested_at",
                    format!(
                        "is set in {}; a deletion request starts the teardown at once",
                        self.phase
                    ),
                ));
            }
            (true, Some(requested)) if self.phase_entered_at < requested => {
                return Err(Error::invalid("phase_entered_at", "is before deletion_requested_at"));
            }
            (true, Some(_)) | (false, None) => {}
        }
        if self.abandoned && self.phase != Phase::Deleted {
            return Err(Error::invalid(
                "abandoned",
                format!("is set in {}; only a Deleted resource is abandoned", self.phase),
            ));
        }
        Ok(())
    }

    /// The resource as a stored row.
    ///
    /// ```
    #[doc = include_str!("doctest_setup.md")]
    /// let row = pending.snapshot();
    /// assert_eq!(row.phase, "Pending");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let Self {
            id,
            resource_id,
            project_id,
            blueprint_version_id,
            cloud_credential_id,
            phase,
            bootstrap_token_id,
            created_at,
            updated_at,
            parameters,
            mesh_role,
            on_failure,
            failure,
            token_ordinal,
            token_closed,
            substrate,
            deletion_requested_at,
            phase_entered_at,
            first_ready_at,
            abandoned,
            event_sequence,
            version,
        } = self;
        Snapshot {
            id: id.as_uuid(),
            resource_id: resource_id.as_uuid(),
            project_id: project_id.as_uuid(),
            blueprint_version_id: blueprint_version_id.as_uuid(),
            cloud_credential_id: cloud_credential_id.as_uuid(),
            phase: phase.as_str().to_owned(),
            xr_name: self.xr_name().as_str().to_owned(),
            bootstrap_token_id: bootstrap_token_id.map(|id| id.as_uuid()),
            created_at: *created_at,
            updated_at: *updated_at,
            parameters: parameters.clone(),
            mesh_role: mesh_role.as_str().to_owned(),
            on_failure: on_failure.as_str().to_owned(),
            failure_step: failure.as_ref().map(|failure| failure.step().as_str().to_owned()),
            failure_reason: failure.as_ref().map(|failure| failure.reason().as_str().to_owned()),
            token_ordinal: token_ordinal.get(),
            token_closed: *token_closed,
            substrate: substrate.clone(),
            deletion_requested_at: *deletion_requested_at,
            phase_entered_at: *phase_entered_at,
            first_ready_at: *first_ready_at,
            abandoned: *abandoned,
            event_sequence: *event_sequence,
            version: version.get(),
        }
    }
}

/// Parses each field; `build` then checks the combinations.
impl TryFrom<Snapshot> for ProvisionedResource {
    type Error = Error;

    fn try_from(snapshot: Snapshot) -> Result<Self, Error> {
        let Snapshot {
            id,
            resource_id,
            project_id,
            blueprint_version_id,
            cloud_credential_id,
            phase,
            xr_name,
            bootstrap_token_id,
            created_at,
            updated_at,
            parameters,
            mesh_role,
            on_failure,
            failure_step,
            failure_reason,
            token_ordinal,
            token_closed,
            substrate,
            deletion_requested_at,
            phase_entered_at,
            first_ready_at,
            abandoned,
            event_sequence,
            version,
        } = snapshot;
        let id = ProvisionedResourceId::new(id)?;
        check_xr_name(id, &xr_name)?;
        Ok(Self {
            id,
            resource_id: ResourceId::new(resource_id)?,
            project_id: ProjectId::new(project_id)?,
            blueprint_version_id: BlueprintVersionId::new(blueprint_version_id)?,
            cloud_credential_id: CloudCredentialId::new(cloud_credential_id)?,
            phase: Phase::try_from(phase.as_str())?,
            bootstrap_token_id: bootstrap_token_id.map(BootstrapTokenId::new).transpose()?,
            created_at,
            updated_at,
            parameters,
            mesh_role: MeshRole::try_from(mesh_role.as_str())?,
            on_failure: OnFailure::try_from(on_failure.as_str())?,
            failure: parse_failure(failure_step, failure_reason)?,
            token_ordinal: TokenOrdinal::new(token_ordinal)?,
            token_closed,
            substrate,
            deletion_requested_at,
            phase_entered_at,
            first_ready_at,
            abandoned,
            event_sequence,
            version: Version::new(version)?,
        })
    }
}

fn check_xr_name(id: ProvisionedResourceId, xr_name: &str) -> Result<(), Error> {
    let derived = id.xr_name();
    if xr_name.trim().is_empty() {
        return Err(Error::invalid("xr_name", format!("is empty; it is {derived}")));
    }
    if xr_name != derived.as_str() {
        return Err(Error::invalid(
            "xr_name",
            format!("{xr_name:?} belongs to another resource; it is {derived}"),
        ));
    }
    Ok(())
}

fn parse_failure(step: Option<String>, reason: Option<String>) -> Result<Option<Failure>, Error> {
    match (step, reason) {
        (Some(step), Some(reason)) => {
            Failure::new(Phase::try_from(step.as_str())?, FailureReason::try_from(reason)?)
                .map(Some)
        }
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(Error::invalid("failure_reason", "is missing although failure_step is set"))
        }
        (None, Some(_)) => {
            Err(Error::invalid("failure_step", "is missing although failure_reason is set"))
        }
    }
}
