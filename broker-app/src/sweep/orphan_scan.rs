//! Lists the broker's objects on the cluster and finds those that no visited row accounts for.
//!
//! A list needs a kind. Every sweep adds the kinds of the rows that it visits. The first sweep also reads all Deleted
//! rows, a later sweep those that changed since. The process never drops a kind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, ClusterId, Phase, ProjectId, ProvisionedResource,
    ProvisionedResourceId,
};
use broker_ports::{
    CompactRow, ConfigKind, ListQuery, OwnedKinds, OwnedObject, OwnedQuery, PageSize, PortName,
    ResourceIds, UnreadableRow, Watermark,
};
use broker_render::{ProviderConfigUse, ProviderProfiles, Xrd};

use super::report::SweepReport;
use super::snapshot::SnapshotReader;
use super::sorted_by_id::IdSet;
use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::error::Error;
use crate::sweep::orphans::Orphans;
use crate::sweep::shared_configs::{SharedConfigs, shared_config_of};

/// The kinds to list, by the reference that each was resolved from.
#[derive(Default)]
pub(super) struct Kinds {
    xrds: BTreeMap<BlueprintVersionId, Arc<Xrd>>,
    provider_configs: BTreeMap<(ProjectId, CloudCredentialId, BlueprintVersionId), Arc<ConfigKind>>,
    /// The watermark of the last read of Deleted rows.
    deleted_rows_read: Option<Watermark>,
}

/// The rows of a sweep, which account for their objects, and the references of these rows.
#[derive(Default)]
pub(super) struct VisitedRows {
    rows: IdSet,
    blueprints: BTreeSet<BlueprintVersionId>,
    credentials: BTreeSet<(ProjectId, CloudCredentialId, BlueprintVersionId)>,
}

impl VisitedRows {
    pub(super) fn visit(&mut self, row: &CompactRow) {
        self.rows.insert(row.id, ());
        self.blueprints.insert(row.blueprint_version_id);
        let blueprint = row.blueprint_version_id;
        self.credentials.insert((row.project_id, row.cloud_credential_id, blueprint));
    }

    /// Adds rows that an earlier sweep visited.
    pub(super) fn account_for(&mut self, rows: impl IntoIterator<Item = ProvisionedResourceId>) {
        for row in rows {
            self.rows.insert(row, ());
        }
    }

    fn learn(&mut self, row: &ProvisionedResource) {
        self.blueprints.insert(row.blueprint_version_id());
        let blueprint = row.blueprint_version_id();
        self.credentials.insert((row.project_id(), row.cloud_credential_id(), blueprint));
    }
}

impl Kinds {
    /// Lists the broker's objects and handles those that no row accounts for.
    ///
    /// If a kind cannot be listed or an orphan cannot be deleted, the report gets an error and the scan continues.
    pub(super) async fn scan(
        &mut self,
        ports: &TimedPorts,
        config: &BrokerConfig,
        cluster: &ClusterId,
        visited: &mut VisitedRows,
        snapshots: &mut SnapshotReader<'_>,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        self.visit_settled_rows(ports, visited, report).await?;
        self.learn(&config.profiles, visited, snapshots).await;
        let mut unaccounted: BTreeMap<_, Vec<OwnedObject>> = BTreeMap::new();
        let accounted: ResourceIds = visited.rows.ids().collect();
        for (name, kinds) in self.kinds_by_name() {
            match list(ports, OwnedQuery::new(kinds).except(accounted.clone())).await {
                Ok(objects) => {
                    // An adapter may ignore `except`.
                    let others = objects
                        .into_iter()
                        .filter(|object| object.resource.is_none_or(|id| !accounted.contains(&id)));
                    for object in others {
                        unaccounted.entry(object.resource).or_default().push(object);
                    }
                }
                Err(error) => report.record_unlisted(name, &error),
            }
        }
        Self::scan_shared(ports, config, &mut unaccounted, report).await?;
        let orphans = Orphans::new(ports, config);
        for (id, objects) in unaccounted {
            match (orphans.handle_unaccounted(id, objects, cluster).await, id) {
                (Ok(found), _) => report.orphans.extend(found),
                (Err(error), Some(id)) => report.record_error(id, &error),
                // Unreachable: an object without a resource id is only reported, which cannot fail.
                (Err(error), None) => return Err(error),
            }
        }
        Ok(())
    }

    /// Handles the shared ProviderConfigs among the objects without a resource.
    async fn scan_shared(
        ports: &TimedPorts,
        config: &BrokerConfig,
        unaccounted: &mut BTreeMap<Option<ProvisionedResourceId>, Vec<OwnedObject>>,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        let (mut listed, mut others) = (Vec::new(), Vec::new());
        for object in unaccounted.remove(&None).unwrap_or_default() {
            match shared_config_of(&object) {
                Some(name) => listed.push((name, object)),
                None => others.push(object),
            }
        }
        if !others.is_empty() {
            unaccounted.insert(None, others);
        }
        let found = SharedConfigs::new(ports, config).scan(listed).await?;
        report.orphans.extend(found.orphans);
        for (user, error) in found.errors {
            report.record_error(user, &error);
        }
        Ok(())
    }

    /// Visits rows that no sweep page contains: failed resources that are retained, and Deleted ones.
    async fn visit_settled_rows(
        &mut self,
        ports: &TimedPorts,
        visited: &mut VisitedRows,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        let failed = ListQuery::new(PageSize::MAX).in_phase(Phase::Failed);
        visit_rows(ports, failed, |row| match row {
            Ok(row) => {
                if visited.rows.insert(row.id(), ()) {
                    report.count_phase(row.phase());
                }
                visited.learn(row);
            }
            Err(UnreadableRow { id, error: source, .. }) => {
                visited.rows.insert(id, ());
                report.record_error(id, &Error::Port { port: PortName::Repository, source });
            }
        })
        .await?;
        let mut deleted = ListQuery::new(PageSize::MAX).in_phase(Phase::Deleted);
        if let Some(watermark) = self.deleted_rows_read {
            deleted = deleted.updated_since(watermark);
        }
        // An unreadable Deleted row matters only if an object of its resource exists; then it is looked up by id.
        self.deleted_rows_read = visit_rows(ports, deleted, |row| {
            if let Ok(row) = row {
                visited.learn(row);
            }
        })
        .await?;
        Ok(())
    }

    /// Resolves the kinds of the visited rows. The next sweep retries a reference that could not be resolved. The rows
    /// report that error.
    pub(super) async fn learn(
        &mut self,
        profiles: &ProviderProfiles,
        visited: &VisitedRows,
        snapshots: &mut SnapshotReader<'_>,
    ) {
        for id in &visited.blueprints {
            if !self.xrds.contains_key(id)
                && let Ok(blueprint) = snapshots.blueprint(*id).await
            {
                self.xrds.insert(*id, Arc::clone(&blueprint.xrd));
            }
        }
        for (project, credential, blueprint) in &visited.credentials {
            let key = (*project, *credential, *blueprint);
            if self.provider_configs.contains_key(&key) {
                continue;
            }
            let Ok(view) = snapshots.blueprint(*blueprint).await else { continue };
            let shared = match &view.provider_config {
                ProviderConfigUse::PerResource => None,
                ProviderConfigUse::Shared(name) => Some(name.clone()),
                ProviderConfigUse::Platform => continue,
            };
            if let Ok(provider) = snapshots.provider(*project, *credential).await {
                let kind = ConfigKind::from(profiles.of(&provider)).shared_as(shared);
                let kind = self.shared_kind(kind);
                self.provider_configs.insert(key, kind);
            }
        }
    }

    /// Returns the stored value of a kind, so that rows share it.
    fn shared_kind(&self, kind: ConfigKind) -> Arc<ConfigKind> {
        let known = self.provider_configs.values().find(|known| ***known == kind);
        known.map_or_else(|| Arc::new(kind), Arc::clone)
    }

    /// The kind of a row's ProviderConfig; `None` until a sweep has resolved it, or if the platform owns it.
    pub(super) fn config_of(&self, row: &CompactRow) -> Option<Arc<ConfigKind>> {
        let key = (row.project_id, row.cloud_credential_id, row.blueprint_version_id);
        self.provider_configs.get(&key).cloned()
    }

    /// One query per kind, so that a forbidden kind does not hide the others.
    fn kinds_by_name(&self) -> BTreeMap<String, OwnedKinds> {
        let name = |api_version: &str, kind: &str| format!("{kind} ({api_version})");
        let xrds = self.xrds.values().map(|xrd| {
            let kinds = OwnedKinds::new(vec![Arc::clone(xrd)], Vec::new());
            (name(&xrd.api_version(), xrd.kind()), kinds)
        });
        let configs = self.provider_configs.values().map(|config| {
            let ConfigKind { api_version, kind, .. } = &**config;
            let kinds = OwnedKinds::new(Vec::new(), vec![(api_version.clone(), kind.clone())]);
            (name(api_version, kind), kinds)
        });
        xrds.chain(configs).collect()
    }
}

async fn list(ports: &TimedPorts, mut query: OwnedQuery) -> Result<Vec<OwnedObject>, Error> {
    let mut objects = Vec::new();
    loop {
        let page = ports.cluster.read(|it| it.list_owned(&query)).await?;
        objects.extend(page.objects);
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(objects),
        }
    }
}

/// Visits each row of a query, readable or not. Returns the watermark of its first page.
async fn visit_rows(
    ports: &TimedPorts,
    mut query: ListQuery,
    mut visit: impl FnMut(Result<&ProvisionedResource, UnreadableRow>),
) -> Result<Option<Watermark>, Error> {
    let mut watermark = None;
    loop {
        let page = ports.repository.read(|it| it.list(&query)).await?;
        page.resources.iter().map(Ok).for_each(&mut visit);
        page.unreadable.into_iter().map(Err).for_each(&mut visit);
        watermark.get_or_insert(page.watermark);
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(watermark),
        }
    }
}
