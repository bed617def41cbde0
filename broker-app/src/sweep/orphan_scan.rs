//! Where objects of ours may stand, and which of them no row on the way accounted for.
//!
//! A list names kinds. Those of living rows are met in every sweep. Those of rows that are Deleted are learnt
//! from the store: all of them once, and from then on only what changed since. That a kind is known is never
//! forgotten while the process lives.

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

/// The kinds that objects of ours may be of, by what they follow from.
#[derive(Default)]
pub(super) struct Kinds {
    xrds: BTreeMap<BlueprintVersionId, Arc<Xrd>>,
    provider_configs: BTreeMap<(ProjectId, CloudCredentialId), Arc<ConfigKind>>,
    /// Up to when the store was asked for rows that are Deleted.
    deleted_until: Option<Watermark>,
}

/// What a sweep met on its way: whose objects are accounted for, and what they are made from.
#[derive(Default)]
pub(super) struct Swept {
    rows: Visited,
    blueprints: BTreeSet<BlueprintVersionId>,
    credentials: BTreeSet<(ProjectId, CloudCredentialId)>,
}

impl Swept {
    pub(super) fn saw(&mut self, row: &CompactRow) {
        self.rows.insert(row.id, ());
        self.blueprints.insert(row.blueprint_version_id);
        self.credentials.insert((row.project_id, row.cloud_credential_id));
    }

    /// Rows that a sweep before met.
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
    /// Lists what is ours and looks at everything that no row accounts for.
    ///
    /// A kind that cannot be listed, or an orphan that cannot be removed, is named in the report and does not
    /// stop the others.
    pub(super) async fn look(
        &mut self,
        ports: &TimedPorts,
        config: &BrokerConfig,
        cluster: &ClusterId,
        swept: &mut Swept,
        observations: &mut SnapshotReader<'_>,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        self.meet_those_at_rest(ports, swept, report).await?;
        self.learn(&config.profiles, swept, observations).await;
        let mut unaccounted: BTreeMap<_, Vec<OwnedObject>> = BTreeMap::new();
        let accounted: ResourceIds = swept.rows.ids().collect();
        for (name, kinds) in self.each() {
            match list(ports, OwnedQuery::new(kinds).except(accounted.clone())).await {
                Ok(objects) => {
                    // Whoever answers may name them all the same.
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
                (Err(error), Some(id)) => report.trouble(id, &error),
                // What has no name of ours is only named; nothing can fail about it.
                (Err(error), None) => return Err(error),
            }
        }
        Ok(())
    }

    /// Failed resources that are retained stand where they are, and no sweep meets them; nor does any meet
    /// what is Deleted.
    async fn meet_those_at_rest(
        &mut self,
        ports: &TimedPorts,
        swept: &mut Swept,
        report: &mut SweepReport,
    ) -> Result<(), Error> {
        let failed = ListQuery::new(PageSize::MAX).in_phase(Phase::Failed);
        each_row(ports, failed, |row| match row {
            Ok(row) => {
                if swept.rows.insert(row.id(), ()) {
                    report.at_rest(row.phase());
                }
                swept.learn(row);
            }
            Err(UnreadableRow { id, error: source, .. }) => {
                swept.rows.insert(id, ());
                report.trouble(id, &Error::Port { port: PortName::Repository, source });
            }
        })
        .await?;
        let mut deleted = ListQuery::new(PageSize::MAX).in_phase(Phase::Deleted);
        if let Some(watermark) = self.deleted_until {
            deleted = deleted.updated_since(watermark);
        }
        // Nobody has to read a row that is Deleted, unless something of its resource stands; then it is looked up.
        self.deleted_until = each_row(ports, deleted, |row| {
            if let Ok(row) = row {
                swept.learn(row);
            }
        })
        .await?;
        Ok(())
    }

    /// Learns the kinds of what was met. What cannot be resolved now is tried again in the next sweep; its rows
    /// are in trouble on their own account.
    pub(super) async fn learn(
        &mut self,
        profiles: &ProviderProfiles,
        swept: &Swept,
        observations: &mut SnapshotReader<'_>,
    ) {
        for id in &swept.blueprints {
            if !self.xrds.contains_key(id)
                && let Ok(blueprint) = observations.blueprint(*id).await
            {
                self.xrds.insert(*id, Arc::clone(&blueprint.xrd));
            }
        }
        for (project, credential) in &swept.credentials {
            if !self.provider_configs.contains_key(&(*project, *credential))
                && let Ok(provider) = observations.provider(*project, *credential).await
            {
                let kind = self.shared(profiles.of(&provider).into());
                self.provider_configs.insert((*project, *credential), kind);
            }
        }
    }

    /// One value for each kind, which all rows share.
    fn shared(&self, kind: ConfigKind) -> Arc<ConfigKind> {
        let known = self.provider_configs.values().find(|known| ***known == kind);
        known.map_or_else(|| Arc::new(kind), Arc::clone)
    }

    /// The kind of a row's ProviderConfig, once a sweep has learnt it.
    pub(super) fn config_of(&self, row: &CompactRow) -> Option<Arc<ConfigKind>> {
        self.provider_configs.get(&(row.project_id, row.cloud_credential_id)).cloned()
    }

    /// Each kind once, by its name: one that is forbidden does not hide the others.
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

/// Visits every row that a query finds, readable or not; answers the moment up to which nothing was missed.
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
