//! The in-memory adapters as the worlds of the suites.

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
    BlueprintDocuments, ManualClock, MemoryMesh, MemoryPlatformContexts, MemoryTokens,
    RecordingEventSink, SequentialIds,
};
use broker_ports::{
    ApprovalState, AssignmentReader, BlueprintResolver, BlueprintState, BootstrapToken, Clock,
    CloudResolver, CloudView, CredentialResolver, CredentialState, CredentialView, EventSink,
    IdSource, Issue, IssueRequest, LeaseEpoch, NamespaceObservation, NodeDeregistrar, NodeId,
    PeerCommander, PeerResolver, PortError, ResourceReader, ResourceView, TokenIssuer, TokenReader,
};
use broker_render::{Provider, ProviderConfigUse};
use broker_testkit::clock::{ClockUnderTest, IdSourceUnderTest};
use broker_testkit::event_sink::EventSinkUnderTest;
use broker_testkit::node_deregistrar::{MeshAgents, NodeDeregistrarUnderTest, SeamsUnderTest};
use broker_testkit::resolvers::{
    AssignmentReaderUnderTest, BlueprintResolverUnderTest, CloudResolverUnderTest,
    CredentialResolverUnderTest, RawBlueprint, ResourceReaderUnderTest,
};
use broker_testkit::token_issuer::TokenIssuerUnderTest;
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

type HookResult<T> = Result<T, PortError>;

/// One adapter of each kind.
pub(super) struct World {
    clock: ManualClock,
    ids: SequentialIds,
    tokens: MemoryTokens,
    mesh: MemoryMesh,
    sink: RecordingEventSink,
    contexts: MemoryPlatformContexts,
    replicas: AtomicU32,
}

impl World {
    pub(super) fn fresh() -> Self {
        let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
        let tokens = MemoryTokens::seeded(1, Arc::new(clock.clone()));
        Self {
            clock,
            ids: SequentialIds::seeded(2),
            mesh: MemoryMesh::of(&tokens),
            tokens,
            sink: RecordingEventSink::default(),
            contexts: MemoryPlatformContexts::default(),
            replicas: AtomicU32::new(0),
        }
    }

    fn id<T: TryFrom<Uuid, Error = broker_domain::Error>>(&self) -> T {
        T::try_from(self.ids.uuid()).unwrap()
    }

    /// A token of a new resource, with its plaintext.
    async fn issue_token(&self) -> HookResult<(BootstrapTokenId, BootstrapToken)> {
        let (epoch, ttl) = (LeaseEpoch::new(1), Duration::from_hours(1));
        let request = IssueRequest::new(self.id(), TokenOrdinal::FIRST, epoch, ttl);
        match self.tokens.issue(&request).await? {
            Issue::Issued(token) => Ok((token.id, token.plaintext)),
            Issue::Consumed { id } => Err(PortError::rejected(format!("{id} was consumed"))),
        }
    }

    fn node(&self, token: BootstrapTokenId) -> HookResult<NodeId> {
        let consumer = self.mesh.consumer(token);
        Ok(consumer.ok_or_else(|| PortError::rejected("the token was not consumed"))?.node)
    }
}

#[async_trait]
impl TokenIssuerUnderTest for World {
    fn issuer(&self) -> &dyn TokenIssuer {
        &self.tokens
    }

    async fn resource(&self) -> HookResult<ProvisionedResourceId> {
        Ok(self.id())
    }

    async fn consume(&self, plaintext: &BootstrapToken) -> HookResult<bool> {
        Ok(self.mesh.enrol(plaintext.secret().expose_secret()).is_ok())
    }

    async fn advance(&self, by: Duration) -> HookResult<()> {
        self.clock.advance(by);
        Ok(())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.tokens.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl MeshAgents for World {
    async fn issued_token(&self) -> HookResult<BootstrapTokenId> {
        Ok(self.issue_token().await?.0)
    }

    async fn enrolled_token(&self) -> HookResult<BootstrapTokenId> {
        let (id, plaintext) = self.issue_token().await?;
        self.mesh.enrol(plaintext.secret().expose_secret()).unwrap();
        Ok(id)
    }

    async fn join(&self, token: BootstrapTokenId) -> HookResult<bool> {
        Ok(self.mesh.join(self.node(token)?).is_ok())
    }

    async fn leave(&self, token: BootstrapTokenId) -> HookResult<()> {
        self.mesh.leave(self.node(token)?);
        Ok(())
    }

    async fn has_peer(&self, token: BootstrapTokenId) -> HookResult<bool> {
        Ok(self.mesh.peer(self.node(token)?).is_some())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.mesh.set_reachable(false);
        Ok(())
    }
}

impl NodeDeregistrarUnderTest for World {
    fn deregistrar(&self) -> &dyn NodeDeregistrar {
        &self.mesh
    }
}

impl SeamsUnderTest for World {
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
impl ClockUnderTest for World {
    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

#[async_trait]
impl EventSinkUnderTest for World {
    fn sink(&self) -> &dyn EventSink {
        &self.sink
    }

    async fn received(&self, resource: ProvisionedResourceId) -> HookResult<Vec<Vec<u8>>> {
        Ok(self.sink.deliveries_of(resource).into_iter().map(|envelope| envelope.json).collect())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.sink.set_reachable(false);
        Ok(())
    }
}

impl IdSourceUnderTest for World {
    fn replica(&self) -> Arc<dyn IdSource> {
        Arc::new(SequentialIds::seeded(self.replicas.fetch_add(1, Ordering::Relaxed)))
    }
}

#[async_trait]
impl BlueprintResolverUnderTest for World {
    fn resolver(&self) -> &dyn BlueprintResolver {
        &self.contexts
    }

    async fn publish(&self, blueprint: &RawBlueprint) -> HookResult<BlueprintVersionId> {
        let id = self.id();
        let documents = BlueprintDocuments {
            xrd: blueprint.xrd.into(),
            composition: blueprint.composition.into(),
            parameter_schema: blueprint.parameter_schema.into(),
            injection_strategy: blueprint.injection_strategy,
            mesh_role: blueprint.mesh_role,
            composed_kinds: Vec::new(),
            provider_config: ProviderConfigUse::parse(blueprint.provider_config)?,
        };
        self.contexts.publish(id, documents);
        Ok(id)
    }

    async fn set_state(&self, id: BlueprintVersionId, state: BlueprintState) -> HookResult<()> {
        self.contexts.set_blueprint_state(id, state);
        Ok(())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.contexts.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl CloudResolverUnderTest for World {
    fn resolver(&self) -> &dyn CloudResolver {
        &self.contexts
    }

    async fn add(&self, provider: &Provider, endpoint: &str) -> HookResult<CloudView> {
        let cloud = CloudView::new(self.id(), provider.clone(), endpoint);
        self.contexts.add_cloud(cloud.clone());
        Ok(cloud)
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.contexts.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl CredentialResolverUnderTest for World {
    fn resolver(&self) -> &dyn CredentialResolver {
        &self.contexts
    }

    async fn project(&self) -> HookResult<ProjectId> {
        Ok(self.id())
    }

    async fn add(&self, kv_mount: &str, kv_path: &str) -> HookResult<CredentialView> {
        let credential = CredentialView::new(self.id(), self.id::<CloudId>(), kv_mount, kv_path);
        self.contexts.add_credential(credential.clone());
        Ok(credential)
    }

    async fn assign(&self, project: ProjectId, id: CloudCredentialId) -> HookResult<()> {
        self.contexts.assign(project, id);
        Ok(())
    }

    async fn set_states(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
        (state, approval): (CredentialState, ApprovalState),
    ) -> HookResult<()> {
        self.contexts.set_credential_state(id, state);
        self.contexts.set_approval(project, id, approval);
        Ok(())
    }

    async fn withdraw(&self, project: ProjectId, id: CloudCredentialId) -> HookResult<()> {
        self.contexts.withdraw(project, id);
        Ok(())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.contexts.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl AssignmentReaderUnderTest for World {
    fn reader(&self) -> &dyn AssignmentReader {
        &self.contexts
    }

    async fn project(&self) -> HookResult<ProjectId> {
        Ok(self.id())
    }

    async fn place(&self, project: ProjectId, namespace: &NamespaceObservation) -> HookResult<()> {
        self.contexts.place(project, namespace.clone());
        Ok(())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.contexts.set_reachable(false);
        Ok(())
    }
}

#[async_trait]
impl ResourceReaderUnderTest for World {
    fn reader(&self) -> &dyn ResourceReader {
        &self.contexts
    }

    async fn resource(&self, view: &ResourceView) -> HookResult<(ProjectId, ResourceId)> {
        let (project, resource) = (self.id(), self.id());
        self.contexts.add_resource(project, resource, view.handle.clone());
        for (key, value) in &view.labels {
            self.contexts.label(resource, key, value);
        }
        Ok((project, resource))
    }

    async fn add_local_labels(
        &self,
        resource: ResourceId,
        labels: &BTreeMap<String, String>,
    ) -> HookResult<()> {
        for (key, value) in labels {
            self.contexts.add_local_label(resource, key, value);
        }
        Ok(())
    }

    async fn cut_off(&self) -> HookResult<()> {
        self.contexts.set_reachable(false);
        Ok(())
    }
}
