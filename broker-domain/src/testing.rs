//! Builders for this crate's tests, such as `resource().enrolling()`.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    Declaration, Error, EventId, FailureReason, MeshRole, ObjectReference, OnFailure, Parameters,
    Phase, ProvisionedResource, Stamp, TokenOrdinal,
};

pub(crate) fn id<T: TryFrom<Uuid, Error = Error>>(number: u128) -> T {
    T::try_from(Uuid::from_u128(number)).unwrap()
}

/// A point in time, `number` seconds after a fixed one.
pub(crate) fn second(number: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap() + Duration::seconds(number)
}

/// A stamp at that second; the event id is the same number.
pub(crate) fn stamp(number: i64) -> Stamp {
    let event_id: EventId = id(u128::try_from(number).unwrap() + 1_000);
    Stamp::new(event_id, second(number))
}

pub(crate) fn composed(name: &str) -> ObjectReference {
    ObjectReference::new("nop.crossplane.io/v1", "NopResource", name, Some("team-a")).unwrap()
}

pub(crate) fn declaration() -> Declaration {
    Declaration::new(id(1), id(2), id(3), id(4))
}

pub(crate) fn resource() -> ResourceBuilder {
    ResourceBuilder { mesh_role: MeshRole::Node, on_failure: OnFailure::Retain }
}

#[derive(Clone, Copy)]
pub(crate) struct ResourceBuilder {
    mesh_role: MeshRole,
    on_failure: OnFailure,
}

impl ResourceBuilder {
    pub(crate) fn standalone(mut self) -> Self {
        self.mesh_role = MeshRole::Standalone;
        self
    }

    pub(crate) fn rolling_back(mut self) -> Self {
        self.on_failure = OnFailure::Rollback;
        self
    }

    pub(crate) fn pending(self) -> ProvisionedResource {
        let declaration = declaration().on_failure(self.on_failure);
        ProvisionedResource::new(
            id(5),
            &declaration,
            self.mesh_role,
            Parameters::default(),
            stamp(0),
        )
        .unwrap()
        .into_resource()
    }

    fn with_token(self) -> ProvisionedResource {
        let pending = self.pending();
        match self.mesh_role {
            MeshRole::Standalone => pending,
            MeshRole::Node => {
                pending.record_token(id(6), TokenOrdinal::FIRST, second(1)).unwrap().into_resource()
            }
        }
    }

    pub(crate) fn failed(self) -> ProvisionedResource {
        let reason = FailureReason::from_message("quota exceeded");
        self.provisioning().fail(reason, stamp(3)).unwrap().unwrap().into_resource()
    }

    pub(crate) fn provisioning(self) -> ProvisionedResource {
        advance_to(&self.with_token(), Phase::Provisioning, 2)
    }

    pub(crate) fn enrolling(self) -> ProvisionedResource {
        advance_to(&self.provisioning(), Phase::Enrolling, 3)
    }

    pub(crate) fn ready(self) -> ProvisionedResource {
        advance_to(&self.provisioning(), Phase::Ready, 4)
    }

    pub(crate) fn deregistering(self) -> ProvisionedResource {
        let deleting = self.ready().request_deletion(stamp(5)).unwrap().into_resource();
        deleting.record_closed(second(6)).unwrap().unwrap().into_resource()
    }

    pub(crate) fn deprovisioning(self) -> ProvisionedResource {
        advance_to(&self.deregistering(), Phase::Deprovisioning, 7)
    }

    pub(crate) fn deleted(self) -> ProvisionedResource {
        advance_to(&self.deprovisioning(), Phase::Deleted, 8)
    }

    /// A resource in any phase; a standalone resource skips Enrolling.
    pub(crate) fn in_phase(self, phase: Phase) -> ProvisionedResource {
        match phase {
            Phase::Pending => self.pending(),
            Phase::Provisioning => self.provisioning(),
            Phase::Enrolling => self.enrolling(),
            Phase::Ready => self.ready(),
            Phase::Failed => self.failed(),
            Phase::Deregistering => self.deregistering(),
            Phase::Deprovisioning => self.deprovisioning(),
            Phase::Deleted => self.deleted(),
        }
    }
}

fn advance_to(resource: &ProvisionedResource, phase: Phase, at: i64) -> ProvisionedResource {
    resource.advance(phase, stamp(at)).unwrap().unwrap().into_resource()
}
