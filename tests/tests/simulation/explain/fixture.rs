//! A fixture: a world with one resource, a replica, and a service that explains the resource.

use std::sync::Arc;
use std::time::Duration;

use broker_app::explain::Explanation;
use broker_app::{BrokerConfig, Reconciler, Service};
use broker_domain::{ObjectReference, ProvisionedResource, ProvisionedResourceId};
use broker_ports::Ports;
use broker_testkit::faults::{FaultPlan, Faults};
use broker_tests::world::{World, operator};

/// Changes the ports and the configuration of a service.
type Reconfigure = Arc<dyn Fn(&mut Ports, &mut BrokerConfig) + Send + Sync>;

pub(super) struct Fixture {
    pub(super) world: World,
    pub(super) id: ProvisionedResourceId,
    reconfigure: Reconfigure,
    pub(super) replica: Reconciler,
}

impl Fixture {
    pub(super) fn new(world: World, resource: &ProvisionedResource) -> Self {
        let replica = world.replica("replica-1");
        Self { world, id: resource.id(), reconfigure: Arc::new(|_, _| {}), replica }
    }

    pub(super) fn reconfigure_service(
        &mut self,
        reconfigure: impl Fn(&mut Ports, &mut BrokerConfig) + Send + Sync + 'static,
    ) {
        self.reconfigure = Arc::new(reconfigure);
    }

    pub(super) fn reset_configuration(&mut self) {
        self.reconfigure = Arc::new(|_, _| {});
        self.replica = self.world.replica("replica-1");
    }

    pub(super) fn service(&self, plan: FaultPlan) -> Service {
        let faults = Faults::new(plan);
        let reconfigure = Arc::clone(&self.reconfigure);
        self.world.service_rewired(
            |ports| {
                reconfigure(ports, &mut broker_tests::world::config("service"));
                *ports = broker_tests::world::decorated_service(ports, &faults);
            },
            |config| reconfigure(&mut self.world.service_ports(), config),
        )
    }

    pub(super) async fn explain(&self) -> Explanation {
        self.explain_with_faults(FaultPlan::none()).await
    }

    pub(super) async fn explain_with_faults(&self, plan: FaultPlan) -> Explanation {
        self.service(plan).explain(&operator(), self.id).await.unwrap()
    }

    pub(super) async fn resource(&self) -> ProvisionedResource {
        self.world.get(self.id).await
    }

    pub(super) async fn xr(&self) -> ObjectReference {
        self.world.xr(&self.resource().await)
    }

    /// Runs passes with this replica; the next round retries a failed pass.
    pub(super) async fn run_rounds(&self, count: usize) {
        for _ in 0..count {
            drop(self.replica.reconcile(self.id).await);
            self.world.clock.advance(Duration::from_secs(1));
            self.world.cluster.tick();
            self.world.boot_agents();
        }
    }
}
