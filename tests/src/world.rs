//! The whole product on in-memory adapters: a store, a simulated cluster, a mesh, and agents that boot.
//!
//! Time stands still until a test moves it, and nothing happens that nobody asked for: [`World::round`] is one
//! pass over each resource, one round of Crossplane, and every machine that booted trying to enrol.

mod explaining;
mod wiring;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::{
    BrokerConfig, ConfigError, Error, PassResult, Reconciler, Relay, Runner, Service, SweepReport,
    Sweeper, Work,
};
use broker_domain::{
    BlueprintVersionId, ClusterId, Declaration, MeshRole, ObjectReference, Phase, ProjectId,
    ProvisionedResource, ProvisionedResourceId, ResourceId,
};
use broker_embed::Broker;
use broker_memory::{
    Behaviour, BlueprintDocuments, KindScope, ManualClock, MemoryAdapters, MemoryCluster,
    MemoryMesh, MemoryPlatformContexts, MemoryStore, MemoryTokens, RecordingEventSink,
};
use broker_ports::{
    AccessScope, Actor, CloudView, CorrelationId, CredentialView, EventSink, NamespaceObservation,
    Ports, RequestContext,
};
use broker_render::catalog::ComposedKind;
use broker_render::{InjectionStrategy, Provider, namespace};
use broker_testkit::builders::{id, second};
use broker_testkit::faults::{FaultPlan, Faults};
use secrecy::ExposeSecret;
use tokio::sync::oneshot;

pub use explaining::decorated_service;
pub(crate) use wiring::in_mode;
pub use wiring::{config, config_with, xrd_document, xrd_of};

use crate::K;

/// A blueprint of a node that boots with cloud-init.
pub const NODE: u128 = 0xb1;
/// A blueprint of something without a Node.
pub const STANDALONE: u128 = 0xb2;
/// A blueprint of a node with a required parameter and a default.
pub const SIZED: u128 = 0xb3;

/// How long a claimed resource belongs to a worker.
pub const LEASE: Duration = Duration::from_mins(1);

/// What the plaintexts of tokens are drawn from.
const TOKENS: u32 = 7;

/// Everything, wired together.
pub struct World {
    /// What everybody calls time.
    pub clock: ManualClock,
    /// Rows, events, audit, schedule.
    pub store: MemoryStore,
    /// The management cluster.
    pub cluster: MemoryCluster,
    /// The token issuer.
    pub tokens: MemoryTokens,
    /// The mesh.
    pub mesh: MemoryMesh,
    /// What the neighbours know.
    pub neighbours: MemoryPlatformContexts,
    /// The facade.
    pub service: Service,
    /// What the reconciler is wired to, faults included.
    pub ports: Ports,
    /// What goes wrong, and how often what was called.
    pub faults: Faults,
    honest: Ports,
    mode: Mode,
    /// One replica's reconciler.
    pub reconciler: Reconciler,
    /// Its sweeper.
    pub sweeper: Sweeper,
    /// What the relay delivered.
    pub sink: RecordingEventSink,
    /// Machines boot their agents; a test may hold them back.
    pub agents_boot: AtomicBool,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A world with one Project, one cloud, three blueprints, and a namespace that is ready.
    #[must_use]
    pub fn new() -> Self {
        Self::in_mode(Mode::Live)
    }

    /// The same, with a reconciler in another mode.
    #[must_use]
    pub fn in_mode(mode: Mode) -> Self {
        Self::built(mode, FaultPlan::none(), TOKENS)
    }

    /// The same, with a reconciler and a relay for which things go wrong. Callers of the service and other
    /// [replicas](Self::replica) are not affected.
    #[must_use]
    pub fn with_faults(plan: FaultPlan) -> Self {
        Self::built(Mode::Live, plan, TOKENS)
    }

    /// The same, with tokens from another seed: no plaintext of this world is one of another.
    #[must_use]
    pub fn with_tokens(plan: FaultPlan, seed: u32) -> Self {
        Self::built(Mode::Live, plan, seed)
    }

    fn built(mode: Mode, plan: FaultPlan, seed: u32) -> Self {
        let identity = ClusterId::new("kube-system-uid").expect("a cluster's id");
        let adapters = MemoryAdapters::new(seed, second(0), identity);
        let ports = adapters.ports();
        let faults = Faults::new(plan);
        let decorated = decorated_service(&ports, &faults);
        let built = |ports: &Ports, config| {
            let builder = Broker::configured(config).ports(ports.clone());
            builder.parts().expect("a configuration that works")
        };
        let replica = built(&decorated, in_mode("replica-1", mode));
        let MemoryAdapters { clock, store, cluster, tokens, mesh, neighbours, sink, ids: _ } =
            adapters;
        let world = Self {
            service: built(&ports, config("service")).service,
            reconciler: replica.reconciler,
            sweeper: replica.sweeper,
            ports: replica.ports,
            honest: ports,
            faults,
            mode,
            clock,
            store,
            cluster,
            tokens,
            mesh,
            neighbours,
            sink,
            agents_boot: AtomicBool::new(true),
        };
        world.furnish();
        world
    }

    fn furnish(&self) {
        let provider = Provider::new("hetzner").expect("a provider's name");
        self.neighbours.add_cloud(CloudView::new(id(0xc0), provider, r#"{"region":"eu-1"}"#));
        self.neighbours.add_credential(CredentialView::new(id(4), id(0xc0), "kv", "team/hetzner"));
        self.add_project(project(), id(2));
        for (api_version, kind) in [
            ("nop.crossplane.io/v1alpha1", "NopResource"),
            ("hetzner.crossplane.io/v1beta1", "ProviderConfig"),
        ] {
            self.cluster.install_kind(api_version, kind, KindScope::Namespaced);
        }
        self.publish_blueprints();
    }

    /// Adds a Project with a Resource, the world's credential and a namespace that is ready.
    pub fn add_project(&self, project: ProjectId, resource: ResourceId) {
        let home = namespace(project).as_str().to_owned();
        self.neighbours.assign(project, id(4));
        self.neighbours.add_resource(project, resource);
        self.cluster.create_namespace(&home);
        self.neighbours.place(project, NamespaceObservation::new(home, true));
    }

    /// Publishes the world's three blueprints.
    pub fn publish_blueprints(&self) {
        let no_parameters = r#"{"parameters":[]}"#;
        let sized = r#"{"parameters":[{"name":"size","type":"string","required":true},
                        {"name":"count","type":"integer","default":1}]}"#;
        self.publish(NODE, "Machine", "machines", MeshRole::Node, no_parameters);
        self.publish(STANDALONE, "Bucket", "buckets", MeshRole::Standalone, no_parameters);
        self.publish(SIZED, "Cluster", "clusters", MeshRole::Node, sized);
    }

    /// Publishes a blueprint whose composite resources are ready after a tick.
    ///
    /// # Panics
    ///
    /// When the schema is none.
    pub fn publish(&self, blueprint: u128, kind: &str, plural: &str, role: MeshRole, schema: &str) {
        let xrd = Arc::new(xrd_of(kind, plural));
        self.cluster.install_xrd(&xrd);
        self.cluster.behave(&xrd, Behaviour::ready_after(1));
        let documents = BlueprintDocuments {
            xrd: xrd_document("example.org", kind, plural).to_string().into_bytes(),
            composition: BlueprintDocuments::composition_named(plural),
            parameter_schema: schema.as_bytes().to_vec(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: role,
            composed_kinds: vec![ComposedKind {
                api_version: "nop.crossplane.io/v1alpha1".to_owned(),
                kind: "NopResource".to_owned(),
            }],
        };
        self.neighbours.publish(id::<BlueprintVersionId>(blueprint), documents);
    }

    /// Says whether the Project's namespace takes objects.
    pub fn place(&self, ready: bool) {
        let name = namespace(project()).as_str().to_owned();
        self.neighbours.place(project(), NamespaceObservation::new(name, ready));
    }

    /// Declares a resource.
    ///
    /// # Errors
    ///
    /// As the service.
    pub async fn declare(&self, declaration: &Declaration) -> Result<ProvisionedResource, Error> {
        self.service.provision(&operator(), declaration).await
    }

    /// Declares so many; answers their ids.
    ///
    /// # Panics
    ///
    /// When one is refused.
    pub async fn declare_many(
        &self,
        count: usize,
        declaration: &Declaration,
    ) -> Vec<ProvisionedResourceId> {
        let mut ids = Vec::with_capacity(count);
        for _ in 0..count {
            ids.push(self.declare(declaration).await.expect("a sound declaration").id());
        }
        ids
    }

    /// The resource as it is stored.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub async fn get(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service.get(&operator(), id).await.expect("a stored resource")
    }

    /// One pass, one round of Crossplane, and every machine that booted tries to enrol.
    ///
    /// # Errors
    ///
    /// As the pass.
    pub async fn round(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let passed = self.reconciler.reconcile(id).await;
        self.clock.advance(Duration::from_secs(1));
        self.cluster.tick();
        self.boot_agents();
        passed
    }

    /// Rounds until the resource is in a phase and a further round leaves it there.
    ///
    /// # Panics
    ///
    /// When it does not get there, or a pass fails on the way.
    pub async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource {
        for _ in 0..K {
            self.round(id).await.expect("a pass without a fault goes through");
            let resource = self.get(id).await;
            if resource.phase() == phase {
                return resource;
            }
        }
        panic!(
            "the resource is in {} after {K} rounds, not in {phase}",
            self.get(id).await.phase()
        );
    }

    /// Declares a resource and brings it into a phase on the way up.
    ///
    /// # Panics
    ///
    /// As [`World::until`].
    pub async fn brought_to(&self, phase: Phase, declaration: &Declaration) -> ProvisionedResource {
        let declared = self.declare(declaration).await.expect("a sound declaration");
        if phase == Phase::Pending {
            return declared;
        }
        // An agent that boots at once would leave nothing to see of Enrolling.
        self.agents_boot.store(phase == Phase::Ready, Ordering::Relaxed);
        let resource = self.until(declared.id(), phase).await;
        self.agents_boot.store(true, Ordering::Relaxed);
        resource
    }

    /// Every machine that booted and found a token tries to enrol with it, and joins the mesh.
    pub fn boot_agents(&self) {
        if !self.agents_boot.load(Ordering::Relaxed) {
            return;
        }
        for machine in self.cluster.agent_documents().into_iter().filter(|machine| machine.booted) {
            if let Ok(node) = self.mesh.enrol(machine.token.secret().expose_secret()) {
                // A Node that was told to leave meanwhile is not let in; that is the mesh's business.
                let _ = self.mesh.join(node);
            }
        }
    }

    /// Sweeps once; answers what needs a pass.
    ///
    /// # Panics
    ///
    /// When store or cluster do not answer.
    pub async fn sweep(&self) -> (Vec<Work>, SweepReport) {
        self.sweeper.sweep().await.expect("store and cluster answer")
    }

    /// A runner over this world, with its relay; time has to be moved by the test.
    #[must_use]
    pub fn runner(&self) -> Runner {
        self.runner_with(in_mode("replica-1", self.mode))
    }

    /// The same, configured otherwise.
    ///
    /// # Panics
    ///
    /// When the configuration is refused.
    #[must_use]
    pub fn runner_with(&self, config: BrokerConfig) -> Runner {
        self.try_runner(config).expect("a configuration that works")
    }

    /// The same, for a configuration that may be refused.
    ///
    /// # Errors
    ///
    /// As the runner.
    pub fn try_runner(&self, config: BrokerConfig) -> Result<Runner, ConfigError> {
        runner_over(&self.ports, self.relay(), config)
    }

    /// Makes runners of one replica, each of which begins with nothing but what is stored. They share the
    /// faults of this world.
    ///
    /// # Panics
    ///
    /// When the configuration is refused.
    pub fn runner_maker(
        &self,
        relay: Relay,
        config: BrokerConfig,
    ) -> impl Fn() -> Runner + Send + use<> {
        let ports = self.ports.clone();
        move || {
            runner_over(&ports, relay.clone(), config.clone()).expect("a configuration that works")
        }
    }

    /// The relay, with the faults of this world.
    ///
    /// # Panics
    ///
    /// Never.
    #[must_use]
    pub fn relay(&self) -> Relay {
        self.relay_to(Arc::new(self.sink.clone()))
    }

    /// The same, to a receiver of the test's own.
    ///
    /// # Panics
    ///
    /// Never.
    #[must_use]
    pub fn relay_to(&self, sink: Arc<dyn EventSink>) -> Relay {
        let outbox = self.faults.around(Arc::clone(&self.honest.outbox));
        let sink = self.faults.around(sink);
        let ports = Ports { outbox, sink, ..self.honest.clone() };
        Relay::new(ports, config("relay")).expect("a claim that covers a delivery")
    }

    /// The relay of another replica, which nothing goes wrong for.
    ///
    /// # Panics
    ///
    /// Never.
    #[must_use]
    pub fn other_relay(&self) -> Relay {
        Relay::new(self.honest.clone(), config("relay")).expect("a claim that covers a delivery")
    }

    /// Another facade over this world, for whose callers things go wrong.
    #[must_use]
    pub fn service_with(&self, plan: FaultPlan) -> Service {
        self.service_under(plan).0
    }

    /// Puts other collaborators in the place of the reconciler's.
    pub fn rewire(&mut self, rewire: impl FnOnce(&mut Ports)) {
        rewire(&mut self.ports);
        let config = Arc::new(in_mode("replica-1", self.mode));
        self.reconciler = Reconciler::new(self.ports.clone(), config.clone());
        self.sweeper = Sweeper::new(self.ports.clone(), config);
    }

    /// Another replica's reconciler, which nothing goes wrong for.
    #[must_use]
    pub fn replica(&self, name: &str) -> Reconciler {
        self.replica_in_mode(name, self.mode)
    }

    /// The same, with other collaborators.
    #[must_use]
    pub fn replica_with(&self, name: &str, rewire: impl FnOnce(&mut Ports)) -> Reconciler {
        let mut ports = self.honest.clone();
        rewire(&mut ports);
        Reconciler::new(ports, in_mode(name, self.mode))
    }

    /// The same, in another mode.
    #[must_use]
    pub fn replica_in_mode(&self, name: &str, mode: Mode) -> Reconciler {
        Reconciler::new(self.honest.clone(), in_mode(name, mode))
    }

    /// One pass over each, then one round of Crossplane and of the machines that booted. Answers what failed.
    pub async fn round_of(&self, ids: &[ProvisionedResourceId]) -> Vec<Error> {
        let mut failed = Vec::new();
        for id in ids {
            failed.extend(self.reconciler.reconcile(*id).await.err());
        }
        self.clock.advance(Duration::from_secs(1));
        self.cluster.tick();
        self.boot_agents();
        failed
    }

    /// Lets the lease of a worker that was cut off end.
    pub fn let_leases_end(&self) {
        self.clock.advance(LEASE);
    }

    /// Lets a bit of time go by: clock, Crossplane, agents.
    pub async fn let_time_pass(&self) {
        let a_bit = Duration::from_millis(250);
        tokio::time::sleep(a_bit).await;
        self.clock.advance(a_bit);
        self.cluster.tick();
        self.boot_agents();
    }

    /// The composite resource's complete name.
    ///
    /// # Panics
    ///
    /// Never, for a resource of this world.
    #[must_use]
    pub fn xr(&self, resource: &ProvisionedResource) -> ObjectReference {
        let kind = match resource.blueprint_version_id().as_uuid().as_u128() {
            STANDALONE => "Bucket",
            SIZED => "Cluster",
            _ => "Machine",
        };
        let home = namespace(project());
        ObjectReference::new(
            "example.org/v1",
            kind,
            resource.xr_name().as_str(),
            Some(home.as_str()),
        )
        .expect("a complete name")
    }

    /// What of ours stands on the cluster.
    pub fn standing(&self) -> Vec<ObjectReference> {
        self.cluster.objects().into_iter().collect()
    }
}

/// A runner whose parts share their ports and their configuration, with a relay of its own.
pub(crate) fn runner_over(
    ports: &Ports,
    relay: Relay,
    config: BrokerConfig,
) -> Result<Runner, ConfigError> {
    let config = Arc::new(config);
    let reconciler = Reconciler::new(ports.clone(), Arc::clone(&config));
    Runner::new(reconciler, Sweeper::new(ports.clone(), config), relay)
}

/// The world's one Project.
#[must_use]
pub fn project() -> ProjectId {
    id(1)
}

/// A declaration from one of the world's blueprints.
#[must_use]
pub fn declaration(blueprint: u128) -> Declaration {
    Declaration::new(project(), id(2), id(blueprint), id(4))
}

/// An operator of the platform.
#[must_use]
pub fn operator() -> RequestContext {
    caller("user:operator", AccessScope::All)
}

/// A caller of one Project.
#[must_use]
pub fn caller_of(project: ProjectId) -> RequestContext {
    caller("user:ann", AccessScope::Project(project))
}

fn caller(name: &str, scope: AccessScope) -> RequestContext {
    let actor = Actor::new(name).expect("an actor");
    RequestContext::new(actor, scope, CorrelationId::new("test").expect("an id"))
}

/// Lets a runner work while a story is told, and stops it when the story ends.
///
/// # Panics
///
/// When the runner does not start.
pub async fn background<T>(runner: Runner, story: impl Future<Output = T>) -> T {
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runner.run(async move { drop(stopped.await) });
    let told = async {
        let told = story.await;
        drop(stop);
        told
    };
    let (ended, told) = tokio::join!(running, told);
    ended.expect("a runner that starts");
    told
}
