//! What a sweep looks at, a page at a time: the cluster's cache, the mesh, and what would be rendered now.
//!
//! Views are resolved once per id and sweep. What cannot be learnt about one row is that row's own trouble.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, NodeObservation, Parameters, Phase, ProjectId,
    ProvisionedResourceId, Version,
};
use broker_ports::{
    BlueprintVersionView, CachedXr, CompactRow, ObjectVersion, PortError, PortName,
    ReconcilerPorts, XrTarget,
};
use broker_render::{Armed, Digest, Identity};
use time::OffsetDateTime;

use super::attention::Glance;
use crate::call::{Kind, call};
use crate::config::ReconcilerConfig;
use crate::error::Error;
use crate::views::{References, Resolvers};

/// What a sweep saw of rows, by id.
pub(super) type Memory = BTreeMap<ProvisionedResourceId, Fingerprint>;

/// Enough of what was seen to know it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    version: Version,
    object: Option<ObjectVersion>,
    node: NodeObservation,
    namespace_ready: bool,
}

/// A row, and what was learnt about it.
pub(super) struct Looked<'a> {
    pub(super) row: &'a CompactRow,
    pub(super) glance: Result<Facts, Error>,
}

/// What was learnt about a row.
pub(super) struct Facts {
    pub(super) cached: CachedXr,
    version: Version,
    node: NodeObservation,
    desired: Option<Digest>,
    namespace_ready: bool,
}

/// Looks at pages of rows, and remembers what it resolved on the way.
pub(super) struct Observations<'a> {
    ports: &'a ReconcilerPorts,
    config: &'a ReconcilerConfig,
    resolvers: Resolvers<'a>,
    blueprints: BTreeMap<BlueprintVersionId, Arc<BlueprintVersionView>>,
    namespaces: BTreeMap<ProjectId, bool>,
}

impl Facts {
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let object = match &self.cached {
            CachedXr::Absent => None,
            CachedXr::Seen { version, .. } => Some(version.clone()),
        };
        Fingerprint {
            version: self.version,
            object,
            node: self.node,
            namespace_ready: self.namespace_ready,
        }
    }

    pub(super) fn as_seen_by<'a>(
        &'a self,
        row: &'a CompactRow,
        unchanged: bool,
        now: OffsetDateTime,
    ) -> Glance<'a> {
        Glance {
            row,
            cached: &self.cached,
            node: self.node,
            desired: self.desired,
            namespace_ready: self.namespace_ready,
            unchanged,
            now,
        }
    }
}

impl<'a> Observations<'a> {
    pub(super) fn new(ports: &'a ReconcilerPorts, config: &'a ReconcilerConfig) -> Self {
        let resolvers = Resolvers::of_reconciler(ports, config.deadlines.resolve);
        Self { ports, config, resolvers, blueprints: BTreeMap::new(), namespaces: BTreeMap::new() }
    }

    /// Looks at a page: one question to the cluster, one to the mesh.
    pub(super) async fn of_page<'r>(
        &mut self,
        rows: &'r [CompactRow],
    ) -> Result<Vec<Looked<'r>>, Error> {
        let mut troubles: BTreeMap<usize, Error> = BTreeMap::new();
        let mut targets = Vec::new();
        let mut blueprints = BTreeMap::new();
        for (place, row) in rows.iter().enumerate() {
            match self.blueprint(row.blueprint_version_id).await {
                Ok(blueprint) => {
                    targets.push((place, target(row, &blueprint)));
                    blueprints.insert(place, blueprint);
                }
                Err(error) => drop(troubles.insert(place, error)),
            }
        }
        let mut cached = self.cached(&targets).await?;
        let mut nodes = self.nodes(rows).await?;
        let mut looked = Vec::with_capacity(rows.len());
        for (place, row) in rows.iter().enumerate() {
            let glance =
                match (troubles.remove(&place), cached.remove(&place), blueprints.remove(&place)) {
                    (None, Some(cached), Some(blueprint)) => {
                        self.facts(row, blueprint, cached, nodes.remove(&place)).await
                    }
                    (Some(error), _, _) => Err(error),
                    (None, _, _) => Err(unanswered(PortName::Cluster)),
                };
            looked.push(Looked { row, glance });
        }
        Ok(looked)
    }

    async fn facts(
        &mut self,
        row: &CompactRow,
        blueprint: Arc<BlueprintVersionView>,
        cached: Result<CachedXr, PortError>,
        node: Option<Result<bool, PortError>>,
    ) -> Result<Facts, Error> {
        let cached = cached.map_err(|source| Error::Port { port: PortName::Cluster, source })?;
        let failed = |source| Error::Port { port: PortName::NodeDeregistrar, source };
        let node = NodeObservation::of(row.mesh_role, node.transpose().map_err(failed)?);
        let namespace_ready = match row.phase {
            Phase::Pending => self.namespace_ready(row.project_id).await?,
            Phase::Provisioning
            | Phase::Enrolling
            | Phase::Ready
            | Phase::Failed
            | Phase::Deregistering
            | Phase::Deprovisioning
            | Phase::Deleted => true,
        };
        let desired = match (&row.parameters, &cached) {
            (Some(parameters), CachedXr::Seen { .. }) => {
                Some(self.desired(row, parameters, blueprint).await?)
            }
            (None, _) | (_, CachedXr::Absent) => None,
        };
        Ok(Facts { cached, version: row.version, node, desired, namespace_ready })
    }

    /// The digest of what would be applied now, without the injection.
    async fn desired(
        &self,
        row: &CompactRow,
        parameters: &Parameters,
        blueprint: Arc<BlueprintVersionView>,
    ) -> Result<Digest, Error> {
        let references = References {
            project: row.project_id,
            resource: row.resource_id,
            credential: row.cloud_credential_id,
        };
        let views = self.resolvers.views(references, blueprint).await?;
        let identity = Identity {
            resource: row.id,
            project: row.project_id,
            blueprint_version: row.blueprint_version_id,
        };
        let armed = row.bootstrap_token_id.map_or(Armed::Standalone, Armed::Token);
        Ok(views.render(identity, row.mesh_role, parameters)?.armed(&armed).digest())
    }

    async fn blueprint(
        &mut self,
        id: BlueprintVersionId,
    ) -> Result<Arc<BlueprintVersionView>, Error> {
        if let Some(known) = self.blueprints.get(&id) {
            return Ok(Arc::clone(known));
        }
        let found = self.resolvers.blueprint(id).await?;
        self.blueprints.insert(id, Arc::clone(&found));
        Ok(found)
    }

    async fn namespace_ready(&mut self, project: ProjectId) -> Result<bool, Error> {
        if let Some(known) = self.namespaces.get(&project) {
            return Ok(*known);
        }
        let ready = self.resolvers.namespace_is_ready(project).await?;
        self.namespaces.insert(project, ready);
        Ok(ready)
    }

    async fn cached(
        &self,
        targets: &[(usize, XrTarget)],
    ) -> Result<BTreeMap<usize, Result<CachedXr, PortError>>, Error> {
        let asked: Vec<_> = targets.iter().map(|(_, target)| target.clone()).collect();
        let answers = self.ports.cluster.observe_many(&asked);
        let patience = self.config.deadlines.cluster_read;
        let answers = call(PortName::Cluster, Kind::Read, patience, answers).await?;
        Ok(targets.iter().map(|(place, _)| *place).zip(answers).collect())
    }

    async fn nodes(
        &self,
        rows: &[CompactRow],
    ) -> Result<BTreeMap<usize, Result<bool, PortError>>, Error> {
        let (places, tokens): (Vec<usize>, Vec<BootstrapTokenId>) = rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| Some((place, row.bootstrap_token_id?)))
            .unzip();
        let answers = self.ports.nodes.nodes_registered(&tokens);
        let patience = self.config.deadlines.node;
        let answers = call(PortName::NodeDeregistrar, Kind::Read, patience, answers).await?;
        Ok(places.into_iter().zip(answers).collect())
    }
}

fn target(row: &CompactRow, blueprint: &BlueprintVersionView) -> XrTarget {
    XrTarget { resource: row.id, project: row.project_id, xrd: Arc::clone(&blueprint.xrd) }
}

fn unanswered(port: PortName) -> Error {
    Error::Port { port, source: PortError::rejected("gave fewer answers than it was asked for") }
}
