//! Observe: counts the instructions to decode API server responses. `cargo xtask bench observe` runs it under
//! callgrind.
//!
//! Arguments: a case name and a repetition count run that case; `--list` prints the case names; anything else runs each
//! case once. The cost of a case is the difference between two repetition counts, which cancels its setup.

#![expect(clippy::expect_used, reason = "a benchmark without its fixture has no result")]

use std::hint::black_box;

use broker_ports::{CachedXr, LiveObject, LiveXr};
use broker_render::XrdScope;
use serde_json::{Value, json};

/// A case: its name and a function that runs it n times.
type Case = (&'static str, fn(usize));

const CASES: [Case; 4] = [
    ("read the JSON of a composite resource", read_the_json),
    ("decode a reading", decode_a_reading),
    ("decode the cached view", decode_the_cached_view),
    ("decode a ProviderConfig", decode_a_provider_config),
];

const ID: &str = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [flag] if flag == "--list" => CASES.iter().for_each(|(name, _)| println!("{name}")),
        [name, times] => {
            let case = CASES.iter().find(|(known, _)| known == name);
            let (_, run) = case.expect("--list names the cases");
            run(times.parse().expect("a repetition count"));
        }
        _ => CASES.iter().for_each(|(_, run)| run(1)),
    }
}

/// Parses bytes to a JSON value: the lower bound for any decoding.
fn read_the_json(times: usize) {
    let bytes = composite().to_string().into_bytes();
    for _ in 0..times {
        black_box(parsed(&bytes));
    }
}

/// Decodes bytes to the composite resource of a reading.
fn decode_a_reading(times: usize) {
    let bytes = composite().to_string().into_bytes();
    for _ in 0..times {
        let live = LiveXr::from_json(parsed(&bytes), XrdScope::Namespaced);
        black_box(live.expect("a stored object"));
    }
}

/// Decodes bytes to the cached view, digests included.
fn decode_the_cached_view(times: usize) {
    let bytes = composite().to_string().into_bytes();
    for _ in 0..times {
        let cached = CachedXr::of(&parsed(&bytes), XrdScope::Namespaced);
        black_box(cached.expect("a stored object"));
    }
}

fn decode_a_provider_config(times: usize) {
    let bytes = provider_config().to_string().into_bytes();
    for _ in 0..times {
        black_box(LiveObject::from_json(parsed(&bytes)).expect("a stored object"));
    }
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(black_box(bytes)).expect("a document")
}

/// A healthy composite resource with six parameters, eight tags and three composed objects.
fn composite() -> Value {
    let parameters = json!({
        "size": "large", "replicas": 3, "image": "debian-12", "zones": ["a", "b"],
        "network": {"cidr": "10.0.0.0/16"}, "backups": true,
    });
    let tags: Value = (0..8).map(|n| (format!("label-{n}"), format!("value-{n}"))).collect();
    let references: Vec<_> = ["server", "volume", "network"]
        .map(|part| {
            json!({"apiVersion": "hcloud.crossplane.io/v1", "kind": "Part", "name": format!("pr-{ID}-{part}")})
        })
        .into();
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "observedGeneration": 4,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut composite = json!({
        "apiVersion": "example.org/v1",
        "kind": "Machine",
        "metadata": metadata(),
        "spec": {"parameters": parameters, "cloudTags": tags, "userData": user_data()},
    });
    let owned = json!({"f:metadata": {"f:labels": fields(&composite["metadata"]["labels"])}, "f:spec": fields(&composite["spec"])});
    composite["metadata"]["managedFields"] = json!([
        {"manager": "plexsphere-provisioning-broker", "operation": "Apply", "fieldsV1": owned},
        {"manager": "crossplane", "operation": "Update", "fieldsV1": {"f:status": {"f:conditions": {}}}},
    ]);
    composite["spec"]["crossplane"] = json!({"resourceRefs": references});
    composite["status"] = json!({
        "conditions": [condition("Synced", "ReconcileSuccess"), condition("Ready", "Available")],
    });
    composite
}

fn provider_config() -> Value {
    json!({
        "apiVersion": "hcloud.crossplane.io/v1beta1",
        "kind": "ProviderConfig",
        "metadata": metadata(),
        "spec": {"region": "eu-1", "credentials": {"source": "Secret", "secretRef": {"name": "cloud-credentials"}}},
    })
}

fn metadata() -> Value {
    json!({
        "name": format!("pr-{ID}"),
        "namespace": format!("plexsphere-project-{ID}"),
        "uid": ID,
        "resourceVersion": "1234567",
        "generation": 4,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {
            "app.kubernetes.io/managed-by": "plexsphere-provisioning-broker",
            "plexsphere.io/project": ID, "plexsphere.io/resource": ID, "plexsphere.io/blueprint-version": ID,
        },
        "annotations": {"plexsphere.io/armed": ID, "plexsphere.io/epoch": "1"},
    })
}

/// Text of the length of a cloud-init document.
fn user_data() -> String {
    format!("#cloud-config\n{}", "runcmd: [\"a line like any other\"]\n".repeat(40))
}

/// Converts an object to the notation of `managedFields`.
fn fields(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(key, value)| (format!("f:{key}"), nested_fields(value))).collect()
}

fn nested_fields(value: &Value) -> Value {
    if value.is_object() { fields(value) } else { json!({}) }
}
