//! The composition root of the demo: the real service, reconciler and sweep over in-memory adapters.
//!
//! Time stands still until [`World::pass_time`] moves it, so that a seed gives the same run on every machine.

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
use super::story::{Part, Role};

/// Everything, wired together.
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
    neighbours: MemoryPlatformContexts,
    operator: RequestContext,
    known: Known,
}

/// What declarations refer to.
struct Known {
    /// Its namespace is ready from the beginning.
    atlas: ProjectId,
    /// Its namespace becomes ready later.
    borealis: ProjectId,
    credential: CloudCredentialId,
    blueprints: BTreeMap<Blueprint, BlueprintVersionId>,
}

/// The Project whose namespace is late, by its name.
pub(super) const LATE_PROJECT: &str = "borealis";

/// A moment in September 2026, after the epoch; any would do, as long as it is always the same.
const START: Duration = Duration::from_secs(1_790_000_000);

impl World {
    /// A world with two Projects, one cloud and three blueprints. Its ids and tokens come from the seed.
    pub(super) fn new(seed: u32) -> Result<Self, DomainError> {
        let started = OffsetDateTime::UNIX_EPOCH + START;
        let adapters = MemoryAdapters::new(seed, started, ClusterId::new("demo")?);
        let parts = Broker::configured(config()?).ports(adapters.ports()).parts();
        let MemoryAdapters { clock, store, cluster, mesh, neighbours, ids, .. } = adapters;
        let store = store.with_seed(seed.into());
        let Parts { service, reconciler, sweeper, .. } =
            parts.map_err(|error| DomainError::invalid(error.field, error.allowed))?;
        let world = Self {
            service,
            reconciler,
            sweeper,
            operator: operator()?,
            known: Known::minted(&ids)?,
            store,
            cluster,
            mesh,
            clock,
            started,
            ids,
            neighbours,
        };
        world.furnish()?;
        Ok(world)
    }

    fn furnish(&self) -> Result<(), DomainError> {
        let Self { neighbours, cluster, known, .. } = self;
        let cloud = CloudId::new(self.ids.uuid())?;
        let region = r#"{"region": "eu-1"}"#;
        neighbours.add_cloud(CloudView::new(cloud, Provider::new("hetzner")?, region));
        neighbours.add_credential(CredentialView::new(known.credential, cloud, "kv", "demo"));
        for project in [known.atlas, known.borealis] {
            neighbours.assign(project, known.credential);
        }
        self.place(known.atlas, Namespace::Ready);
        self.place(known.borealis, Namespace::Missing);
        let (api_version, kind) = COMPOSED;
        cluster.install_kind(api_version, kind, KindScope::Namespaced);
        let provider_config = ("hetzner.crossplane.io/v1beta1", "ProviderConfig");
        cluster.install_kind(provider_config.0, provider_config.1, KindScope::Namespaced);
        for (blueprint, id) in &known.blueprints {
            let documents = blueprint.documents();
            cluster.install_xrd(&Arc::new(Xrd::parse(&documents.xrd)?));
            neighbours.publish(*id, documents);
        }
        Ok(())
    }

    fn place(&self, project: ProjectId, state: Namespace) {
        let name = namespace(project).as_str().to_owned();
        let ready = match state {
            Namespace::Missing => false,
            Namespace::Ready => {
                self.cluster.create_namespace(&name);
                true
            }
        };
        self.neighbours.place(project, NamespaceObservation::new(name, ready));
    }

    /// The platform gets the late Project's namespace ready.
    pub(super) fn ready_late_namespace(&self) {
        self.place(self.known.borealis, Namespace::Ready);
    }

    /// As an operator: declares a part's resource. Its Crossplane will behave as the part says.
    pub(super) async fn declare(&self, part: &Part) -> Result<ProvisionedResource, Error> {
        let blueprint = part.role.blueprint();
        let project = match part.role {
            Role::Namespace => self.known.borealis,
            Role::Node | Role::Standalone | Role::Parameters | Role::Rollback | Role::Teardown => {
                self.known.atlas
            }
        };
        let resource = ResourceId::new(self.ids.uuid())?;
        self.neighbours.add_resource(project, resource);
        self.neighbours.label(resource, "name", part.name.as_str());
        let declaration = Declaration::new(
            project,
            resource,
            self.known.blueprints[&blueprint],
            self.known.credential,
        )
        .with_parameters(blueprint.values())
        .on_failure(part.role.on_failure());
        let declared = self.service.provision(&self.operator, &declaration).await?;
        self.cluster.behave_for(declared.id(), part.behaviour.clone());
        Ok(declared)
    }

    /// As an operator: asks for a resource's deletion.
    pub(super) async fn deprovision(&self, id: ProvisionedResourceId) -> Result<(), Error> {
        self.service.deprovision(&self.operator, id).await.map(drop)
    }

    /// As an operator: looks at a resource.
    pub(super) async fn get(
        &self,
        id: ProvisionedResourceId,
    ) -> Result<ProvisionedResource, Error> {
        self.service.get(&self.operator, id).await
    }

    /// As an operator: asks why a resource is where it is.
    pub(super) async fn explain(&self, id: ProvisionedResourceId) -> Result<Explanation, Error> {
        self.service.explain(&self.operator, id).await
    }

    /// How much time has passed.
    pub(super) fn elapsed(&self) -> Duration {
        (self.clock.now() - self.started).unsigned_abs()
    }

    /// Lets time pass, in which Crossplane, providers and garbage collector work.
    pub(super) fn pass_time(&self, time: Duration) {
        self.clock.advance(time);
        self.cluster.tick();
    }

    /// How many objects of a resource stand on the cluster: what it composed has its name as a prefix.
    pub(super) fn standing(&self, resource: &ProvisionedResource) -> usize {
        let name = resource.xr_name();
        let ours = |object: &str| {
            object
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.cluster.objects().iter().filter(|object| ours(object.name())).count()
    }

    /// Whether the Node that came of a resource is live in the mesh.
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

impl Known {
    fn minted(ids: &SequentialIds) -> Result<Self, DomainError> {
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
