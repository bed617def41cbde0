//! The whole product on in-memory adapters: a store, a simulated cluster, a mesh, and agents that
//! boot.
//!
//! Time advances only when a test advances it, and nothing happens without a call: [`World::round`]
//! is one pass, one round of Crossplane, and an enrolment attempt of every booted machine.

mod service_variants;
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
    NamespacePhase, Ports, RequestContext,
};
use broker_render::catalog::ComposedKind;
use broker_render::{InjectionStrategy, Provider, ProviderConfigUse, namespace};
use broker_testkit::builders::{handle, id, second};
use broker_testkit::faults::{FaultPlan, Faults};
use secrecy::ExposeSecret;
use tokio::sync::oneshot;

pub use service_variants::decorated_service;
pub(crate) use wiring::in_mode;
pub use wiring::{config, config_with, xrd_document, xrd_of};

use crate::K;

/// A blueprint of a Node that boots with cloud-init.
pub const NODE: u128 = 0xb1;
/// A blueprint without a Node.
pub const STANDALONE: u128 = 0xb2;
/// A blueprint of a Node, with a required parameter and a default.
pub const SIZED: u128 = 0xb3;

/// The lease of a claimed resource.
pub const LEASE: Duration = Duration::from_mins(1);

/// The seed of the tokens' plaintexts.
const TOKEN_SEED: u32 = 7;

/// The broker and its in-memory collaborators.
pub struct World {
    /// The clock of all collaborators.
    pub clock: ManualClock,
    /// Rows, events, audit, schedule.
    pub store: MemoryStore,
    /// The management cluster.
    pub cluster: MemoryCluster,
    /// The token issuer.
    pub tokens: MemoryTokens,
    /// The mesh.
    pub mesh: MemoryMesh,
    /// The platform's contexts.
    pub platform: MemoryPlatformContexts,
    /// The facade.
    pub service: Service,
    /// The reconciler's ports, with faults.
    pub ports: Ports,
    /// The injected faults, and the number of calls.
    pub faults: Faults,
    fault_free_ports: Ports,
    mode: Mode,
    /// One replica's reconciler.
    pub reconciler: Reconciler,
    /// The sweeper of the same replica.
    pub sweeper: Sweeper,
    /// Records delivered events.
    pub sink: RecordingEventSink,
    /// Whether machines boot their agents.
    pub agents_boot: AtomicBool,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    /// A world with one Project, one cloud, three blueprints, and a ready namespace.
    #[must_use]
    pub fn new() -> Self {
        Self::in_mode(Mode::Live)
    }

    /// Like [`new`](Self::new), with a reconciler in another mode.
    #[must_use]
    pub fn in_mode(mode: Mode) -> Self {
        Self::build(mode, FaultPlan::none(), TOKEN_SEED)
    }

    /// Like [`new`](Self::new), with faults for the reconciler and the relay. Callers of the service and other
    /// [replicas](Self::replica) are not affected.
    #[must_use]
    pub fn with_faults(plan: FaultPlan) -> Self {
        Self::build(Mode::Live, plan, TOKEN_SEED)
    }

    /// Like [`with_faults`](Self::with_faults), with tokens from another seed: worlds with different seeds
    /// share no plaintext.
    #[must_use]
    pub fn with_tokens(plan: FaultPlan, seed: u32) -> Self {
        Self::build(Mode::Live, plan, seed)
    }

    fn build(mode: Mode, plan: FaultPlan, seed: u32) -> Self {
        let identity = ClusterId::new("kube-system-uid").expect("a cluster's id");
        let adapters = MemoryAdapters::new(seed, second(0), identity);
        let ports = adapters.ports();
        let faults = Faults::new(plan);
        let decorated = decorated_service(&ports, &faults);
        let build = |ports: &Ports, config| {
            let builder = Broker::configured(config).ports(ports.clone());
            builder.parts().expect("a configuration that works")
        };
        let replica = build(&decorated, in_mode("replica-1", mode));
        let MemoryAdapters { clock, store, cluster, tokens, mesh, platform, sink, ids: _ } =
            adapters;
        let world = Self {
            service: build(&ports, config("service")).service,
            reconciler: replica.reconciler,
            sweeper: replica.sweeper,
            ports: replica.ports,
            fault_free_ports: ports,
            faults,
            mode,
            clock,
            store,
            cluster,
            tokens,
            mesh,
            platform,
            sink,
            agents_boot: AtomicBool::new(true),
        };
        world.add_fixtures();
        world
    }

    fn add_fixtures(&self) {
        let provider = Provider::new("hetzner").expect("a provider's name");
        self.platform.add_cloud(CloudView::new(id(0xc0), provider, r#"{"region":"eu-1"}"#));
        self.platform.add_credential(CredentialView::new(id(4), id(0xc0), "kv", "team/hetzner"));
        self.add_project(project(), id(2));
        for (api_version, kind) in [
            ("nop.crossplane.io/v1alpha1", "NopResource"),
            ("hetzner.crossplane.io/v1beta1", "ProviderConfig"),
        ] {
            self.cluster.install_kind(api_version, kind, KindScope::Namespaced);
        }
        self.publish_blueprints();
    }

    /// Adds a Project with a Resource, the world's credential and a ready namespace.
    pub fn add_project(&self, project: ProjectId, resource: ResourceId) {
        let namespace = namespace(project).as_str().to_owned();
        self.platform.assign(project, id(4));
        self.platform.add_resource(project, resource, handle("web-1"));
        self.cluster.create_namespace(&namespace);
        self.platform.place(project, NamespaceObservation::new(namespace, NamespacePhase::Ready));
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
    /// When the schema is invalid.
    pub fn publish(&self, blueprint: u128, kind: &str, plural: &str, role: MeshRole, schema: &str) {
        let config = ProviderConfigUse::PerResource;
        self.publish_using(config, blueprint, (kind, plural), role, schema);
    }

    /// Publishes a blueprint whose composed objects refer to their ProviderConfig in this way.
    ///
    /// # Panics
    ///
    /// When the schema is invalid.
    pub fn publish_using(
        &self,
        provider_config: ProviderConfigUse,
        blueprint: u128,
        (kind, plural): (&str, &str),
        role: MeshRole,
        schema: &str,
    ) {
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
            provider_config,
        };
        self.platform.publish(id::<BlueprintVersionId>(blueprint), documents);
    }

    /// Sets whether the Project's namespace is ready, or still being prepared.
    pub fn place(&self, ready: bool) {
        self.place_in(if ready { NamespacePhase::Ready } else { NamespacePhase::Provisioning });
    }

    /// Sets the phase of the Project's namespace.
    pub fn place_in(&self, phase: NamespacePhase) {
        let name = namespace(project()).as_str().to_owned();
        self.platform.place(project(), NamespaceObservation::new(name, phase));
    }

    /// Declares a resource.
    ///
    /// # Errors
    ///
    /// The errors of the service.
    pub async fn declare(&self, declaration: &Declaration) -> Result<ProvisionedResource, Error> {
        self.service.provision(&operator(), declaration).await
    }

    /// Declares `count` resources; returns their ids.
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

    /// The stored resource.
    pub async fn get(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service.get(&operator(), id).await.expect("a stored resource")
    }

    /// One pass, one round of Crossplane, and an enrolment attempt of every booted machine.
    ///
    /// # Errors
    ///
    /// The errors of the pass.
    pub async fn round(&self, id: ProvisionedResourceId) -> Result<PassResult, Error> {
        let result = self.reconciler.reconcile(id).await;
        self.clock.advance(Duration::from_secs(1));
        self.cluster.tick();
        self.boot_agents();
        result
    }

    /// Rounds until the resource is in a phase and a further round leaves it there.
    ///
    /// # Panics
    ///
    /// When the resource does not reach the phase, or a pass fails.
    pub async fn until(&self, id: ProvisionedResourceId, phase: Phase) -> ProvisionedResource {
        for _ in 0..K {
            self.round(id).await.expect("a pass without a fault succeeds");
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

    /// Declares a resource and brings it into a phase of convergence.
    pub async fn declare_until(
        &self,
        phase: Phase,
        declaration: &Declaration,
    ) -> ProvisionedResource {
        let declared = self.declare(declaration).await.expect("a sound declaration");
        if phase == Phase::Pending {
            return declared;
        }
        // An agent that boots at once would skip Enrolling.
        self.agents_boot.store(phase == Phase::Ready, Ordering::Relaxed);
        let resource = self.until(declared.id(), phase).await;
        self.agents_boot.store(true, Ordering::Relaxed);
        resource
    }

    /// Every booted machine that found a token tries to enrol with it and to join the mesh.
    pub fn boot_agents(&self) {
        if !self.agents_boot.load(Ordering::Relaxed) {
            return;
        }
        for machine in self.cluster.agent_documents().into_iter().filter(|machine| machine.booted) {
            if let Ok(node) = self.mesh.enrol(machine.token.secret().expose_secret()) {
                // The mesh refuses a Node that was deregistered meanwhile.
                let _ = self.mesh.join(node);
            }
        }
    }

    /// Runs one sweep; returns the work that it found.
    pub async fn sweep(&self) -> (Vec<Work>, SweepReport) {
        self.sweeper.sweep().await.expect("store and cluster answer")
    }

    /// A runner over this world, with its relay. The test has to advance time.
    #[must_use]
    pub fn runner(&self) -> Runner {
        self.runner_with(in_mode("replica-1", self.mode))
    }

    /// Like [`runner`](Self::runner), with another configuration.
    #[must_use]
    pub fn runner_with(&self, config: BrokerConfig) -> Runner {
        self.try_runner(config).expect("a configuration that works")
    }

    /// Like [`runner_with`](Self::runner_with), for an invalid configuration.
    ///
    /// # Errors
    ///
    /// The errors of the runner.
    pub fn try_runner(&self, config: BrokerConfig) -> Result<Runner, ConfigError> {
        runner_over(&self.ports, self.relay(), config)
    }

    /// Builds runners of one replica; each starts without state except for the store. They share
    /// this world's faults.
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

    /// The relay, with this world's faults.
    #[must_use]
    pub fn relay(&self) -> Relay {
        self.relay_to(Arc::new(self.sink.clone()))
    }

    /// Like [`relay`](Self::relay), with another sink.
    #[must_use]
    pub fn relay_to(&self, sink: Arc<dyn EventSink>) -> Relay {
        let outbox = self.faults.wrap(Arc::clone(&self.fault_free_ports.outbox));
        let sink = self.faults.wrap(sink);
        let ports = Ports { outbox, sink, ..self.fault_free_ports.clone() };
        Relay::new(ports, config("relay")).expect("a claim that covers a delivery")
    }

    /// The relay of another replica, without faults.
    #[must_use]
    pub fn other_relay(&self) -> Relay {
        Relay::new(self.fault_free_ports.clone(), config("relay"))
            .expect("a claim that covers a delivery")
    }

    /// Another facade over this world, with its own faults.
    #[must_use]
    pub fn service_with(&self, plan: FaultPlan) -> Service {
        self.service_under(plan).0
    }

    /// Replaces ports of the reconciler.
    pub fn rewire(&mut self, rewire: impl FnOnce(&mut Ports)) {
        rewire(&mut self.ports);
        let builder = Broker::configured(in_mode("replica-1", self.mode)).ports(self.ports.clone());
        let parts = builder.parts().expect("a configuration that works");
        (self.reconciler, self.sweeper) = (parts.reconciler, parts.sweeper);
    }

    /// The reconciler of another replica, without faults.
    #[must_use]
    pub fn replica(&self, name: &str) -> Reconciler {
        self.replica_in_mode(name, self.mode)
    }

    /// Like [`replica`](Self::replica), with other ports.
    #[must_use]
    pub fn replica_with(&self, name: &str, rewire: impl FnOnce(&mut Ports)) -> Reconciler {
        let mut ports = self.fault_free_ports.clone();
        rewire(&mut ports);
        Reconciler::new(ports, in_mode(name, self.mode))
    }

    /// Like [`replica`](Self::replica), in another mode.
    #[must_use]
    pub fn replica_in_mode(&self, name: &str, mode: Mode) -> Reconciler {
        Reconciler::new(self.fault_free_ports.clone(), in_mode(name, mode))
    }

    /// One pass over each resource, then one round of Crossplane and of the booted machines. Returns
    /// the errors of the passes.
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

    /// Ends the lease of a worker that was cut off.
    pub fn expire_leases(&self) {
        self.clock.advance(LEASE);
    }

    /// Advances clock, Crossplane and agents by one step.
    pub async fn let_time_pass(&self) {
        let step = Duration::from_millis(250);
        tokio::time::sleep(step).await;
        self.clock.advance(step);
        self.cluster.tick();
        self.boot_agents();
    }

    /// The composite resource's reference.
    #[must_use]
    pub fn xr(&self, resource: &ProvisionedResource) -> ObjectReference {
        let kind = match resource.blueprint_version_id().as_uuid().as_u128() {
            STANDALONE => "Bucket",
            SIZED => "Cluster",
            _ => "Machine",
        };
        let namespace = namespace(project());
        ObjectReference::new(
            "example.org/v1",
            kind,
            resource.xr_name().as_str(),
            Some(namespace.as_str()),
        )
        .expect("a complete name")
    }

    /// The broker's objects on the cluster.
    pub fn existing_objects(&self) -> Vec<ObjectReference> {
        self.cluster.objects().into_iter().collect()
    }
}

/// A runner whose parts share ports and configuration, with a separate relay.
pub(crate) fn runner_over(
    ports: &Ports,
    relay: Relay,
    config: BrokerConfig,
) -> Result<Runner, ConfigError> {
    let assembled = Broker::configured(config).ports(ports.clone()).parts()?;
    Runner::new(assembled.reconciler, assembled.sweeper, relay)
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

/// Runs a runner concurrently with `scenario` and stops it afterwards.
pub async fn background<T>(runner: Runner, scenario: impl Future<Output = T>) -> T {
    let (stop, stopped) = oneshot::channel::<()>();
    let running = runner.run(async move { drop(stopped.await) });
    let stopping_scenario = async {
        let result = scenario.await;
        drop(stop);
        result
    };
    let (ended, result) = tokio::join!(running, stopping_scenario);
    ended.expect("the runner starts");
    result
}
