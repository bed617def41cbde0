//! The machines' user data, validated by cloud-init's own JSON Schema.

use broker_domain::{MeshRole, Parameters, ResourceHandle};
use broker_render::{
    Agent, AgentFile, AgentProfile, AgentSource, AgentVariable, ApiUrl, Bootstrap, CloudTags,
    CompositionName, DebianPackage, Download, Identity, ImageReference, InjectionStrategy, XrInput,
    Xrd, inject_bootstrap, xr,
};
use broker_tests::documents::xrd;
use secrecy::SecretString;
use serde_json::{Value, json};

const ID: &str = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";

fn sources() -> Vec<AgentSource> {
    let package = DebianPackage::new("plexd").unwrap();
    let url = ApiUrl::new("https://host/plexd?x='$(reboot)'&y=%22;!*").unwrap();
    vec![
        AgentSource::Package(package.clone()),
        AgentSource::Package(package.in_version("1:1.4.2~rc1-1+b2").unwrap()),
        AgentSource::Image(ImageReference::new("plexsphere/plexd@sha256:00ff").unwrap()),
        AgentSource::Download(Download::new(url, "ab".repeat(32)).unwrap()),
    ]
}

/// The shipped profiles, and one with every kind of file and argument.
fn profiles() -> Vec<AgentProfile> {
    let settings = AgentFile::yaml([
        ("server.url", AgentVariable::ApiUrl.into()),
        ("server.token", AgentVariable::Token.into()),
        ("note", ": - {} # \n\"".into()),
    ]);
    let files = [
        ("/etc/meshd/agent.yaml", settings.unwrap()),
        ("/etc/meshd/project", AgentFile::text(AgentVariable::Project)),
    ];
    let url = AgentVariable::ApiUrl.into();
    let custom = AgentProfile::new("meshd", files)
        .and_then(|profile| profile.with_arguments(["run \"%n\" ; {{ v1 }} #".into(), url]))
        .and_then(|profile| profile.with_state_directory("/var/lib/meshd"));
    let shipped = AgentProfile::SHIPPED.map(|name| AgentProfile::shipped(name).unwrap());
    shipped.into_iter().chain([custom.unwrap()]).collect()
}

/// Tokens with special characters of YAML, templates, shells or JSON.
fn tokens() -> Vec<String> {
    let mut tokens: Vec<String> = [
        "plain",
        "\"",
        "'",
        "\\",
        "#cloud-config",
        ": ",
        "- x",
        "{{ v1 }}",
        "$(reboot)",
        "; reboot #",
        "\" , content: \"",
        "*anchor",
        "&anchor",
        "!tag",
        "|",
        "null",
        "true",
        "0600",
        "  spaces  ",
    ]
    .map(str::to_owned)
    .to_vec();
    tokens.extend([(' '..='~').collect(), "x".repeat(512), "\\\"".repeat(256)]);
    tokens
}

fn document(token: &str, agent: &Agent) -> String {
    let spec = json!({"type": "object", "properties": {"userData": {"type": "string"}}});
    let xrd = xrd("example.org", ("Machine", "machines"), &["v1"], &spec);
    let xrd = Xrd::parse(xrd.to_string().as_bytes()).unwrap();
    let (parameters, tags) = (Parameters::default(), CloudTags::default());
    let rendered = xr(&XrInput {
        xrd: &xrd,
        composition: CompositionName::new("machine").unwrap(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: MeshRole::Node,
        identity: Identity {
            resource: ID.parse().unwrap(),
            project: ID.parse().unwrap(),
            blueprint_version: ID.parse().unwrap(),
        },
        parameters: &parameters,
        tags: &tags,
    })
    .unwrap();
    let sealed = inject_bootstrap(
        &rendered,
        &Bootstrap {
            token_id: ID.parse().unwrap(),
            token: &SecretString::from(token),
            api_url: &ApiUrl::new("https://api.example/x?y='z'&w=$(reboot)").unwrap(),
            agent,
            handle: &ResourceHandle::new("true").unwrap(),
        },
    )
    .unwrap();
    let object: Value = serde_json::from_slice(&sealed.expose_for_apply()).unwrap();
    object["spec"]["userData"].as_str().unwrap().to_owned()
}

#[test]
fn every_document_satisfies_the_schema_of_cloud_init() {
    let path = broker_test_servers::tools::cloud_init_schema()
        .unwrap_or_else(|error| panic!("{}", broker_app::one_line(&*error)));
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let schema = jsonschema::options().offline().build(&schema).unwrap();
    let schema_errors = |document: &Value| -> Vec<String> {
        schema.iter_errors(document).map(|error| error.to_string()).collect()
    };

    // Negative control: the schema rejects an invalid document.
    assert_ne!(schema_errors(&json!({"write_files": [{"content": "no path"}]})), [""; 0]);
    assert_ne!(schema_errors(&json!({"runcmd": {"not": "a list"}})), [""; 0]);
    assert_ne!(schema_errors(&json!({"write_files": [{"path": "/a", "mode": "0600"}]})), [""; 0]);

    for token in tokens() {
        for source in sources() {
            for profile in profiles() {
                let agent = Agent::default().with_source(source.clone()).with_profile(profile);
                let text = document(&token, &agent);
                let read: Value = serde_saphyr::from_str(&text).unwrap();
                assert_eq!(schema_errors(&read), [""; 0], "{text}");
            }
        }
    }
}
