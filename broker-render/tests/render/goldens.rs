//! Golden tests: the manifests for every strategy, scope and provider profile, with and without tags and
//! parameters.
//!
//! Each file begins with the XRD that its manifests are rendered from; another test applies them to a real
//! API server. To update the files, run the test with `UPDATE_GOLDENS=1` and review the diff.

use broker_domain::{MeshRole, Parameters};
use broker_render::{
    Agent, AgentSource, ApiUrl, Armed, CloudTags, DebianPackage, Download, ImageReference,
    InjectionStrategy, Manifest, ParameterSchema, Provider, ProviderConfigInput,
    ProviderConfigScope, ProviderProfile, Xrd, XrdScope, cloud_tags, inject_bootstrap,
    provider_config, secret_name, xr,
};
use serde_json::{Value, json};

use crate::support::{
    InjectionFixture, RenderFixture, data, identity, labels, read_yaml, value, write_yaml,
};

#[test]
fn manifests_of_each_strategy_and_scope_equal_their_golden_file() {
    for strategy in InjectionStrategy::ALL {
        for scope in XrdScope::ALL {
            compare_with_golden(&format!("{strategy}.{}", scope.as_str().to_lowercase()), |xrd| {
                let mut fixture = RenderFixture::node(strategy).with_xrd(xrd);
                let mut documents = Vec::new();
                for (provider, profile, agent) in profiles() {
                    documents.push(value(&config(&profile).to_bytes()));
                    let injected =
                        InjectionFixture { agent, ..InjectionFixture::token("golden-token") };
                    for content in contents(&provider) {
                        (fixture.parameters, fixture.tags) = content;
                        let rendered = xr(&fixture.input()).unwrap();
                        assert_eq!(rendered.skipped_tags(), []);
                        let sealed = inject_bootstrap(&rendered, &injected.bootstrap()).unwrap();
                        documents.push(value(&sealed.expose_for_apply()));
                    }
                }
                documents
            });
        }
    }
}

#[test]
fn shell_with_required_site_equals_its_golden_file() {
    for strategy in InjectionStrategy::ALL {
        compare_with_golden(&format!("shell.{strategy}"), |xrd| {
            let fixture = RenderFixture::node(strategy).with_xrd(xrd).with_parameters("{}");
            vec![value(&xr(&fixture.input()).unwrap().shell(7).to_bytes())]
        });
    }
}

#[test]
fn standalone_manifests_equal_their_golden_file() {
    compare_with_golden("standalone", |xrd| {
        let fixture = RenderFixture {
            xrd,
            mesh_role: MeshRole::Standalone,
            parameters: valid_parameters(),
            ..RenderFixture::node(InjectionStrategy::CloudInitUserData)
        };
        let rendered = xr(&fixture.input()).unwrap();
        [rendered.shell(1), rendered.armed(&Armed::Standalone)]
            .map(|manifest| value(&manifest.to_bytes()))
            .to_vec()
    });
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
                .and_then(|profile| profile.with_secret_key("credentials.json"))
                .unwrap(),
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

fn config(profile: &ProviderProfile) -> Manifest {
    provider_config(&ProviderConfigInput {
        profile,
        identity: identity(),
        endpoint: r#"{"url": "https://cloud.example", "region": "eu-1"}"#,
        secret_name: &secret_name("kv", "projects/a/hetzner"),
    })
    .unwrap()
}

/// Compares a file with the manifests rendered from the XRD at its beginning.
fn compare_with_golden(name: &str, make: impl FnOnce(Xrd) -> Vec<Value>) {
    let path = data("goldens").join(format!("{name}.yaml"));
    let golden = std::fs::read_to_string(&path).unwrap();
    let xrd = golden.split("---\n").nth(1).unwrap();
    let documents = make(Xrd::parse(xrd.as_bytes()).unwrap());
    let text = documents
        .iter()
        .map(write_yaml)
        .fold(format!("---\n{xrd}"), |text, document| text + "---\n" + &document);
    // The YAML must parse back to exactly the rendered objects.
    let read: Vec<_> = text.split("---\n").skip(2).map(read_yaml).collect();
    assert_eq!(read, documents, "{name} does not parse back");
    #[expect(clippy::disallowed_methods, reason = "the switch to update golden files")]
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    assert_eq!(text, golden, "{} differs", path.display());
}
