//! The in-memory adapters, with what the suites ask of their worlds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, BootstrapTokenId, CloudCredentialId, CloudId, ProjectId,
    ProvisionedResourceId, ResourceId, TokenOrdinal,
};
use broker_memory::{
    BlueprintDocuments, ManualClock, MemoryMesh, MemoryNeighbours, MemoryTokens,
    RecordingEventSink, SequentialIds,
};
use broker_ports::{
    AssignmentReader, BlueprintResolver, BootstrapToken, Clock, CloudResolver, CloudView,
    CredentialResolver, CredentialView, EventSink, IdSource, Issue, IssueRequest, LabelTagResolver,
    LeaseEpoch, NamespaceObservation, NodeDeregistrar, NodeId, PeerCommander, PeerResolver,
    PortError, TokenIssuer, TokenReader,
};
use broker_render::Provider;
use broker_testkit::clock::{ClockUnderTest, IdSourceUnderTest};
use broker_testkit::event_sink::EventSinkUnderTest;
use broker_testkit::node_deregistrar::{MeshAgents, NodeDeregistrarUnderTest, SeamsUnderTest};
use broker_testkit::resolvers::{
    AssignmentReaderUnderTest, BlueprintResolverUnderTest, CloudResolverUnderTest,
    CredentialResolverUnderTest, LabelTagResolverUnderTest, RawBlueprint,
};
use broker_testkit::token_issuer::TokenIssuerUnderTest;
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

/// Issuer and mesh, with a clock of their own.
pub(super) struct MeshWorld {
    pub(super) clock: ManualClock,
    pub(super) ids: SequentialIds,
    pub(super) tokens: MemoryTokens,
    pub(super) mesh: MemoryMesh,
    deregistrar: MemoryMesh,
}

pub(super) fn start() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(1_790_000_000).unwrap()
}

pub(super) const TTL: Duration = Duration::from_hours(1);

impl MeshWorld {
    pub(super) fn fresh() -> Self {
        let clock = ManualClock::at(start());
        let tokens = MemoryTokens::seeded(1, Arc::new(clock.clone()));
        let mesh = MemoryMesh::of(&tokens);
        let deregistrar = mesh.deregistrar();
        Self { clock, ids: SequentialIds::seeded(2), tokens, mesh, deregistrar }
    }

    pub(super) fn request(&self, epoch: u64) -> IssueRequest {
        let resource = self.ids.provisioned_resource_id();
        IssueRequest::new(resource, TokenOrdinal::FIRST, LeaseEpoch::new(epoch), TTL)
    }

    /// A token of a resource of its own, with what an agent would be started with.
    pub(super) async fn token(&self) -> Result<(BootstrapTokenId, BootstrapToken), PortError> {
        match self.tokens.issue(&self.request(1)).await? {
            Issue::Issued(token) => Ok((token.id, token.plaintext)),
            Issue::Consumed { id } => Err(PortError::rejected(format!("{id} was consumed"))),
        }
    }

    pub(super) fn node(&self, token: BootstrapTokenId) -> Result<NodeId, PortError> {
        let consumer = self.mesh.consumer(token);
        Ok(consumer.ok_or_else(|| PortError::rejected("nobody consumed the token"))?.node)
    }
}

#[async_trait]
impl TokenIssuerUnderTest for MeshWorld {
    fn issuer(&self) -> &dyn TokenIssuer {
        &self.tokens
    }

    async fn resource(&self) -> Result<ProvisionedResourceId, PortError> {
        Ok(self.ids.provisioned_resource_id())
    }

    async fn consume(&self, plaintext: &BootstrapToken) -> Result<bool, PortError> {
        Ok(self.mesh.enrol(plaintext.secret().expose_secret()).is_ok())
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.clock.advance(by);
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.tokens.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl MeshAgents for MeshWorld {
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError> {
        Ok(self.token().await?.0)
    }

    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError> {
        let (id, plaintext) = self.token().await?;
        let enrolled = self.mesh.enrol(plaintext.secret().expose_secret());
        enrolled.map_err(|error| PortError::rejected("not let in").with_source(error))?;
        Ok(id)
    }

    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(self.mesh.join(self.node(token)?).is_ok())
    }

    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        self.mesh.leave(self.node(token)?);
        Ok(())
    }

    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(self.mesh.peer(self.node(token)?).is_some())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.mesh.set_reachable(false);
        Ok(())
    }
}

impl NodeDeregistrarUnderTest for MeshWorld {
    fn deregistrar(&self) -> &dyn NodeDeregistrar {
        &self.deregistrar
    }
}

impl SeamsUnderTest for MeshWorld {
    fn tokens(&self) -> &dyn TokenReader {
        &self.mesh
    }

    fn peers(&self) -> &dyn PeerResolver {
        &self.mesh
    }

    fn commander(&self) -> &dyn PeerCommander {
        &self.mesh
    }
}

#[async_trait]
impl ClockUnderTest for MeshWorld {
    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// A sink that remembers.
pub(super) struct SinkWorld(pub(super) RecordingEventSink);

#[async_trait]
impl EventSinkUnderTest for SinkWorld {
    fn sink(&self) -> &dyn EventSink {
        &self.0
    }

    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError> {
        Ok(self.0.deliveries_of(resource).into_iter().map(|envelope| envelope.json).collect())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.0.set_reachable(false);
        Ok(())
    }
}

/// Replicas, each with a seed of its own.
#[derive(Default)]
pub(super) struct ReplicaWorld(AtomicU32);

impl IdSourceUnderTest for ReplicaWorld {
    fn replica(&self) -> Arc<dyn IdSource> {
        Arc::new(SequentialIds::seeded(self.0.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The neighbours, and ids for what they know.
pub(super) struct Neighbourhood {
    pub(super) neighbours: MemoryNeighbours,
    ids: SequentialIds,
}

impl Neighbourhood {
    pub(super) fn fresh() -> Self {
        Self { neighbours: MemoryNeighbours::default(), ids: SequentialIds::seeded(3) }
    }

    pub(super) fn id<T: TryFrom<Uuid, Error = broker_domain::Error>>(&self) -> T {
        T::try_from(self.ids.uuid()).unwrap()
    }
}

#[async_trait]
impl BlueprintResolverUnderTest for Neighbourhood {
    fn resolver(&self) -> &dyn BlueprintResolver {
        &self.neighbours
    }

    async fn publish(&self, blueprint: &RawBlueprint) -> Result<BlueprintVersionId, PortError> {
        let id = self.id();
        let documents = BlueprintDocuments {
            xrd: blueprint.xrd.into(),
            composition: blueprint.composition.into(),
            parameter_schema: blueprint.parameter_schema.into(),
            injection_strategy: blueprint.injection_strategy,
            mesh_role: blueprint.mesh_role,
            composed_kinds: Vec::new(),
        };
        self.neighbours.publish(id, documents);
        Ok(id)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.neighbours.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl CloudResolverUnderTest for Neighbourhood {
    fn resolver(&self) -> &dyn CloudResolver {
        &self.neighbours
    }

    async fn add(&self, provider: &Provider, endpoint: &str) -> Result<CloudView, PortError> {
        let cloud = CloudView::new(self.id(), provider.clone(), endpoint);
        self.neighbours.add_cloud(cloud.clone());
        Ok(cloud)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.neighbours.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl CredentialResolverUnderTest for Neighbourhood {
    fn resolver(&self) -> &dyn CredentialResolver {
        &self.neighbours
    }

    async fn project(&self) -> Result<ProjectId, PortError> {
        Ok(self.id())
    }

    async fn add(&self, kv_mount: &str, kv_path: &str) -> Result<CredentialView, PortError> {
        let credential = CredentialView::new(self.id(), self.id::<CloudId>(), kv_mount, kv_path);
        self.neighbours.add_credential(credential.clone());
        Ok(credential)
    }

    async fn assign(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError> {
        self.neighbours.assign(project, id);
        Ok(())
    }

    async fn withdraw(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError> {
        self.neighbours.withdraw(project, id);
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.neighbours.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl AssignmentReaderUnderTest for Neighbourhood {
    fn reader(&self) -> &dyn AssignmentReader {
        &self.neighbours
    }

    async fn project(&self) -> Result<ProjectId, PortError> {
        Ok(self.id())
    }

    async fn place(
        &self,
        project: ProjectId,
        namespace: &NamespaceObservation,
    ) -> Result<(), PortError> {
        self.neighbours.place(project, namespace.clone());
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.neighbours.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl LabelTagResolverUnderTest for Neighbourhood {
    fn resolver(&self) -> &dyn LabelTagResolver {
        &self.neighbours
    }

    async fn resource(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<(ProjectId, ResourceId), PortError> {
        let (project, resource) = (self.id(), self.id());
        self.neighbours.add_resource(project, resource);
        for (key, value) in labels {
            self.neighbours.label(resource, key, value);
        }
        Ok((project, resource))
    }

    async fn keep(
        &self,
        resource: ResourceId,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), PortError> {
        for (key, value) in labels {
            self.neighbours.keep_label(resource, key, value);
        }
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.neighbours.set_reachable(false);
        Ok(())
    }
}
