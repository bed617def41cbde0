//! Persist: the replacement of a resource and its results.

use broker_domain::{Change, Error, Phase, ProvisionedResource, ProvisionedResourceId, Stamp};

use super::{Created, Write};
use crate::admitted::Admitted;
use crate::audit::{AuditAction, AuditEntry};

/// A new resource that replaces an old one, with the old one's deletion request.
///
/// An old resource in teardown gets no second deletion request; its teardown continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    old: ProvisionedResourceId,
    phase: Phase,
    deletion: Option<Change>,
    admitted: Admitted,
}

impl Replacement {
    /// Replaces the old resource, as it was read, by the admitted one. The stamp belongs to the deletion request.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when the old resource is Deleted.
    pub fn new(old: &ProvisionedResource, admitted: Admitted, stamp: Stamp) -> Result<Self, Error> {
        if old.phase() == Phase::Deleted {
            let problem = "is Deleted, so there is nothing left to replace; use provision instead";
            return Err(Error::invalid("phase", problem));
        }
        let deletion = old.request_deletion(stamp);
        let phase = deletion.as_ref().map_or(old.phase(), |change| change.resource().phase());
        Ok(Self { old: old.id(), phase, deletion, admitted })
    }

    /// The new resource.
    pub const fn admitted(&self) -> &Admitted {
        &self.admitted
    }

    /// The deletion request; `None` if the old resource is in teardown.
    pub fn deletion(&self) -> Option<Write<'_>> {
        let attribution = self.admitted.attribution();
        self.deletion.as_ref().map(|change| Write::by_caller(change, attribution))
    }

    /// The audit line of the old resource that names the new one.
    ///
    /// It is written in addition to the lines of the deletion request and the creation. The new id is in `event_data`,
    /// so a scrub removes it; the correlation id still links the three lines.
    pub fn audit(&self) -> AuditEntry {
        let new = self.admitted.change().resource();
        AuditEntry::new(AuditAction::Replaced, self.admitted.attribution().clone())
            .in_project(new.project_id())
            .for_resource(self.old)
            .in_phase(self.phase)
            .with_event_data(new.id().to_string())
    }
}

/// The result of a replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only `Created::Stored` means that the new resource exists"]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Replaced {
    /// The result of the creation. Only [`Created::Stored`] committed a change.
    Created(Created),
    /// The old resource changed since it was read, or is gone. Nothing was written.
    Stale,
}
