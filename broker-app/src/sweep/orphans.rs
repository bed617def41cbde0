//! Orphans: objects with the broker's labels that no row accounts for, or only a Deleted one.
//!
//! A late request of a worker that was cut off can create a shell or a ProviderConfig after its resource is Deleted,
//! and no teardown covers it. The broker therefore deletes objects of Deleted rows: first the composite resource, then
//! the ProviderConfig, once a direct read shows no composite resource and no composed object. It only reports objects
//! of abandoned rows, of no row, and of rows on another cluster.
//!
//! No lease is needed: Deleted is terminal, so no pass works on the row. Each deletion names the uid, so two replicas
//! that find the same orphan delete it once.

use broker_domain::{
    ClusterId, ObjectReference, Phase, ProvisionedResource, ProvisionedResourceId,
};
use broker_ports::{
    Actor, Attribution, AuditAction, AuditEntry, BlueprintVersionView, CorrelationId,
    DeleteRequest, Deleted, OwnedObject, OwnedRole, PortError, PortName, Presence, Reading, Target,
    XrReading,
};

use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::decide::Mode;
use crate::error::Error;
use crate::observe::target;

/// An object with the broker's labels that no row accounts for, or only a Deleted one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The object.
    pub reference: ObjectReference,
    /// The resource in the object's name; `None` if the name is not one of the broker's.
    pub resource: Option<ProvisionedResourceId>,
    /// What the broker does about it.
    pub state: OrphanState,
}

/// What the broker does about an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OrphanState {
    /// Its resource is Deleted, and the deletion of the object has been requested.
    Deleting,
    /// A ProviderConfig of a Deleted resource; the broker deletes it once no object needs it.
    Deferred,
    /// Its resource is Deleted, but a dry run deletes nothing.
    DryRun,
    /// Its resource was abandoned: an operator has to delete it.
    Abandoned,
    /// It has no row: another system created it, or its row was purged. An operator has to check it.
    Unknown,
    /// Its row is bound to another cluster: an operator has to check it.
    OtherCluster,
}

impl OrphanState {
    /// Every state.
    pub const ALL: &[Self] = &[
        Self::Deleting,
        Self::Deferred,
        Self::DryRun,
        Self::Abandoned,
        Self::Unknown,
        Self::OtherCluster,
    ];

    /// The state's name in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deleting => "deleting",
            Self::Deferred => "deferred",
            Self::DryRun => "dry_run",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
            Self::OtherCluster => "other_cluster",
        }
    }
}

/// Whether a row that is not Deleted accounts for an object, and whether the broker may delete it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// A row that is not Deleted accounts for it: not an orphan.
    InUse,
    /// An orphan that the broker may not delete.
    ReportOnly(OrphanState),
    /// An orphan that the broker deletes.
    Deletable,
}

fn ownership(row: Option<&ProvisionedResource>, cluster: &ClusterId, mode: Mode) -> Ownership {
    let Some(row) = row else { return Ownership::ReportOnly(OrphanState::Unknown) };
    if row.phase() != Phase::Deleted {
        return Ownership::InUse;
    }
    let on_other_cluster = row.substrate().cluster().is_some_and(|own| own != cluster);
    match (row.abandoned(), on_other_cluster, mode) {
        (true, _, _) => Ownership::ReportOnly(OrphanState::Abandoned),
        (false, true, _) => Ownership::ReportOnly(OrphanState::OtherCluster),
        (false, false, Mode::DryRun) => Ownership::ReportOnly(OrphanState::DryRun),
        (false, false, Mode::Live) => Ownership::Deletable,
    }
}

pub(crate) struct Orphans<'a> {
    ports: &'a TimedPorts,
    config: &'a BrokerConfig,
}

impl<'a> Orphans<'a> {
    pub(crate) const fn new(ports: &'a TimedPorts, config: &'a BrokerConfig) -> Self {
        Self { ports, config }
    }

    /// Follows a hint about a resource without a pass: a late request may have created an object of a Deleted row.
    pub(crate) async fn follow_hint(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<Vec<Orphan>, Error> {
        // Without a row the kind is unknown. The sweep finds the object and reports it.
        let Some(row) = self.row(id).await? else { return Ok(Vec::new()) };
        if row.phase() != Phase::Deleted {
            return Ok(Vec::new());
        }
        let blueprint = self.ports.blueprint(row.blueprint_version_id()).await?;
        let reading = self.read(target(&row, &blueprint)).await?;
        let found = owned_objects(&row, &blueprint, &reading)?;
        self.handle(Some(id), Some(&row), found, &reading.cluster).await
    }

    /// Handles the objects of one resource that a sweep found without visiting its row.
    pub(crate) async fn handle_unaccounted(
        &self,
        id: Option<ProvisionedResourceId>,
        objects: Vec<OwnedObject>,
        cluster: &ClusterId,
    ) -> Result<Vec<Orphan>, Error> {
        let row = match id {
            Some(id) => self.row(id).await?,
            None => None,
        };
        self.handle(id, row.as_ref(), objects, cluster).await
    }

    async fn handle(
        &self,
        id: Option<ProvisionedResourceId>,
        row: Option<&ProvisionedResource>,
        objects: Vec<OwnedObject>,
        cluster: &ClusterId,
    ) -> Result<Vec<Orphan>, Error> {
        let orphan = |object: OwnedObject, state| Orphan {
            reference: object.reference,
            resource: id,
            state,
        };
        match (ownership(row, cluster, self.config.mode), row) {
            (Ownership::InUse, _) | (Ownership::Deletable, None) => Ok(Vec::new()),
            (Ownership::ReportOnly(state), _) => {
                Ok(objects.into_iter().map(|object| orphan(object, state)).collect())
            }
            (Ownership::Deletable, Some(row)) => {
                let mut orphans = Vec::with_capacity(objects.len());
                let xr_exists = objects.iter().any(|object| object.role == OwnedRole::Xr);
                for object in objects {
                    let state = match object.role {
                        OwnedRole::ProviderConfig if xr_exists => OrphanState::Deferred,
                        OwnedRole::ProviderConfig => self.remove_config(row, &object).await?,
                        OwnedRole::Xr => self.remove(row, &object).await?,
                    };
                    orphans.push(orphan(object, state));
                }
                Ok(orphans)
            }
        }
    }

    /// Deletes an orphaned ProviderConfig only after a direct read, because a list can miss objects.
    async fn remove_config(
        &self,
        row: &ProvisionedResource,
        object: &OwnedObject,
    ) -> Result<OrphanState, Error> {
        let blueprint = self.ports.blueprint(row.blueprint_version_id()).await?;
        let mut target = target(row, &blueprint);
        target.provider_config = Some(object.reference.clone());
        let reading = self.read(target).await?;
        let xr_exists = matches!(reading.xr, XrReading::Present(_));
        let recorded = reading.recorded.values().any(|presence| *presence == Presence::Present);
        if xr_exists || recorded || !reading.labelled.is_empty() {
            return Ok(OrphanState::Deferred);
        }
        self.remove(row, object).await
    }

    async fn remove(
        &self,
        row: &ProvisionedResource,
        object: &OwnedObject,
    ) -> Result<OrphanState, Error> {
        if object.deleting {
            return Ok(OrphanState::Deleting);
        }
        let target = &object.reference;
        tracing::warn!(resource = %row.id(), object = %target, "removing an orphan of a deleted resource");
        self.audit(row, object).await?;
        let request = DeleteRequest::new(row.project_id(), target, &object.uid);
        match self.ports.cluster.write(|it| it.delete(&request)).await? {
            // `Replaced`: the next sweep handles the new object of that name.
            Deleted::Accepted | Deleted::Gone | Deleted::Replaced => Ok(OrphanState::Deleting),
            Deleted::Vetoed { message } => {
                let source =
                    PortError::rejected(format!("the deletion of {target} was vetoed: {message}"));
                Err(Error::Port { port: PortName::Cluster, source })
            }
        }
    }

    async fn audit(&self, row: &ProvisionedResource, object: &OwnedObject) -> Result<(), Error> {
        let correlation = CorrelationId::new(format!("orphan:{}:{}", row.id(), object.uid))?;
        let by = Attribution::new(Actor::system(), correlation);
        let entry = AuditEntry::new(AuditAction::SubstrateDelete, by)
            .in_project(row.project_id())
            .for_resource(row.id())
            .in_phase(row.phase());
        self.ports.audit.write(|it| it.record(&entry)).await
    }

    async fn row(&self, id: ProvisionedResourceId) -> Result<Option<ProvisionedResource>, Error> {
        self.ports.repository.read(|it| it.get_by_id(id)).await
    }

    async fn read(&self, target: Target) -> Result<Reading, Error> {
        self.ports.cluster.read(|it| it.read(&target)).await
    }
}

/// The objects of a direct reading, in the shape of a list.
fn owned_objects(
    row: &ProvisionedResource,
    blueprint: &BlueprintVersionView,
    reading: &Reading,
) -> Result<Vec<OwnedObject>, Error> {
    let target = target(row, blueprint);
    let mut found = Vec::new();
    if let XrReading::Present(live) = &reading.xr {
        let reference = target.xr.reference()?;
        let uid = live.object.version().uid.clone();
        let object = OwnedObject::new(reference, uid, OwnedRole::Xr);
        found.push(if live.status.deleting { object.being_deleted() } else { object });
    }
    // A shared ProviderConfig belongs to its users, not to a Deleted row.
    if let (Some(live), Some(config)) = (&reading.provider_config, row.own_provider_config()) {
        let uid = live.version().uid.clone();
        let object = OwnedObject::new(config.clone(), uid, OwnedRole::ProviderConfig);
        found.push(if live.is_being_deleted() { object.being_deleted() } else { object });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use broker_testkit::builders::{cluster, resource};

    use super::*;

    #[test]
    fn only_orphans_of_deleted_rows_are_removed() {
        let here = cluster(1);
        let deleted = resource().with_substrate().deleted().build();
        assert_eq!(deleted.substrate().cluster(), Some(&here), "a Deleted row keeps its cluster");
        let abandoned = resource().with_substrate().abandoned().build();
        let rows = [
            ("no row", None, &here, Mode::Live, Ownership::ReportOnly(OrphanState::Unknown)),
            (
                "abandoned",
                Some(&abandoned),
                &here,
                Mode::Live,
                Ownership::ReportOnly(OrphanState::Abandoned),
            ),
            ("deleted", Some(&deleted), &here, Mode::Live, Ownership::Deletable),
            (
                "a dry run",
                Some(&deleted),
                &here,
                Mode::DryRun,
                Ownership::ReportOnly(OrphanState::DryRun),
            ),
            (
                "other_cluster",
                Some(&deleted),
                &cluster(2),
                Mode::Live,
                Ownership::ReportOnly(OrphanState::OtherCluster),
            ),
        ];
        for (why, row, at, mode, expected) in rows {
            assert_eq!(ownership(row, at, mode), expected, "{why}");
        }
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted) {
            let row = resource().in_phase(phase).build();
            assert_eq!(ownership(Some(&row), &here, Mode::Live), Ownership::InUse, "{phase}");
        }
    }
}
