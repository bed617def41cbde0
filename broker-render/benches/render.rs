//! Benchmark of the renderer: instructions per operation. `cargo xtask bench render` runs it under callgrind.
//!
//! Arguments: a case name and a repetition count run that case; `--list` prints the case names; anything else
//! runs each case once. The cost of a case is the difference between two repetition counts, which cancels its
//! setup.

#![expect(clippy::expect_used, reason = "a benchmark without its setup cannot measure")]

use std::collections::BTreeMap;
use std::hint::black_box;

use broker_domain::{MeshRole, Parameters, ResourceHandle};
use broker_render::{
    Agent, ApiUrl, Armed, Bootstrap, CloudTags, CompositionName, Identity, InjectionStrategy,
    ParameterSchema, Provider, XrInput, Xrd, cloud_tags, inject_bootstrap, owned_digest, xr,
};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

type Case = (&'static str, fn(usize));

const CASES: [Case; 5] = [
    ("validate a declaration", validate_a_declaration),
    ("render a composite resource", render_a_composite_resource),
    ("arm with a token", arm_with_a_token),
    ("compute the desired digest", compute_the_desired_digest),
    ("compute the digest of a live object", compute_the_digest_of_a_live_object),
];

const ID: &str = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";

const DECLARATION: &str = r#"{"size": "large", "replicas": 3, "image": "debian-12", "zones": ["a", "b"],
    "network": {"cidr": "10.0.0.0/16"}, "database": {"secretRef": {"name": "db", "key": "password"}}}"#;

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

fn validate_a_declaration(times: usize) {
    let schema = schema();
    for _ in 0..times {
        black_box(schema.validate(black_box(DECLARATION)).expect("a valid declaration"));
    }
}

/// Renders a shell from validated parameters and tags, including the check against the XRD.
fn render_a_composite_resource(times: usize) {
    let fixture = Fixture::new();
    for _ in 0..times {
        let rendered = xr(black_box(&fixture.input())).expect("a valid input");
        black_box(rendered.shell(1).to_bytes());
    }
}

fn arm_with_a_token(times: usize) {
    let fixture = Fixture::new();
    let input = fixture.input();
    let rendered = xr(&input).expect("a valid input");
    let token = SecretString::from("7f3a9b0c".repeat(8));
    let api_url = ApiUrl::new("https://api.plexsphere.example").expect("a valid URL");
    let agent = Agent::default();
    let handle = ResourceHandle::new("web-1").expect("a valid handle");
    let token_id = ID.parse().expect("an id");
    let bootstrap =
        Bootstrap { token_id, token: &token, api_url: &api_url, agent: &agent, handle: &handle };
    for _ in 0..times {
        let sealed = inject_bootstrap(&rendered, black_box(&bootstrap)).expect("a valid token");
        black_box(sealed.expose_for_apply());
    }
}

/// The sweep's work per resource: render and compute the desired digest.
fn compute_the_desired_digest(times: usize) {
    let fixture = Fixture::new();
    for _ in 0..times {
        let rendered = xr(black_box(&fixture.input())).expect("a valid input");
        black_box(rendered.armed(&Armed::Standalone).digest());
    }
}

/// The watch's work per change: compute the digest of the live object.
fn compute_the_digest_of_a_live_object(times: usize) {
    let fixture = Fixture::new();
    let rendered = xr(&fixture.input()).expect("a valid input");
    let manifest = rendered.armed(&Armed::Standalone);
    let mut live = Value::Object(manifest.as_object().clone());
    let owned =
        json!({"f:metadata": field_set(&live["metadata"]), "f:spec": field_set(&live["spec"])});
    live["metadata"]["managedFields"] = json!([
        {"manager": "plexsphere-provisioning-broker", "operation": "Apply", "fieldsV1": owned},
    ]);
    for _ in 0..times {
        black_box(owned_digest(black_box(&live)));
    }
}

fn field_set(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flat_map(Map::iter);
    fields.map(|(key, value)| (format!("f:{key}"), field_set(value))).collect()
}

fn schema() -> ParameterSchema {
    let schema = json!({"parameters": [
        {"name": "size", "type": "string", "enum": ["small", "medium", "large"], "required": true},
        {"name": "replicas", "type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        {"name": "image", "type": "string", "pattern": "^[a-z0-9-]+$", "maxLength": 63},
        {"name": "zones", "type": "array", "items": {"type": "string"}, "maxItems": 8},
        {"name": "network", "type": "object", "properties": {"cidr": {"type": "string"}}},
        {"name": "backups", "type": "boolean", "default": true},
        {"name": "database", "type": "string", "secret": true},
    ]});
    ParameterSchema::from_value(&schema).expect("a valid schema")
}

struct Fixture {
    xrd: Xrd,
    parameters: Parameters,
    tags: CloudTags,
}

impl Fixture {
    fn new() -> Self {
        let labels: BTreeMap<_, _> =
            (0..8).map(|n| (format!("label-{n}"), format!("value-{n}"))).collect();
        let provider = Provider::new("hcloud").expect("a provider");
        Self {
            xrd: Xrd::parse(include_bytes!("render.xrd.yaml")).expect("a valid XRD"),
            parameters: schema().validate(DECLARATION).expect("a valid declaration").into(),
            tags: cloud_tags(&provider, &labels),
        }
    }

    fn input(&self) -> XrInput<'_> {
        XrInput {
            xrd: &self.xrd,
            composition: CompositionName::new("machine").expect("a name"),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Node,
            identity: Identity {
                resource: ID.parse().expect("an id"),
                project: ID.parse().expect("an id"),
                blueprint_version: ID.parse().expect("an id"),
            },
            parameters: &self.parameters,
            tags: &self.tags,
        }
    }
}
