//! Lists the broker's objects on the cluster and finds those that no visited row accounts for.
//!
//! A list needs a kind. Every sweep learns the kinds of living rows. The first sweep also reads all Deleted rows,
//! later ones only the rows that changed since. A kind is never forgotten while the process lives.

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
use broker_render::{ProviderProfiles, Xrd};

use super::memory::Visited;
use super::report::SweepReport;
use super::snapshot::SnapshotReader;
use crate::config::BrokerConfig;
use crate::deadline::TimedPorts;
use crate::error::Error;
use crate::sweep::orphans::Orphans;

/// The kinds to list, by the reference that each was resolved from.
#[derive(Default)]
pub(super) struct Kinds {
    xrds: BTreeMap<BlueprintVersionId, Arc<Xrd>>,
    provider_configs: BTreeMap<(ProjectId, CloudCredentialId), Arc<ConfigKind>>,
    /// The watermark of the last read of Deleted rows.
    deleted_until: Option<Watermark>,
}

/// The rows of a sweep, whose objects are accounted for, and their references.
#[derive(Default)]
pub(super) struct Swept {
    rows: Visited,
    blueprints: BTreeSet<BlueprintVersionId>,
    credentials: BTreeSet<(ProjectId, CloudCredentialId)>,
}

impl Swept {
    pub(super) fn visit(&mut self, row: &CompactRow) {
        self.rows.insert(row.id, ());
        self.blueprints.insert(row.blueprint_version_id);
        self.credentials.insert((row.project_id, row.cloud_credential_id));
    }

    /// Adds rows that an earlier sweep visited.
    pub(super) fn account_for(&mut self, rows: impl IntoIterator<Item = ProvisionedResourceId>) {
        for row in rows {
            self.rows.insert(row, ());
        }
    }

    fn learn(&mut self, row: &ProvisionedResource) {
        self.blueprints.insert(row.blueprint_version_id());
        self.credentials.insert((row.project_id(), row.cloud_credential_id()));
    }
}

impl Kinds {
    /// Lists the broker's objects and handles those that no row accounts for.
    ///
    /// A kind that cannot be listed, or an orphan that cannot be removed, becomes an error in the report and does not
    /// stop the others.
    pub(super) async fn scan(
        &mut self,
        ports: &TimedPorts,
        config: &BrokerConfig,
        cluster: &ClusterId,
        swept: &mut Swept,
        snapshots: &mut SnapshotReader<'_>,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        self.visit_settled_rows(ports, swept, report).await?;
        self.learn(&config.profiles, swept, snapshots).await;
        let mut unaccounted: BTreeMap<_, Vec<OwnedObject>> = BTreeMap::new();
        let accounted: ResourceIds = swept.rows.ids().collect();
        for (name, kinds) in self.each() {
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
                Err(error) => report.unlisted(name, &error),
            }
        }
        let orphans = Orphans::new(ports, config);
        for (id, objects) in unaccounted {
            match (orphans.found(id, objects, cluster).await, id) {
                (Ok(found), _) => report.orphans.extend(found),
                (Err(error), Some(id)) => report.record_error(id, &error),
                // An object without one of our names is only reported, so no step of it can fail.
                (Err(error), None) => return Err(error),
            }
        }
        Ok(())
    }

    /// Visits rows that no sweep page contains: failed resources that are retained, and Deleted ones.
    async fn visit_settled_rows(
        &mut self,
        ports: &TimedPorts,
        swept: &mut Swept,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        let failed = ListQuery::new(PageSize::MAX).in_phase(Phase::Failed);
        each_row(ports, failed, |row| match row {
            Ok(row) => {
                if swept.rows.insert(row.id(), ()) {
                    report.count_phase(row.phase());
                }
                swept.learn(row);
            }
            Err(UnreadableRow { id, error: source, .. }) => {
                swept.rows.insert(id, ());
                report.record_error(id, &Error::Port { port: PortName::Repository, source });
            }
        })
        .await?;
        let mut deleted = ListQuery::new(PageSize::MAX).in_phase(Phase::Deleted);
        if let Some(watermark) = self.deleted_until {
            deleted = deleted.updated_since(watermark);
        }
        // An unreadable Deleted row matters only if an object of its resource exists; then it is looked up by id.
        self.deleted_until = each_row(ports, deleted, |row| {
            if let Ok(row) = row {
                swept.learn(row);
            }
        })
        .await?;
        Ok(())
    }

    /// Resolves the kinds of the visited rows. A reference that fails to resolve is retried in the next sweep; its
    /// rows report that error.
    pub(super) async fn learn(
        &mut self,
        profiles: &ProviderProfiles,
        swept: &Swept,
        snapshots: &mut SnapshotReader<'_>,
    ) {
        for id in &swept.blueprints {
            if !self.xrds.contains_key(id)
                && let Ok(blueprint) = snapshots.blueprint(*id).await
            {
                self.xrds.insert(*id, Arc::clone(&blueprint.xrd));
            }
        }
        for (project, credential) in &swept.credentials {
            if !self.provider_configs.contains_key(&(*project, *credential))
                && let Ok(provider) = snapshots.provider(*project, *credential).await
            {
                let kind = self.shared(profiles.of(&provider).into());
                self.provider_configs.insert((*project, *credential), kind);
            }
        }
    }

    /// Rows of one kind share one value.
    fn shared(&self, kind: ConfigKind) -> Arc<ConfigKind> {
        let known = self.provider_configs.values().find(|known| ***known == kind);
        known.map_or_else(|| Arc::new(kind), Arc::clone)
    }

    /// The kind of a row's ProviderConfig; `None` until a sweep has resolved it.
    pub(super) fn config_of(&self, row: &CompactRow) -> Option<Arc<ConfigKind>> {
        self.provider_configs.get(&(row.project_id, row.cloud_credential_id)).cloned()
    }

    /// One list per kind: a forbidden kind does not hide the others.
    fn each(&self) -> BTreeMap<String, OwnedKinds> {
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
async fn each_row(
    ports: &TimedPorts,
    mut query: ListQuery,
    mut visit: impl FnMut(Result<&ProvisionedResource, UnreadableRow>),
) -> Result<Option<Watermark>, Error> {
    let mut until = None;
    loop {
        let page = ports.repository.read(|it| it.list(&query)).await?;
        page.resources.iter().map(Ok).for_each(&mut visit);
        page.unreadable.into_iter().map(Err).for_each(&mut visit);
        until.get_or_insert(page.watermark);
        match page.next {
            Some(next) => query = query.after(next),
            None => return Ok(until),
        }
    }
}
