//! How the world is wired: what a composition root decides.

use std::time::Duration;

use broker_app::decide::Mode;
use broker_app::explain::Budgets;
use broker_app::{ReconcilerConfig, RelayConfig, RunnerConfig, ServiceConfig};
use broker_ports::Deadlines;
use broker_render::{Agent, ApiUrl, ProviderProfiles, Xrd};
use broker_testkit::builders::{rows, worker};
use serde_json::{Value, json};

use super::LEASE;
use crate::documents::xrd;

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

pub(crate) fn reconciler_config(name: &str, mode: Mode) -> ReconcilerConfig {
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
    crate::real::deadlines_of(Duration::from_secs(5))
}

/// The XRD of a kind of this world, with the fields of every blueprint.
#[must_use]
pub fn xrd_document(group: &str, kind: &str, plural: &str) -> Value {
    let text = json!({"type": "string"});
    let parameters = json!({"size": text, "count": {"type": "integer"}});
    let spec = json!({"type": "object", "properties": {
        "userData": text,
        "cloudTags": {"type": "object", "additionalProperties": text},
        "parameters": {"type": "object", "properties": parameters},
    }});
    xrd(group, (kind, plural), &["v1"], &spec)
}

/// The XRD of one of the world's kinds.
///
/// # Panics
///
/// Never.
#[must_use]
pub fn xrd_of(kind: &str, plural: &str) -> Xrd {
    Xrd::parse(xrd_document("example.org", kind, plural).to_string().as_bytes())
        .expect("the world's own XRD")
}
