//! A scene: a world in which a resource is stuck, or is not, and the service that inspects it.

use std::sync::Arc;
use std::time::Duration;

use broker_app::explain::Explanation;
use broker_app::{BrokerConfig, Reconciler, Service};
use broker_domain::{ObjectReference, ProvisionedResource, ProvisionedResourceId};
use broker_ports::Ports;
use broker_testkit::faults::{FaultPlan, Faults};
use broker_tests::world::{World, operator};

/// How a service of the scene differs from the default.
type Tweak = Arc<dyn Fn(&mut Ports, &mut BrokerConfig) + Send + Sync>;

pub(super) struct Scene {
    pub(super) world: World,
    pub(super) id: ProvisionedResourceId,
    tweak: Tweak,
    pub(super) replica: Reconciler,
}

impl Scene {
    pub(super) fn new(world: World, resource: &ProvisionedResource) -> Self {
        let replica = world.replica("replica-1");
        Self { world, id: resource.id(), tweak: Arc::new(|_, _| {}), replica }
    }

    pub(super) fn seen_by(
        &mut self,
        tweak: impl Fn(&mut Ports, &mut BrokerConfig) + Send + Sync + 'static,
    ) {
        self.tweak = Arc::new(tweak);
    }

    pub(super) fn mend_collaborators(&mut self) {
        self.tweak = Arc::new(|_, _| {});
        self.replica = self.world.replica("replica-1");
    }

    pub(super) fn service(&self, plan: FaultPlan) -> Service {
        let faults = Faults::new(plan);
        let tweak = Arc::clone(&self.tweak);
        self.world.service_rewired(
            |ports| {
                tweak(ports, &mut broker_tests::world::config("service"));
                *ports = broker_tests::world::decorated_service(ports, &faults);
            },
            |config| tweak(&mut self.world.service_ports(), config),
        )
    }

    pub(super) async fn explain(&self) -> Explanation {
        self.explain_under(FaultPlan::none()).await
    }

    pub(super) async fn explain_under(&self, plan: FaultPlan) -> Explanation {
        self.service(plan).explain(&operator(), self.id).await.unwrap()
    }

    pub(super) async fn resource(&self) -> ProvisionedResource {
        self.world.get(self.id).await
    }

    pub(super) async fn xr(&self) -> ObjectReference {
        self.world.xr(&self.resource().await)
    }

    /// Rounds with this replica; failures are retried in the next.
    pub(super) async fn rounds(&self, count: usize) {
        for _ in 0..count {
            drop(self.replica.reconcile(self.id).await);
            self.world.clock.advance(Duration::from_secs(1));
            self.world.cluster.tick();
            self.world.boot_agents();
        }
    }
}
