//! Golden manifests: what is sent, for every strategy, scope, provider profile, with and without tags and
//! parameters, as files that people read in review.
//!
//! Each file begins with its XRD, so that the manifests behind it can be tried on a real API server. To
//! write them anew, run the test with `UPDATE_GOLDENS=1` and read the difference.

use broker_domain::{MeshRole, Parameters};
use broker_render::{
    Agent, AgentSource, ApiUrl, Armed, CloudTags, DebianPackage, Download, ImageReference,
    InjectionStrategy, Manifest, ParameterSchema, Provider, ProviderConfigInput,
    ProviderConfigScope, ProviderProfile, Scope, XrInput, Xrd, cloud_tags, inject_bootstrap,
    provider_config, secret_name, xr,
};
use serde_json::{Value, json};

use crate::support::{self, Injected, composition, data, identity, labels, read_yaml, write_yaml};

#[test]
fn every_strategy_in_every_scope() {
    for strategy in InjectionStrategy::ALL {
        for scope in Scope::ALL {
            let xrd = xrd_document(strategy.as_str(), scope);
            let mut documents = vec![xrd.clone()];
            for (provider, profile, agent) in profiles() {
                documents.push(value(&config(&profile)));
                for (parameters, tags) in contents(&provider) {
                    documents.push(armed(&xrd, strategy, &agent, &parameters, &tags));
                }
            }
            compare(&format!("{strategy}.{}", scope.as_str().to_lowercase()), &documents);
        }
    }
}

#[test]
fn shells_of_xrds_that_insist_on_their_injection_site() {
    for strategy in InjectionStrategy::ALL {
        let mut xrd = xrd_document(&format!("shell-{strategy}"), Scope::Namespaced);
        insist_on_site(&mut xrd, strategy);
        let parsed = parse(&xrd);
        let parameters = Parameters::default();
        let rendered = xr(&input(&parsed, strategy, MeshRole::Node, &parameters)).unwrap();
        let shell = value(&rendered.shell(7));
        compare(&format!("shell.{strategy}"), &[xrd, shell]);
    }
}

#[test]
fn a_shell_without_a_site_and_what_becomes_of_a_standalone_resource() {
    let xrd = xrd_document("standalone", Scope::Namespaced);
    let parsed = parse(&xrd);
    let strategy = InjectionStrategy::CloudInitUserData;
    let parameters = valid_parameters();
    let rendered = xr(&input(&parsed, strategy, MeshRole::Standalone, &parameters)).unwrap();
    let documents = [xrd, value(&rendered.shell(1)), value(&rendered.armed(&Armed::Standalone))];
    compare("standalone", &documents);
}

fn profiles() -> Vec<(Provider, ProviderProfile, Agent)> {
    let provider = |name: &str| Provider::new(name).unwrap();
    let package = DebianPackage::new("plexd").unwrap().in_version("1.4.2-1").unwrap();
    let image = ImageReference::new(format!("plexsphere/plexd@sha256:{}", "5e".repeat(32)));
    let url = ApiUrl::new("https://downloads.plexsphere.example/plexd/1.4.2/linux-amd64").unwrap();
    let download = Download::new(url, "ab".repeat(32)).unwrap();
    vec![
        (
            provider("hcloud"),
            ProviderProfile::of(&provider("hcloud")),
            Agent::default().with_source(AgentSource::Package(package)),
        ),
        (
            provider("aws"),
            ProviderProfile::of(&provider("aws"))
                .with_group("aws.m.upbound.io")
                .and_then(|profile| profile.with_kind("ClusterProviderConfig"))
                .unwrap()
                .with_scope(ProviderConfigScope::Cluster),
            Agent::default().with_source(AgentSource::Image(image.unwrap())),
        ),
        (
            provider("gcp"),
            ProviderProfile::of(&provider("gcp"))
                .with_version("v1")
                .unwrap()
                .with_secret_key("credentials.json"),
            Agent::default().with_source(AgentSource::Download(download)),
        ),
    ]
}

fn contents(provider: &Provider) -> [(Parameters, CloudTags); 4] {
    let tags = cloud_tags(provider, &labels(&[("team", "blue"), ("cost-centre", "4711")]));
    [
        (Parameters::default(), CloudTags::default()),
        (valid_parameters(), CloudTags::default()),
        (Parameters::default(), tags.clone()),
        (valid_parameters(), tags),
    ]
}

fn valid_parameters() -> Parameters {
    let schema = json!({"parameters": [
        {"name": "size", "type": "string", "enum": ["small", "large"], "required": true},
        {"name": "replicas", "type": "integer", "minimum": 1, "default": 1},
        {"name": "ratio", "type": "number", "maximum": 1},
        {"name": "zones", "type": "array", "items": {"type": "string"}},
        {"name": "database", "type": "string", "secret": true},
    ]});
    let values = json!({
        "size": "large",
        "ratio": 0.25,
        "zones": ["a", "b"],
        "database": {"secretRef": {"name": "database", "key": "password"}},
    });
    ParameterSchema::from_value(&schema).unwrap().validate(&values.to_string()).unwrap().into()
}

fn xrd_document(name: &str, scope: Scope) -> Value {
    let string = json!({"type": "string"});
    let api = if scope == Scope::LegacyCluster { "v1" } else { "v2" };
    let group = format!("{name}.{}.example.org", scope.as_str().to_lowercase());
    let parameters = json!({
        "size": {"type": "string", "enum": ["small", "large"]},
        "replicas": {"type": "integer", "minimum": 1},
        "ratio": {"type": "number"},
        "zones": {"type": "array", "items": string},
        "database": {"type": "object", "properties": {"secretRef": {
            "type": "object",
            "required": ["name", "key"],
            "properties": {"name": string, "key": string},
        }}},
        "helmValues": {"type": "object", "properties": {
            "bootstrapToken": string, "apiUrl": string, "plexdImage": string,
        }},
        "providerSecret": {"type": "object", "properties": {"bootstrapToken": string}},
    });
    let mut xrd = support::xrd_document(&json!({
        "type": "object",
        "properties": {
            "parameters": {"type": "object", "properties": parameters},
            "userData": string,
            "cloudTags": {"type": "object", "additionalProperties": string},
        },
    }));
    xrd["apiVersion"] = json!(format!("apiextensions.crossplane.io/{api}"));
    xrd["metadata"]["name"] = json!(format!("machines.{group}"));
    xrd["spec"]["group"] = json!(group);
    xrd["spec"]["scope"] = json!(scope.as_str());
    xrd["spec"]["versions"][0]["name"] = json!("v1alpha1");
    xrd
}

fn insist_on_site(xrd: &mut Value, strategy: InjectionStrategy) {
    let spec = &mut xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    match strategy {
        InjectionStrategy::CloudInitUserData => spec["required"] = json!(["userData"]),
        InjectionStrategy::HelmValues => {
            spec["required"] = json!(["parameters"]);
            let parameters = &mut spec["properties"]["parameters"];
            parameters["required"] = json!(["helmValues"]);
            parameters["properties"]["helmValues"]["required"] =
                json!(["bootstrapToken", "apiUrl", "plexdImage"]);
        }
        InjectionStrategy::ProviderSecret => {
            let parameters = &mut spec["properties"]["parameters"];
            parameters["required"] = json!(["providerSecret"]);
            spec["required"] = json!(["parameters"]);
        }
    }
}

fn parse(xrd: &Value) -> Xrd {
    Xrd::parse(write_yaml(xrd).as_bytes()).unwrap()
}

fn input<'a>(
    xrd: &'a Xrd,
    injection_strategy: InjectionStrategy,
    mesh_role: MeshRole,
    parameters: &'a Parameters,
) -> XrInput<'a> {
    static NO_TAGS: std::sync::LazyLock<CloudTags> = std::sync::LazyLock::new(CloudTags::default);
    XrInput {
        xrd,
        composition: composition(),
        injection_strategy,
        mesh_role,
        identity: identity(),
        parameters,
        tags: &NO_TAGS,
    }
}

fn armed(
    xrd: &Value,
    strategy: InjectionStrategy,
    agent: &Agent,
    parameters: &Parameters,
    tags: &CloudTags,
) -> Value {
    let xrd = parse(xrd);
    let rendered =
        xr(&XrInput { tags, ..input(&xrd, strategy, MeshRole::Node, parameters) }).unwrap();
    assert_eq!(rendered.skipped_tags(), []);
    let injected = Injected { agent: agent.clone(), ..Injected::token("golden-token") };
    let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
    canonical(&sealed.expose_for_apply())
}

fn config(profile: &ProviderProfile) -> Manifest {
    provider_config(&ProviderConfigInput {
        profile,
        identity: identity(),
        endpoint: r#"{"url": "https://cloud.example", "region": "eu-1"}"#,
        secret_name: &secret_name("kv", "projects/a/hetzner"),
    })
    .unwrap()
}

fn value(manifest: &Manifest) -> Value {
    canonical(&manifest.to_bytes())
}

/// What the bytes hold; and that they are the only bytes for it.
fn canonical(bytes: &[u8]) -> Value {
    let value: Value = serde_json::from_slice(bytes).unwrap();
    assert_eq!(sorted(&value).to_string().as_bytes(), bytes, "sorted keys, no spaces");
    value
}

/// Sorted, whatever order the JSON library keeps.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn compare(name: &str, documents: &[Value]) {
    let text = documents
        .iter()
        .map(write_yaml)
        .fold(String::new(), |text, document| text + "---\n" + &document);
    // The file says exactly what the bytes say.
    let read: Vec<_> = text.split("---\n").skip(1).map(read_yaml).collect();
    assert_eq!(read, documents, "{name} does not survive its own spelling");
    let path = data("goldens").join(format!("{name}.yaml"));
    #[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{} differs", path.display());
}
