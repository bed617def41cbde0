//! Reads a page of rows for a sweep: the watch cache, the mesh, and the digest of what a pass would render now.
//!
//! Each view is resolved once per sweep. A failure for one row is the error of that row only.

use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, CloudId, ClusterId, NodeObservation,
    Parameters, Phase, ProjectId, ResourceId, Version,
};
use broker_ports::{
    BlueprintVersionView, CachedXr, CloudView, CompactRow, ConfigPresence, CredentialView,
    NamespaceObservation, PortError, PortName, XrTarget,
};
use broker_render::{Armed, Digest, Identity, Provider};
use futures_util::future::join;
use time::OffsetDateTime;

use super::circuit_breaker::CircuitBreaker;
use super::losses::is_lost;
use super::orphan_scan::Kinds;
use super::triage::TriageInput;
use crate::deadline::TimedPorts;
use crate::declare::{Views, require_same_cluster};
use crate::error::Error;

type Labels = BTreeMap<String, String>;

/// A value or error that is resolved once per sweep and shared by rows.
type Resolved<T> = Result<T, Arc<Error>>;

/// Identifies a snapshot, so that the next sweep detects an unchanged row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint {
    version: Version,
    /// A hash of the object's version. A collision only delays a pass until the row is due.
    object: Option<u64>,
    node: NodeObservation,
    namespace_ready: bool,
    misses_config: bool,
}

pub(super) struct SweptRow<'a> {
    pub(super) row: &'a CompactRow,
    pub(super) snapshot: Resolved<RowSnapshot>,
}

pub(super) struct RowSnapshot {
    pub(super) cached: CachedXr,
    version: Version,
    node: NodeObservation,
    desired: Option<Digest>,
    namespace_ready: bool,
}

/// Reads snapshots, and caches the views that it resolved.
pub(super) struct SnapshotReader<'a> {
    ports: &'a TimedPorts,
    /// The cluster that a pass would apply to.
    cluster: Option<ClusterId>,
    breaker: CircuitBreaker,
    blueprints: BTreeMap<BlueprintVersionId, Resolved<Arc<BlueprintVersionView>>>,
    namespaces: BTreeMap<ProjectId, Resolved<bool>>,
    credentials: BTreeMap<(ProjectId, CloudCredentialId), Resolved<CredentialView>>,
    clouds: BTreeMap<CloudId, Resolved<CloudView>>,
}

impl RowSnapshot {
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let object = match &self.cached {
            CachedXr::Present { version, .. } => {
                let mut hasher = DefaultHasher::new();
                version.hash(&mut hasher);
                Some(hasher.finish())
            }
            CachedXr::Absent => None,
        };
        Fingerprint {
            version: self.version,
            object,
            node: self.node,
            namespace_ready: self.namespace_ready,
            misses_config: misses_config(&self.cached),
        }
    }

    /// Whether the Project's namespace takes objects; `true` if the snapshot did not have to check.
    pub(super) const fn namespace_ready(&self) -> bool {
        self.namespace_ready
    }

    pub(super) fn triage_input<'a>(
        &'a self,
        row: &'a CompactRow,
        unchanged: bool,
        now: OffsetDateTime,
    ) -> TriageInput<'a> {
        TriageInput {
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

impl<'a> SnapshotReader<'a> {
    pub(super) fn new(ports: &'a TimedPorts) -> Self {
        Self {
            ports,
            cluster: None,
            breaker: CircuitBreaker::default(),
            blueprints: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            credentials: BTreeMap::new(),
            clouds: BTreeMap::new(),
        }
    }

    /// Treats a namespace on another cluster as not ready, like a pass.
    pub(super) fn on_cluster(mut self, cluster: ClusterId) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Reads a page with one request each to the cluster, the mesh and the label resolver.
    pub(super) async fn of_page<'r>(
        &mut self,
        rows: &'r [CompactRow],
        kinds: &Kinds,
    ) -> Result<Vec<SweptRow<'r>>, Error> {
        let mut blueprints = Vec::with_capacity(rows.len());
        for row in rows {
            blueprints.push(self.blueprint(row.blueprint_version_id).await);
        }
        // The two requests are independent.
        let (cached, nodes) = join(self.cached(rows, &blueprints, kinds), self.nodes(rows)).await;
        let cached = cached?;
        let labels = self.labels(rows, &cached).await;
        let mut snapshots = Vec::with_capacity(rows.len());
        let columns = blueprints.into_iter().zip(cached).zip(nodes.into_iter().zip(labels));
        for (row, ((blueprint, cached), (node, labels))) in rows.iter().zip(columns) {
            let node = row.bootstrap_token_id.map(|_| {
                node.unwrap_or_else(|| Err(Arc::new(too_few_results(PortName::NodeDeregistrar))))
            });
            let snapshot = match (blueprint, cached) {
                (Ok(blueprint), Some(cached)) => {
                    self.snapshot(row, blueprint, cached, node, labels).await
                }
                (Err(error), _) => Err(error),
                (Ok(_), None) => Err(Arc::new(too_few_results(PortName::Cluster))),
            };
            snapshots.push(SweptRow { row, snapshot });
        }
        Ok(snapshots)
    }

    pub(super) async fn blueprint(
        &mut self,
        id: BlueprintVersionId,
    ) -> Resolved<Arc<BlueprintVersionView>> {
        if let Some(known) = self.blueprints.get(&id) {
            return known.clone();
        }
        let call = self.ports.blueprint(id);
        let found = self.call(PortName::BlueprintResolver, call).await;
        self.blueprints.insert(id, found.clone());
        found
    }

    /// The provider of the cloud that a credential belongs to.
    pub(super) async fn provider(
        &mut self,
        project: ProjectId,
        credential: CloudCredentialId,
    ) -> Resolved<Provider> {
        let credential = self.credential(project, credential).await?;
        Ok(self.cloud(credential.cloud_id).await?.provider)
    }

    async fn snapshot(
        &mut self,
        row: &CompactRow,
        blueprint: Arc<BlueprintVersionView>,
        cached: Result<CachedXr, PortError>,
        node: Option<Resolved<bool>>,
        labels: Option<Resolved<Labels>>,
    ) -> Resolved<RowSnapshot> {
        let cached = cached.map_err(|source| Error::Port { port: PortName::Cluster, source })?;
        let node = NodeObservation::of(row.mesh_role, node.transpose()?);
        let namespace_ready =
            if row.phase == Phase::Pending || is_lost(row, &cached) || misses_config(&cached) {
                self.namespace_ready(row.project_id).await?
            } else {
                true
            };
        let desired = match (parameters_to_render(row, &cached), labels) {
            (Some(parameters), Some(labels)) => {
                self.desired(row, parameters, blueprint, &labels?).await?
            }
            (Some(_), None) => return Err(Arc::new(too_few_results(PortName::LabelTagResolver))),
            (None, _) => None,
        };
        Ok(RowSnapshot { cached, version: row.version, node, desired, namespace_ready })
    }

    /// The digest of what a pass would apply now, without the injection; `None` for a Node without a token.
    async fn desired(
        &mut self,
        row: &CompactRow,
        parameters: &Parameters,
        blueprint: Arc<BlueprintVersionView>,
        labels: &Labels,
    ) -> Resolved<Option<Digest>> {
        let credential = self.credential(row.project_id, row.cloud_credential_id).await?;
        let cloud = self.cloud(credential.cloud_id).await?;
        let views = Views::new(blueprint, credential, cloud, labels);
        let identity = Identity {
            resource: row.id,
            project: row.project_id,
            blueprint_version: row.blueprint_version_id,
        };
        let rendered = views.render(identity, row.mesh_role, parameters)?;
        let armed = Armed::of(row.mesh_role, row.bootstrap_token_id);
        Ok(armed.map(|armed| rendered.armed(&armed).digest()))
    }

    /// The labels of the rows to render. If the batch request fails, each is requested alone: an unreadable
    /// Resource does not affect the others.
    async fn labels(
        &mut self,
        rows: &[CompactRow],
        cached: &[Option<Result<CachedXr, PortError>>],
    ) -> PerRow<Resolved<Labels>> {
        let (indices, resources): (Vec<usize>, Vec<(ProjectId, ResourceId)>) = rows
            .iter()
            .zip(cached)
            .enumerate()
            .filter_map(|(index, (row, cached))| {
                let cached = cached.as_ref()?.as_ref().ok()?;
                let resource = (row.project_id, row.resource_id);
                parameters_to_render(row, cached).map(|_| (index, resource))
            })
            .unzip();
        if resources.is_empty() {
            return per_row(rows, indices, Vec::new());
        }
        let port = PortName::LabelTagResolver;
        let many = self.ports.labels_of_many(&resources);
        let results: Vec<_> = match self.call(port, many).await {
            Ok(results) => results.into_iter().map(|result| result.map_err(Arc::new)).collect(),
            Err(error) => {
                tracing::warn!(%error, resources = resources.len(), "the batch label query failed; labels are resolved one by one");
                let mut results = Vec::with_capacity(resources.len());
                for (project, resource) in resources {
                    let one = self.ports.labels(project, resource);
                    results.push(self.call(port, one).await);
                }
                results
            }
        };
        per_row(rows, indices, results)
    }

    /// Whether the Project's namespace takes objects on this cluster. No pass creates anything for a Project on
    /// another cluster.
    async fn namespace_ready(&mut self, project: ProjectId) -> Resolved<bool> {
        if let Some(known) = self.namespaces.get(&project) {
            return known.clone();
        }
        let call = self.ports.assignment(project);
        let assignment = self.call(PortName::AssignmentReader, call).await;
        let is_on_this_cluster = |it: &NamespaceObservation| {
            self.cluster.as_ref().is_none_or(|here| require_same_cluster(project, it, here).is_ok())
        };
        let ready =
            assignment.map(|assignment| assignment.ready && is_on_this_cluster(&assignment));
        self.namespaces.insert(project, ready.clone());
        ready
    }

    async fn credential(
        &mut self,
        project: ProjectId,
        id: CloudCredentialId,
    ) -> Resolved<CredentialView> {
        if let Some(known) = self.credentials.get(&(project, id)) {
            return known.clone();
        }
        let call = self.ports.credential(project, id);
        let found = self.call(PortName::CredentialResolver, call).await;
        self.credentials.insert((project, id), found.clone());
        found
    }

    async fn cloud(&mut self, id: CloudId) -> Resolved<CloudView> {
        if let Some(known) = self.clouds.get(&id) {
            return known.clone();
        }
        let call = self.ports.cloud(id);
        let found = self.call(PortName::CloudResolver, call).await;
        self.clouds.insert(id, found.clone());
        found
    }

    async fn call<T>(
        &mut self,
        port: PortName,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Resolved<T> {
        if let Some(error) = self.breaker.failure_if_open(port) {
            return Err(error);
        }
        let result = call.await.map_err(Arc::new);
        self.breaker.record(port, &result);
        result
    }

    async fn cached(
        &self,
        rows: &[CompactRow],
        blueprints: &[Resolved<Arc<BlueprintVersionView>>],
        kinds: &Kinds,
    ) -> Result<PerRow<Result<CachedXr, PortError>>, Error> {
        let (indices, targets): (Vec<usize>, Vec<XrTarget>) = rows
            .iter()
            .zip(blueprints)
            .enumerate()
            .filter_map(|(index, (row, blueprint))| {
                let target = target(row, blueprint.as_ref().ok()?);
                // A ProviderConfig is certain to exist only once its composite resource is armed.
                let config = row.applied.as_ref().and_then(|_| kinds.config_of(row));
                Some((index, target.with_config(config)))
            })
            .unzip();
        let results = self.ports.cluster.read(|it| it.observe_many(&targets)).await?;
        Ok(per_row(rows, indices, results))
    }

    /// Whether Nodes are registered. If the mesh does not answer, only rows with a token get the error.
    async fn nodes(&self, rows: &[CompactRow]) -> PerRow<Resolved<bool>> {
        let (indices, tokens): (Vec<usize>, Vec<BootstrapTokenId>) = rows
            .iter()
            .enumerate()
            .filter_map(|(index, row)| Some((index, row.bootstrap_token_id?)))
            .unzip();
        if tokens.is_empty() {
            return per_row(rows, indices, Vec::new());
        }
        let port = PortName::NodeDeregistrar;
        let results = self.ports.nodes.read(|it| it.nodes_registered(&tokens)).await;
        match results {
            Ok(results) => {
                let convert =
                    |result: Result<bool, _>| result.map_err(|source| Error::Port { port, source });
                let results = results.into_iter().map(|result| convert(result).map_err(Arc::new));
                per_row(rows, indices, results.collect())
            }
            Err(error) => {
                let error = Arc::new(error);
                let results = indices.iter().map(|_| Err(Arc::clone(&error))).collect();
                per_row(rows, indices, results)
            }
        }
    }
}

/// One optional value per row of a page, in row order.
type PerRow<T> = Vec<Option<T>>;

/// Puts each result at the index of its row; the other rows get `None`.
fn per_row<T>(rows: &[CompactRow], indices: Vec<usize>, results: Vec<T>) -> PerRow<T> {
    let mut all: Vec<_> = rows.iter().map(|_| None).collect();
    for (index, result) in indices.into_iter().zip(results) {
        all[index] = Some(result);
    }
    all
}

/// The parameters of a row to render and compare; `None` if the composite resource is absent.
fn parameters_to_render<'r>(row: &'r CompactRow, cached: &CachedXr) -> Option<&'r Parameters> {
    match cached {
        CachedXr::Present { .. } => row.parameters.as_ref(),
        CachedXr::Absent => None,
    }
}

/// The cache shows the composite resource but not its ProviderConfig.
const fn misses_config(cached: &CachedXr) -> bool {
    matches!(cached, CachedXr::Present { config: ConfigPresence::Missing, .. })
}

fn target(row: &CompactRow, blueprint: &BlueprintVersionView) -> XrTarget {
    XrTarget::new(row.id, row.project_id, Arc::clone(&blueprint.xrd))
}

fn too_few_results(port: PortName) -> Error {
    Error::Port { port, source: PortError::rejected("it returned fewer results than requested") }
}
