//! Persist in memory: shared ProviderConfigs and their users.

use std::collections::BTreeSet;

use broker_domain::{Error, Phase, ProjectId, ProvisionedResource, ProvisionedResourceId};
use broker_ports::{Admitted, DeletionMark, SharedConfig, SharedConfigRef};

use super::state::State;

/// Project, API group, kind and name.
pub(super) type SharedConfigKey = (ProjectId, String, String, String);

pub(super) struct SharedConfigRow {
    config: SharedConfig,
    users: BTreeSet<ProvisionedResourceId>,
}

fn key(name: &SharedConfigRef) -> SharedConfigKey {
    let SharedConfigRef { project, object, .. } = name;
    (*project, name.group().to_owned(), object.kind().to_owned(), object.name().to_owned())
}

impl SharedConfigRow {
    fn read(&self) -> SharedConfig {
        let mut config = self.config.clone();
        config.in_use = !self.users.is_empty();
        config
    }
}

impl State {
    /// Refuses another credential than that of the users.
    pub(super) fn check_shared_config(&self, admitted: &Admitted) -> Result<(), Error> {
        let Some(name) = admitted.shared_config() else { return Ok(()) };
        let credential = admitted.change().resource().cloud_credential_id();
        match self.shared_configs.get(&key(name)) {
            Some(SharedConfigRow { config, users }) if config.credential != credential => {
                let held = |holder: &ProvisionedResourceId| Error::SharedConfigHeld {
                    name: name.object.name().to_owned(),
                    holder: *holder,
                };
                users.first().map_or(Ok(()), |holder| Err(held(holder)))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn use_shared_config(&mut self, admitted: &Admitted) {
        let Some(name) = admitted.shared_config() else { return };
        let resource = admitted.change().resource();
        let credential = resource.cloud_credential_id();
        let last_user = (resource.id(), resource.blueprint_version_id());
        let new = || SharedConfigRow {
            config: SharedConfig::new(name.clone(), credential, last_user),
            users: BTreeSet::new(),
        };
        let row = self.shared_configs.entry(key(name)).or_insert_with(new);
        row.config.name = name.clone();
        (row.config.credential, row.config.last_user) = (credential, last_user);
        row.config.abandoned = false;
        row.users.insert(resource.id());
    }

    /// Removes a Deleted user. The last one to leave sets the mark, unless it was abandoned.
    pub(super) fn leave_shared_config(&mut self, resource: &ProvisionedResource) {
        if resource.phase() != Phase::Deleted {
            return;
        }
        let used = self.shared_configs.values_mut().find(|row| row.users.contains(&resource.id()));
        let Some(row) = used else { return };
        row.users.remove(&resource.id());
        row.config.last_user = (resource.id(), resource.blueprint_version_id());
        if let Some(cluster) = resource.substrate().cluster() {
            row.config.cluster = Some(cluster.clone());
        }
        if row.users.is_empty() && row.config.deleting.is_none() {
            if resource.abandoned() {
                row.config.abandoned = true;
            } else {
                self.last_mark += 1;
                row.config.deleting = Some(DeletionMark::new(self.last_mark));
            }
        }
    }

    pub(super) fn shared_config(&self, user: ProvisionedResourceId) -> Option<SharedConfig> {
        let found = self.shared_configs.values().find(|row| row.users.contains(&user));
        found.map(SharedConfigRow::read)
    }

    pub(super) fn shared_configs_of(&self, names: &[SharedConfigRef]) -> Vec<SharedConfig> {
        let names: BTreeSet<_> = names.iter().map(key).collect();
        let found = self.shared_configs.iter();
        found
            .filter(|(key, row)| row.config.deleting.is_some() || names.contains(*key))
            .map(|(_, row)| row.read())
            .collect()
    }

    pub(super) fn mark_shared_config(
        &mut self,
        name: &SharedConfigRef,
        current: Option<DeletionMark>,
    ) -> Option<DeletionMark> {
        let row = self.shared_configs.get_mut(&key(name))?;
        let is_unused = row.users.is_empty() && !row.config.abandoned;
        if row.config.deleting != current || (current.is_none() && !is_unused) {
            return None;
        }
        self.last_mark += 1;
        row.config.deleting = Some(DeletionMark::new(self.last_mark));
        row.config.deleting
    }

    pub(super) fn clear_shared_config(&mut self, name: &SharedConfigRef, mark: DeletionMark) {
        if let Some(row) = self.shared_configs.get_mut(&key(name))
            && row.config.deleting == Some(mark)
        {
            row.config.deleting = None;
            row.config.cluster = None;
        }
    }
}
