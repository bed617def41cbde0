//! Orphans: objects with our labels that no living row wants.
//!
//! Of a worker that was cut off a request may still arrive: a shell, which composes nothing, or a
//! ProviderConfig. If its resource is Deleted by then, nobody's teardown will ever meet it. So whatever belongs
//! to a row that is Deleted is removed: the composite resource first, the ProviderConfig only when a direct read
//! shows that no composite resource and no composed object is left. What belongs to a row that was given up, to
//! no row, or to another cluster is named, and never touched.
//!
//! No lease is needed. Deleted is for ever, so no pass can be at work on such a row, and a deletion carries the
//! uid of the very object: two replicas that find the same orphan do once what each of them does.

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

/// An object with our labels that no living row wants.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The object.
    pub reference: ObjectReference,
    /// The resource that its name stands for; `None` if the name is not one of ours.
    pub resource: Option<ProvisionedResourceId>,
    /// What becomes of it.
    pub state: OrphanState,
}

/// What becomes of an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum OrphanState {
    /// Its resource is Deleted, and so its deletion was asked for, now or before.
    Deleting,
    /// A ProviderConfig whose resource is Deleted; it goes when nothing that needs it is left.
    Deferred,
    /// Its resource is Deleted, but in a dry run nothing is removed.
    DryRun,
    /// Its resource was given up: a person has to see to it.
    Abandoned,
    /// There is no row for it: somebody else's, or its row was purged. A person has to see to it.
    Unknown,
    /// Its row's objects stand on another cluster: a person has to see to it.
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

/// Whose an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    /// A living row wants it: it is no orphan.
    Wanted,
    /// Nobody wants it, and we may not touch it.
    Left(OrphanState),
    /// Nobody wants it, and it is ours to remove.
    Ours,
}

/// Decides whose an object is, by its row as it is stored now.
fn ownership(row: Option<&ProvisionedResource>, cluster: &ClusterId, mode: Mode) -> Ownership {
    let Some(row) = row else { return Ownership::Left(OrphanState::Unknown) };
    if row.phase() != Phase::Deleted {
        return Ownership::Wanted;
    }
    let elsewhere = row.substrate().cluster().is_some_and(|own| own != cluster);
    match (row.abandoned(), elsewhere, mode) {
        (true, _, _) => Ownership::Left(OrphanState::Abandoned),
        (false, true, _) => Ownership::Left(OrphanState::OtherCluster),
        (false, false, Mode::DryRun) => Ownership::Left(OrphanState::DryRun),
        (false, false, Mode::Live) => Ownership::Ours,
    }
}

/// Looks after orphans.
pub(crate) struct Orphans<'a> {
    ports: &'a TimedPorts,
    config: &'a BrokerConfig,
}

impl<'a> Orphans<'a> {
    pub(crate) const fn new(ports: &'a TimedPorts, config: &'a BrokerConfig) -> Self {
        Self { ports, config }
    }

    /// Follows a hint that no pass could be made for: perhaps something arrived for a row that is Deleted.
    pub(crate) async fn hinted(&self, id: ProvisionedResourceId) -> Result<Vec<Orphan>, Error> {
        // Of what is in no row not even the kind is known here; the sweep finds and names it.
        let Some(row) = self.row(id).await? else { return Ok(Vec::new()) };
        if row.phase() != Phase::Deleted {
            return Ok(Vec::new());
        }
        let blueprint = self.ports.blueprint(row.blueprint_version_id()).await?;
        let reading = self.read(target(&row, &blueprint)).await?;
        let found = standing(&row, &blueprint, &reading)?;
        self.judge(Some(id), Some(&row), found, &reading.cluster).await
    }

    /// Decides about the objects of one resource that a sweep found and met no row for on its way.
    pub(crate) async fn found(
        &self,
        id: Option<ProvisionedResourceId>,
        objects: Vec<OwnedObject>,
        cluster: &ClusterId,
    ) -> Result<Vec<Orphan>, Error> {
        let row = match id {
            Some(id) => self.row(id).await?,
            None => None,
        };
        self.judge(id, row.as_ref(), objects, cluster).await
    }

    async fn judge(
        &self,
        id: Option<ProvisionedResourceId>,
        row: Option<&ProvisionedResource>,
        objects: Vec<OwnedObject>,
        cluster: &ClusterId,
    ) -> Result<Vec<Orphan>, Error> {
        let named = |object: OwnedObject, state| Orphan {
            reference: object.reference,
            resource: id,
            state,
        };
        match (ownership(row, cluster, self.config.mode), row) {
            (Ownership::Wanted, _) | (Ownership::Ours, None) => Ok(Vec::new()),
            (Ownership::Left(state), _) => {
                Ok(objects.into_iter().map(|object| named(object, state)).collect())
            }
            (Ownership::Ours, Some(row)) => {
                let mut orphans = Vec::with_capacity(objects.len());
                let xr_stands = objects.iter().any(|object| object.role == OwnedRole::Xr);
                for object in objects {
                    let state = match object.role {
                        OwnedRole::ProviderConfig if xr_stands => OrphanState::Deferred,
                        OwnedRole::ProviderConfig => self.remove_config(row, &object).await?,
                        OwnedRole::Xr => self.remove(row, &object).await?,
                    };
                    orphans.push(named(object, state));
                }
                Ok(orphans)
            }
        }
    }

    /// A list may have missed something, so that nothing but a direct read decides that a ProviderConfig can go.
    async fn remove_config(
        &self,
        row: &ProvisionedResource,
        object: &OwnedObject,
    ) -> Result<OrphanState, Error> {
        let blueprint = self.ports.blueprint(row.blueprint_version_id()).await?;
        let mut target = target(row, &blueprint);
        target.provider_config = Some(object.reference.clone());
        let reading = self.read(target).await?;
        let xr_stands = matches!(reading.xr, XrReading::Present(_));
        let recorded = reading.recorded.values().any(|standing| *standing == Presence::Present);
        if xr_stands || recorded || !reading.labelled.is_empty() {
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
        tracing::warn!(resource = %row.id(), object = %target, "an orphan of a deleted resource is removed");
        self.audit(row).await?;
        let request = DeleteRequest::new(row.project_id(), target, &object.uid);
        match self.ports.cluster.write(|it| it.delete(&request)).await? {
            // Whatever took the name meanwhile is looked at when it is found.
            Deleted::Accepted | Deleted::Gone | Deleted::Replaced => Ok(OrphanState::Deleting),
            Deleted::Vetoed { message } => {
                let source =
                    PortError::rejected(format!("the deletion of {target} was vetoed: {message}"));
                Err(Error::Port { port: PortName::Cluster, source })
            }
        }
    }

    async fn audit(&self, row: &ProvisionedResource) -> Result<(), Error> {
        let correlation = CorrelationId::new(format!("orphan:{}", row.id()))?;
        let by = Attribution::new(Actor::system(), correlation);
        let entry = AuditEntry::new(AuditAction::SubstrateDelete, by)
            .in_project(row.project_id())
            .about(row.id())
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

/// What a direct read showed, as a list would have.
fn standing(
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
    if let (Some(live), Some(config)) = (&reading.provider_config, target.provider_config) {
        let uid = live.version().uid.clone();
        let object = OwnedObject::new(config, uid, OwnedRole::ProviderConfig);
        found.push(if live.is_being_deleted() { object.being_deleted() } else { object });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use broker_testkit::builders::{cluster, resource};

    use super::*;

    #[test]
    fn only_what_belongs_to_a_deleted_row_is_ours_to_remove() {
        let here = cluster(1);
        let deleted = resource().with_substrate().deleted().build();
        assert_eq!(deleted.substrate().cluster(), Some(&here), "a row remembers its cluster");
        let given_up = resource().with_substrate().given_up().build();
        let rows = [
            ("no row", None, &here, Mode::Live, Ownership::Left(OrphanState::Unknown)),
            (
                "given up",
                Some(&given_up),
                &here,
                Mode::Live,
                Ownership::Left(OrphanState::Abandoned),
            ),
            ("deleted", Some(&deleted), &here, Mode::Live, Ownership::Ours),
            (
                "a dry run",
                Some(&deleted),
                &here,
                Mode::DryRun,
                Ownership::Left(OrphanState::DryRun),
            ),
            (
                "other_cluster",
                Some(&deleted),
                &cluster(2),
                Mode::Live,
                Ownership::Left(OrphanState::OtherCluster),
            ),
        ];
        for (why, row, at, mode, expected) in rows {
            assert_eq!(ownership(row, at, mode), expected, "{why}");
        }
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted) {
            let row = resource().in_phase(phase).build();
            assert_eq!(ownership(Some(&row), &here, Mode::Live), Ownership::Wanted, "{phase}");
        }
    }
}
