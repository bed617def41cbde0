//! How the world is wired: what a composition root decides.

use std::sync::Arc;
use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::explain::Budgets;
use broker_app::{ReconcilerConfig, RelayConfig, RunnerConfig, ServiceConfig};
use broker_ports::{Deadlines, ReconcilerPorts};
use broker_render::{Agent, ApiUrl, ProviderProfiles, Xrd};
use broker_testkit::builders::{rows, worker};
use broker_testkit::faults::Faults;

use super::LEASE;

/// The same ports, each with the faults of one plan.
pub(super) fn decorated(ports: &ReconcilerPorts, faults: &Faults) -> ReconcilerPorts {
    let ports = ports.clone();
    ReconcilerPorts {
        repository: faults.around(ports.repository),
        schedule: faults.around(ports.schedule),
        cluster: faults.around(ports.cluster),
        tokens: faults.around(ports.tokens),
        nodes: faults.around(ports.nodes),
        blueprints: faults.around(ports.blueprints),
        clouds: faults.around(ports.clouds),
        credentials: faults.around(ports.credentials),
        assignments: faults.around(ports.assignments),
        labels: faults.around(ports.labels),
        audit: faults.around(ports.audit),
        clock: Arc::clone(&ports.clock),
        ids: Arc::clone(&ports.ids),
    }
}

/// A runner that looks at everything every half minute and removes nothing.
#[must_use]
pub fn runner_config() -> RunnerConfig {
    RunnerConfig {
        sweep_interval: Duration::from_secs(30),
        poll_interval: Duration::from_millis(200),
        workers_per_lane: 4,
        strict: false,
        stop_within: Duration::from_secs(5),
        retention: None,
    }
}

pub(crate) fn relay_config() -> RelayConfig {
    RelayConfig {
        worker: worker("relay"),
        concurrency: rows(10),
        claim_for: Duration::from_secs(30),
        store_deadline: Duration::from_secs(5),
        deliver_deadline: Duration::from_secs(5),
        most_attempts: 3,
        source: "/provisioning-broker".to_owned(),
    }
}

/// A facade with the usual budgets.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn service_config() -> ServiceConfig {
    ServiceConfig {
        deadlines: deadlines(),
        profiles: ProviderProfiles::default(),
        api_url: Some(ApiUrl::new("https://mesh.example.org").expect("a URL")),
        agent: Agent::default(),
        worker: worker("service"),
        lease: LEASE,
        poll: Duration::from_millis(50),
        mode: Mode::Live,
        budgets: Budgets::default(),
    }
}

pub(super) fn reconciler_config(name: &str, mode: Mode) -> ReconcilerConfig {
    ReconcilerConfig {
        worker: worker(name),
        lease: LEASE,
        lease_margin: Duration::from_secs(5),
        deadlines: deadlines(),
        token_ttl: Duration::from_hours(1),
        api_url: ApiUrl::new("https://mesh.example.org").expect("a URL"),
        agent: Agent::default(),
        profiles: ProviderProfiles::default(),
        allowance: broker_ports::Allowance::default(),
        mode,
    }
}

fn deadlines() -> Deadlines {
    let patience = Duration::from_secs(5);
    Deadlines {
        store: patience,
        resolve: patience,
        cluster_read: patience,
        cluster_write: patience,
        token: patience,
        node: patience,
        deliver: patience,
    }
}

pub(super) fn xrd_document(kind: &str, plural: &str) -> String {
    format!(
        "apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {{name: {plural}.example.org}}
spec:
  group: example.org
  names: {{kind: {kind}, plural: {plural}}}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              userData: {{type: string}}
              cloudTags: {{type: object, additionalProperties: {{type: string}}}}
              parameters:
                type: object
                properties:
                  size: {{type: string}}
                  count: {{type: integer}}
"
    )
}

/// The XRD of one of the world's kinds.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn xrd_of(kind: &str, plural: &str) -> Xrd {
    Xrd::parse(xrd_document(kind, plural).as_bytes()).expect("the world's own XRD")
}
