//! Shared ProviderConfigs without users: removes them under their mark.
//!
//! The store orders the users: the last one to leave sets the mark, and new users wait while it is set. [`Removal`] decides the
//! order of the requests: a deletion that arrives late affects no object of a new user.
//!
//! The pass of the last user, passes of waiting users and every sweep do this. No lease is needed, as for other orphans.

use std::collections::BTreeMap;

use broker_domain::{ClusterId, ObjectReference, ProvisionedResource, ProvisionedResourceId};
use broker_ports::{
    Actor, Attribution, AuditAction, AuditEntry, CorrelationId, DeleteRequest, Deleted, LiveObject,
    ObjectOwner, OwnedObject, OwnedRole, PortError, PortName, Refusal, SharedConfig,
    SharedConfigRef, Target, XrTarget,
};
use broker_render::project_of;

use super::orphans::{Orphan, OrphanState};
use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::decide::{Deleting, Mode, Removal, RemovalStep};
use crate::error::Error;

/// The largest number of names in one query.
const BATCH: usize = 1_000;

/// Project, API group, kind and name.
type Key = (broker_domain::ProjectId, String, String, String);

pub(crate) struct SharedConfigs<'a> {
    ports: &'a TimedPorts,
    config: &'a BrokerConfig,
}

/// What a sweep found out about shared ProviderConfigs.
#[derive(Default)]
pub(crate) struct SharedConfigScan {
    pub(crate) orphans: Vec<Orphan>,
    pub(crate) errors: Vec<(ProvisionedResourceId, Error)>,
}

impl<'a> SharedConfigs<'a> {
    pub(crate) const fn new(ports: &'a TimedPorts, config: &'a BrokerConfig) -> Self {
        Self { ports, config }
    }

    /// Removes the ProviderConfig that a Deleted resource used, if it was the last user.
    pub(crate) async fn after_user(&self, user: &ProvisionedResource) -> Result<(), Error> {
        let shared = user.substrate().provider_config();
        let Some(object) = shared.filter(|_| user.own_provider_config().is_none()) else {
            return Ok(());
        };
        let name = SharedConfigRef::new(user.project_id(), object.clone());
        if let Some(config) = self.read(&name).await? {
            self.remove(&config).await?;
        }
        Ok(())
    }

    /// Removes a marked ProviderConfig as far as possible now. Returns `None` without a mark, or once it is cleared.
    pub(crate) async fn remove(&self, config: &SharedConfig) -> Result<Option<OrphanState>, Error> {
        let (name, Some(mark)) = (&config.name, config.deleting) else { return Ok(None) };
        if self.config.mode == Mode::DryRun {
            return Ok(Some(OrphanState::DryRun));
        }
        let (user, blueprint) = config.last_user;
        let blueprint = self.ports.blueprint(blueprint).await?;
        let xr = XrTarget::new(user, name.project, blueprint.xrd.clone());
        let target = Target::new(xr, name.object.clone());
        let mut removal = Removal::new(mark);
        loop {
            removal = match removal.next() {
                RemovalStep::ReadObject => {
                    let reading = self.ports.cluster.read(|it| it.read(&target)).await?;
                    if is_elsewhere(config, &reading.cluster) {
                        return Ok(Some(OrphanState::OtherCluster));
                    }
                    removal.with_object(reading.provider_config.as_ref().map(uid_and_deletion))
                }
                RemovalStep::RenewMark(mark) => {
                    let repository = &self.ports.repository;
                    let renewed =
                        repository.write(|it| it.mark_shared_config(name, Some(mark))).await?;
                    removal.with_mark(renewed)
                }
                RemovalStep::Delete(uid) => {
                    self.delete(config, &uid).await?;
                    removal.with_deletion()
                }
                RemovalStep::Clear(mark) => {
                    let repository = &self.ports.repository;
                    repository.write(|it| it.clear_shared_config(name, mark)).await?;
                    return Ok(None);
                }
                RemovalStep::End => return Ok(Some(OrphanState::Deleting)),
            };
        }
    }

    /// Removes every marked ProviderConfig, and listed ones without users. Reports those that only an operator may remove.
    pub(crate) async fn scan(
        &self,
        listed: Vec<(SharedConfigRef, OwnedObject)>,
    ) -> Result<SharedConfigScan, Error> {
        let names: Vec<_> = listed.iter().map(|(name, _)| name.clone()).collect();
        let mut known = BTreeMap::new();
        // Without names, the query returns the marked ones.
        for batch in std::iter::once(&names[..0]).chain(names.chunks(BATCH)) {
            let configs = self.ports.repository.read(|it| it.shared_configs(batch)).await?;
            known.extend(configs.into_iter().map(|config| (key(&config.name), config)));
        }
        let mut scan = SharedConfigScan::default();
        let mut states = BTreeMap::new();
        for (key, config) in &known {
            let state = match config.deleting {
                Some(_) => self.remove(config).await,
                None => Ok(None),
            };
            match state {
                Ok(state) => drop(states.insert(key.clone(), state)),
                Err(error) => scan.errors.push((config.last_user.0, error)),
            }
        }
        for (name, object) in listed {
            let state = match known.get(&key(&name)) {
                None => Ok(Some(OrphanState::Unknown)),
                Some(config) if config.deleting.is_some() => {
                    Ok(states.get(&key(&name)).copied().flatten())
                }
                Some(config) if config.in_use => Ok(None),
                Some(config) if config.abandoned => Ok(Some(OrphanState::Abandoned)),
                Some(config) => self.remove_unused(config).await.map_err(|it| (config, it)),
            };
            match state {
                Ok(Some(state)) => {
                    let reference = object.reference;
                    scan.orphans.push(Orphan { reference, resource: None, state });
                }
                Ok(None) => {}
                Err((config, error)) => scan.errors.push((config.last_user.0, error)),
            }
        }
        Ok(scan)
    }

    /// A late request created the object after the last user had left: sets the mark again.
    async fn remove_unused(&self, config: &SharedConfig) -> Result<Option<OrphanState>, Error> {
        if self.config.mode == Mode::DryRun {
            return Ok(Some(OrphanState::DryRun));
        }
        let repository = &self.ports.repository;
        let mark = repository.write(|it| it.mark_shared_config(&config.name, None)).await?;
        let Some(mark) = mark else { return Ok(None) };
        let mut marked = config.clone();
        marked.deleting = Some(mark);
        Ok(self.remove(&marked).await?.or(Some(OrphanState::Deleting)))
    }

    async fn delete(&self, config: &SharedConfig, uid: &str) -> Result<(), Error> {
        let (SharedConfigRef { project, object, .. }, (user, _)) = (&config.name, config.last_user);
        tracing::info!(%object, "removing a shared ProviderConfig without users");
        let correlation = CorrelationId::new(format!("shared-config:{user}:{uid}"))?;
        let by = Attribution::new(Actor::system(), correlation);
        let entry = AuditEntry::new(AuditAction::SubstrateDelete, by);
        let entry = entry.in_project(*project).for_resource(user);
        self.ports.audit.write(|it| it.record(&entry)).await?;
        let request = DeleteRequest::new(*project, object, uid).owned_by(ObjectOwner::Project);
        match self.ports.cluster.write(|it| it.delete(&request)).await? {
            // `Replaced`: a late request created another object, which the next turn removes.
            Deleted::Accepted | Deleted::Gone | Deleted::Replaced => Ok(()),
            Deleted::Vetoed { message } => {
                let source =
                    PortError::rejected(format!("the deletion of {object} was vetoed: {message}"))
                        .with_refusal(Refusal::Vetoed);
                Err(Error::Port { port: PortName::Cluster, source })
            }
        }
    }

    async fn read(&self, name: &SharedConfigRef) -> Result<Option<SharedConfig>, Error> {
        let names = std::slice::from_ref(name);
        let found = self.ports.repository.read(|it| it.shared_configs(names)).await?;
        Ok(found.into_iter().find(|config| key(&config.name) == key(name)))
    }
}

/// The shared ProviderConfig that a listed object may be; `None` for an object of one resource.
pub(super) fn shared_config_of(object: &OwnedObject) -> Option<SharedConfigRef> {
    let is_shared = object.role == OwnedRole::ProviderConfig && object.resource.is_none();
    let project = project_of(object.reference.namespace()?).filter(|_| is_shared)?;
    Some(SharedConfigRef::new(project, object.reference.clone()))
}

/// Absence on another cluster than that of the users proves nothing.
fn is_elsewhere(config: &SharedConfig, here: &ClusterId) -> bool {
    config.cluster.as_ref().is_some_and(|own| own != here)
}

fn uid_and_deletion(live: &LiveObject) -> (&str, Deleting) {
    let deleting = if live.is_being_deleted() { Deleting::Yes } else { Deleting::No };
    (&live.version().uid, deleting)
}

fn key(name: &SharedConfigRef) -> Key {
    let object: &ObjectReference = &name.object;
    let text = |text: &str| text.to_owned();
    (name.project, text(name.group()), text(object.kind()), text(object.name()))
}
