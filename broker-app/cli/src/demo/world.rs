//! The composition root of the demo: the real service, reconciler and sweep over in-memory adapters.
//!
//! Only [`World::advance`] changes the time, so a seed gives the same run on every machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use broker_app::explain::Explanation;
use broker_app::{BrokerConfig, Error, Reconciler, Service, Sweeper};
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, ClusterId, Declaration, Error as DomainError,
    ProjectId, ProvisionedResource, ProvisionedResourceId, ResourceId,
};
use broker_embed::{Broker, Parts};
use broker_memory::{
    KindScope, ManualClock, MemoryAdapters, MemoryCluster, MemoryMesh, MemoryPlatformContexts,
    MemoryStore, SequentialIds,
};
use broker_ports::{
    AccessScope, Actor, Clock, CloudView, CorrelationId, CredentialView, NamespaceObservation,
    RequestContext, WorkerId,
};
use broker_render::{ApiUrl, Provider, Xrd, namespace};
use time::OffsetDateTime;

use super::catalog::{Blueprint, COMPOSED};
use super::scenario::{PlannedResource, Scenario};

pub(super) struct World {
    pub(super) store: MemoryStore,
    pub(super) cluster: MemoryCluster,
    pub(super) mesh: MemoryMesh,
    pub(super) service: Service,
    pub(super) reconciler: Reconciler,
    pub(super) sweeper: Sweeper,
    clock: ManualClock,
    started: OffsetDateTime,
    ids: SequentialIds,
    platform: MemoryPlatformContexts,
    operator: RequestContext,
    sample_ids: SampleIds,
}

/// The ids that declarations refer to.
struct SampleIds {
    /// The Project with a namespace from the beginning.
    atlas: ProjectId,
    /// The Project whose namespace becomes ready later.
    borealis: ProjectId,
    credential: CloudCredentialId,
    blueprints: BTreeMap<Blueprint, BlueprintVersionId>,
}

/// The name of the Project whose namespace becomes ready later.
pub(super) const LATE_PROJECT: &str = "borealis";

/// A fixed time in September 2026, so that runs are repeatable.
const START: Duration = Duration::from_secs(1_790_000_000);

impl World {
    /// A world with two Projects, one cloud and three blueprints. Its ids and tokens come from the seed.
    pub(super) fn new(seed: u32) -> Result<Self, DomainError> {
        let started = OffsetDateTime::UNIX_EPOCH + START;
        let adapters = MemoryAdapters::new(seed, started, ClusterId::new("demo")?);
        let parts = Broker::configured(config()?).ports(adapters.ports()).parts();
        let MemoryAdapters { clock, store, cluster, mesh, platform, ids, .. } =
            adapters;
        let store = store.with_seed(seed.into());
        let Parts { service, reconciler, sweeper, .. } =
            parts.map_err(|error| DomainError::invalid(error.field, error.allowed))?;
        let world = Self {
            service,
            reconciler,
            sweeper,
            operator: operator()?,
            sample_ids: SampleIds::new(&ids)?,
            store,
            cluster,
            mesh,
            clock,
            started,
            ids,
            platform,
        };
        world.prepare_platform()?;
        Ok(world)
    }

    fn prepare_platform(&self) -> Result<(), DomainError> {
        let Self { platform, cluster, sample_ids, .. } = self;
        let cloud = CloudId::new(self.ids.uuid())?;
        let region = r#"{"region": "eu-1"}"#;
        platform.add_cloud(CloudView::new(cloud, Provider::new("hetzner")?, region));
        platform.add_credential(CredentialView::new(sample_ids.credential, cloud, "kv", "demo"));
        for project in [sample_ids.atlas, sample_ids.borealis] {
            platform.assign(project, sample_ids.credential);
        }
        self.set_namespace(sample_ids.atlas, Namespace::Ready);
        self.set_namespace(sample_ids.borealis, Namespace::Missing);
        let (api_version, kind) = COMPOSED;
        cluster.install_kind(api_version, kind, KindScope::Namespaced);
        let provider_config = ("hetzner.crossplane.io/v1beta1", "ProviderConfig");
        cluster.install_kind(provider_config.0, provider_config.1, KindScope::Namespaced);
        for (blueprint, id) in &sample_ids.blueprints {
            let documents = blueprint.documents();
            cluster.install_xrd(&Arc::new(Xrd::parse(&documents.xrd)?));
            platform.publish(*id, documents);
        }
        Ok(())
    }

    fn set_namespace(&self, project: ProjectId, state: Namespace) {
        let name = namespace(project).as_str().to_owned();
        let ready = match state {
            Namespace::Missing => false,
            Namespace::Ready => {
                self.cluster.create_namespace(&name);
                true
            }
        };
        self.platform.place(project, NamespaceObservation::new(name, ready));
    }

    pub(super) fn create_delayed_namespace(&self) {
        self.set_namespace(self.sample_ids.borealis, Namespace::Ready);
    }

    /// Declares a planned resource and sets the behaviour of its Crossplane.
    pub(super) async fn declare(
        &self,
        planned: &PlannedResource,
    ) -> Result<ProvisionedResource, Error> {
        let blueprint = planned.scenario.blueprint();
        let project = match planned.scenario {
            Scenario::Namespace => self.sample_ids.borealis,
            Scenario::Node
            | Scenario::Standalone
            | Scenario::Parameters
            | Scenario::Rollback
            | Scenario::Teardown => self.sample_ids.atlas,
        };
        let resource = ResourceId::new(self.ids.uuid())?;
        self.platform.add_resource(project, resource);
        self.platform.label(resource, "name", planned.name.as_str());
        let declaration = Declaration::new(
            project,
            resource,
            self.sample_ids.blueprints[&blueprint],
            self.sample_ids.credential,
        )
        .with_parameters(blueprint.values())
        .on_failure(planned.scenario.on_failure());
        let declared = self.service.provision(&self.operator, &declaration).await?;
        self.cluster.behave_for(declared.id(), planned.behaviour.clone());
        Ok(declared)
    }

    pub(super) async fn deprovision(&self, id: ProvisionedResourceId) -> Result<(), Error> {
        self.service.deprovision(&self.operator, id).await.map(drop)
    }

    pub(super) async fn get(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        self.service.get(&self.operator, id).await
    }

    pub(super) async fn explain(&self, id: ProvisionedResourceId) -> Result<Explanation, Error> {
        self.service.explain(&self.operator, id).await
    }

    /// The simulated time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        (self.clock.now() - self.started).unsigned_abs()
    }

    /// Advances the clock, and runs Crossplane, the providers and the garbage collector once.
    pub(super) fn advance(&self, time: Duration) {
        self.clock.advance(time);
        self.cluster.tick();
    }

    /// The number of a resource's objects on the cluster. The names of composed objects begin with its name.
    pub(super) fn count_objects(&self, resource: &ProvisionedResource) -> usize {
        let name = resource.xr_name();
        let is_owned = |object: &str| {
            object
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.cluster.objects().iter().filter(|object| is_owned(object.name())).count()
    }

    /// Whether the resource's Node is live in the mesh.
    pub(super) fn has_live_node(&self, resource: &ProvisionedResource) -> bool {
        let consumer = resource.bootstrap_token_id().and_then(|token| self.mesh.consumer(token));
        consumer.is_some_and(|consumer| self.mesh.peer(consumer.node).is_some())
    }
}

#[derive(Clone, Copy)]
enum Namespace {
    Missing,
    Ready,
}

impl SampleIds {
    fn new(ids: &SequentialIds) -> Result<Self, DomainError> {
        let mut blueprints = BTreeMap::new();
        for blueprint in Blueprint::ALL {
            blueprints.insert(blueprint, BlueprintVersionId::new(ids.uuid())?);
        }
        Ok(Self {
            atlas: ProjectId::new(ids.uuid())?,
            borealis: ProjectId::new(ids.uuid())?,
            credential: CloudCredentialId::new(ids.uuid())?,
            blueprints,
        })
    }
}

fn operator() -> Result<RequestContext, DomainError> {
    let actor = Actor::new("user:demo")?;
    Ok(RequestContext::new(actor, AccessScope::All, CorrelationId::new("demo")?))
}

pub(crate) fn config() -> Result<BrokerConfig, DomainError> {
    let mut config = BrokerConfig::new(ApiUrl::new("https://mesh.example.org")?);
    config.worker = WorkerId::new("demo-replica")?;
    Ok(config)
}
