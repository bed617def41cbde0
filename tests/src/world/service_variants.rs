//! Services over the in-memory world with other ports, budgets or modes.

use std::sync::Arc;

use broker_app::decide::Mode;
use broker_app::explain::{Budgets, Explanation};
use broker_app::{BrokerConfig, Service};
use broker_domain::ProvisionedResourceId;
use broker_memory::SequentialIds;
use broker_ports::Ports;
use broker_testkit::faults::{FaultPlan, Faults};

use super::{World, config, operator};

impl World {
    /// Every port of the service, without faults.
    #[must_use]
    pub fn service_ports(&self) -> Ports {
        Ports { ids: Arc::new(SequentialIds::seeded(99)), ..self.fault_free_ports.clone() }
    }

    /// A facade with other collaborators and another configuration.
    #[must_use]
    pub fn service_rewired(
        &self,
        rewire: impl FnOnce(&mut Ports),
        reconfigure: impl FnOnce(&mut BrokerConfig),
    ) -> Service {
        let mut ports = self.service_ports();
        rewire(&mut ports);
        let mut config = config("service");
        reconfigure(&mut config);
        Service::new(ports, config)
    }

    /// A facade with faults.
    #[must_use]
    pub fn service_under(&self, plan: FaultPlan) -> (Service, Faults) {
        let faults = Faults::new(plan);
        let service =
            self.service_rewired(|ports| *ports = decorated_service(ports, &faults), |_| {});
        (service, faults)
    }

    /// A facade with these budgets.
    #[must_use]
    pub fn service_of(&self, mode: Mode, budgets: Budgets) -> Service {
        self.service_rewired(
            |_| {},
            |config| {
                config.mode = mode;
                config.budgets = Some(budgets);
            },
        )
    }

    /// Explains a resource.
    pub async fn explain(&self, id: ProvisionedResourceId) -> Explanation {
        self.service.explain(&operator(), id).await.expect("a resource to explain")
    }
}

/// Every port of a service, with the faults of one plan.
#[must_use]
pub fn decorated_service(ports: &Ports, faults: &Faults) -> Ports {
    let ports = ports.clone();
    Ports {
        repository: faults.wrap(ports.repository),
        schedule: faults.wrap(ports.schedule),
        outbox: faults.wrap(ports.outbox),
        cluster: faults.wrap(ports.cluster),
        tokens: faults.wrap(ports.tokens),
        nodes: faults.wrap(ports.nodes),
        blueprints: faults.wrap(ports.blueprints),
        clouds: faults.wrap(ports.clouds),
        credentials: faults.wrap(ports.credentials),
        assignments: faults.wrap(ports.assignments),
        resources: faults.wrap(ports.resources),
        audit: faults.wrap(ports.audit),
        sink: faults.wrap(ports.sink),
        clock: Arc::clone(&ports.clock),
        ids: Arc::clone(&ports.ids),
    }
}
