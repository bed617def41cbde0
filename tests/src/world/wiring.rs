//! The wiring of the in-memory world: the decisions of a composition root.

use std::time::Duration;

use broker_app::BrokerConfig;
use broker_app::decide::Mode;
use broker_ports::Deadlines;
use broker_render::{ApiUrl, Xrd};
use broker_testkit::builders::{rows, worker};
use serde_json::{Value, json};

use super::LEASE;
use crate::documents::xrd;

/// A replica's configuration. It sweeps every half minute and removes no orphans. It differs from the defaults where a
/// test would otherwise have to wait, or to bring more resources and events before a limit counts: shorter timeouts and
/// intervals, fewer workers, attempts and deliveries.
#[must_use]
pub fn config(replica: &str) -> BrokerConfig {
    let mut config = BrokerConfig::new(ApiUrl::new("https://mesh.example.org").expect("a URL"));
    config.worker = worker(replica);
    config.deadlines = Deadlines::each(Duration::from_secs(5));
    assert_eq!(config.lease, LEASE, "tests advance the clock by the default lease");
    config.poll_interval = Duration::from_millis(200);
    config.wait_interval = Duration::from_millis(50);
    config.workers_per_lane = 4;
    config.stop_within = Duration::from_secs(5);
    config.event_attempts = 3;
    config.deliveries_at_once = rows(10);
    config
}

/// The same with changes.
#[must_use]
pub fn config_with(change: impl FnOnce(&mut BrokerConfig)) -> BrokerConfig {
    let mut config = config("replica-1");
    change(&mut config);
    config
}

pub(crate) fn in_mode(replica: &str, mode: Mode) -> BrokerConfig {
    let mut config = config(replica);
    config.mode = mode;
    config
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
#[must_use]
pub fn xrd_of(kind: &str, plural: &str) -> Xrd {
    Xrd::parse(xrd_document("example.org", kind, plural).to_string().as_bytes())
        .expect("the world's own XRD")
}
