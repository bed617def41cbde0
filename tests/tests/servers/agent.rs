//! A machine boots with the document that the broker rendered, and its agent enrols: for each source, and for each reason
//! why it cannot.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use broker_app::Reconciler;
use broker_domain::{BootstrapTokenId, Phase, ProvisionedResource};
use broker_memory::{EnrolError, MemoryMesh};
use broker_ports::{AuditAction, TokenIssuer as _};
use broker_render::{
    AgentProfile, AgentSource, ApiUrl, DebianPackage, Download, ImageReference, token_in,
};
use broker_test_servers::agent::machine::{Machine, download_sha256};
use broker_test_servers::agent::register::{ControlPlane, Refusal, Registration};
use broker_test_servers::agent::{CAPABILITIES, ROOT, start};
use broker_tests::world::{NODE, World, config_with, declaration, operator, project};
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::runtime::Handle;

const CONFIG: &str = "/etc/plexd/config.yaml";
const TOKEN: &str = "/etc/plexd/bootstrap-token";
const IDENTITY: &str = "/var/lib/plexd/identity.json";

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_plexd"))
}

fn package() -> AgentSource {
    AgentSource::Package(DebianPackage::new("plexd").unwrap())
}

fn sources() -> [(&'static str, AgentSource); 3] {
    let image = ImageReference::new(format!("plexsphere/plexd@sha256:{}", "5e".repeat(32)));
    let url = ApiUrl::new("https://downloads.example.org/plexd").unwrap();
    let download = Download::new(url, download_sha256()).unwrap();
    [
        ("apt-get install", package()),
        ("apt-get install", AgentSource::Image(image.unwrap())),
        ("curl ", AgentSource::Download(download)),
    ]
}

/// Consumes the token through the issuer. Checks Project and handle first, as the real control plane does.
fn enrol(mesh: &MemoryMesh, request: &Registration) -> Result<String, Refusal> {
    if request.resource_handle != "web-1" {
        return Err(Refusal::of("resource_not_found"));
    }
    if request.project_id != project().to_string() {
        return Err(Refusal::of("project_mismatch"));
    }
    let node = mesh.enrol(&request.bootstrap_token).map_err(|error| match error {
        EnrolError::Consumed => Refusal::of("token_consumed"),
        EnrolError::Expired => Refusal::of("token_expired"),
        EnrolError::Invalidated => Refusal::of("token_revoked"),
        EnrolError::Unknown => Refusal::of("unauthorized"),
        _ => Refusal::unavailable(),
    })?;
    mesh.join(node).map_err(|_| Refusal::of("conflict"))?;
    Ok(node.to_string())
}

/// A world whose resource waits for its agent, the agents' control plane, and the document of the machine.
struct Scene {
    world: World,
    control_plane: ControlPlane,
    resource: ProvisionedResource,
    document: String,
    /// The reason with which the control plane refuses, without looking at the token.
    script: Arc<OnceLock<&'static str>>,
}

impl Scene {
    async fn new(source: AgentSource, profile: AgentProfile) -> Self {
        let mut world = World::new();
        let (script, token) = <(Arc<OnceLock<&str>>, Arc<OnceLock<BootstrapTokenId>>)>::default();
        let control_plane = {
            let (mesh, service, runtime) =
                (world.mesh.clone(), world.service.clone(), Handle::current());
            let (script, token) = (Arc::clone(&script), Arc::clone(&token));
            // The control plane knows the id of each token, and reports each refusal.
            let report = move |refusal: &Refusal| {
                let (context, token) = (operator(), *token.get().unwrap());
                let reason = refusal.to_string();
                let report = service.report_enrolment_refusal(&context, token, &reason);
                runtime.block_on(report).unwrap();
            };
            let answer = move |request: &Registration| match script.get() {
                Some(reason) => Err(Refusal::of(reason)),
                None => enrol(&mesh, request),
            };
            ControlPlane::start(answer, report).unwrap()
        };
        let config = config_with(|config| {
            config.api_url = Some(ApiUrl::new(control_plane.url()).unwrap());
            config.agent = config.agent.clone().with_source(source).with_profile(profile);
        });
        world.reconciler = Reconciler::new(world.ports.clone(), config);
        let resource = world.declare_until(Phase::Enrolling, &declaration(NODE)).await;
        token.set(resource.bootstrap_token_id().unwrap()).unwrap();
        world.agents_boot.store(false, Ordering::Relaxed);
        let machine = world.cluster.agent_documents().remove(0).machine;
        let object = world.cluster.object(&machine).unwrap();
        let document = object.pointer("/spec/forProvider/fields/userData").and_then(Value::as_str);
        Self { control_plane, resource, document: document.unwrap().to_owned(), script, world }
    }

    fn boot(&self) -> Machine {
        Machine::boot(&self.document, program()).unwrap()
    }
}

fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_of_each_source_enrols_once_and_survives_a_restart() {
    for (installed_by, source) in sources() {
        let scene = Scene::new(source.clone(), AgentProfile::plexd()).await;
        let machine = scene.boot();
        let log = machine.recorded().unwrap();
        assert!(log.contains(installed_by), "{source:?}: {log}");
        let first = machine.start().unwrap();
        let node = shown(&first);
        let node = node.strip_prefix("registered ").unwrap_or_else(|| panic!("{source:?}: {node}"));
        assert!(!machine.path(TOKEN).exists(), "{source:?}: the token is deleted after use");
        scene.world.until(scene.resource.id(), Phase::Ready).await;

        let again = machine.start().unwrap();
        assert_eq!(shown(&again), format!("resumed {node}"), "{source:?}");
        assert_eq!(scene.control_plane.requests(), 1, "{source:?}: no second registration");
        assert!(machine.path(IDENTITY).exists(), "{source:?}");
    }
}

type Change = fn(&Scene, &Machine);

/// Changes a setting of the configuration.
fn reconfigure(machine: &Machine, from: &str, to: &str) {
    let config = fs::read_to_string(machine.path(CONFIG)).unwrap();
    assert!(config.contains(from), "{config}");
    fs::write(machine.path(CONFIG), config.replace(from, to)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_agent_ends_and_explain_names_the_reason() {
    let rows: [(&str, Change); 10] = [
        ("401 unauthorized", |_, machine| fs::write(machine.path(TOKEN), "a guess").unwrap()),
        ("403 project_mismatch", |_, machine| {
            reconfigure(machine, &project().to_string(), "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10");
        }),
        ("403 token_consumed", |scene, _| drop(scene.boot().start().unwrap())),
        ("403 token_expired", |scene, _| scene.world.clock.advance(Duration::from_hours(2))),
        ("403 token_revoked", |scene, _| {
            let close = scene.world.tokens.close(scene.resource.id());
            tokio::task::block_in_place(|| Handle::current().block_on(close)).unwrap();
        }),
        ("403 kind_mismatch", |scene, _| scene.script.set("kind_mismatch").unwrap()),
        ("403 nonce_collision", |scene, _| scene.script.set("nonce_collision").unwrap()),
        ("404 resource_not_found", |_, machine| reconfigure(machine, "web-1", "web-2")),
        ("409 conflict", |scene, _| scene.script.set("conflict").unwrap()),
        ("422 invalid_request", |_, machine| reconfigure(machine, "web-1", &"w".repeat(513))),
    ];
    assert_eq!(
        rows.map(|(refusal, _)| refusal.to_owned()),
        Refusal::ALL.map(|it| Refusal::of(it.1).to_string())
    );
    for (refusal, change) in rows {
        let scene = Scene::new(package(), AgentProfile::plexd()).await;
        let machine = scene.boot();
        change(&scene, &machine);
        let before = scene.control_plane.requests();
        let output = machine.start().unwrap();
        assert_eq!(shown(&output), format!("plexd: refused: {refusal}"));
        assert_eq!(output.status.code(), Some(3), "{refusal}");
        assert_eq!(scene.control_plane.requests(), before + 1, "{refusal}: a refusal is final");
        assert!(machine.path(TOKEN).exists() && !machine.path(IDENTITY).exists(), "{refusal}");

        let id = scene.resource.id();
        let lines = scene.world.service.history(&operator(), id).await.unwrap();
        let last = &lines.last().unwrap().entry;
        assert_eq!(last.action, AuditAction::EnrolmentRefused, "{refusal}");
        assert_eq!(last.event_data.as_deref(), Some(refusal));
        // A consumed token has its Node, so nothing is left to explain.
        if refusal != "403 token_consumed" {
            let explanation =
                scene.world.service.explain(&operator(), id).await.unwrap().to_string();
            let explanation: Vec<_> = explanation.split_whitespace().collect();
            let explanation = explanation.join(" ");
            let expected = "the control plane refused its agent at ";
            assert!(
                explanation.contains(expected) && explanation.contains(refusal),
                "{explanation}"
            );
        }
    }
}

/// A root with a token and this configuration.
fn configured(config: &str) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("etc/plexd")).unwrap();
    fs::write(root.path().join(&TOKEN[1..]), "a token").unwrap();
    fs::write(root.path().join(&CONFIG[1..]), config).unwrap();
    root
}

fn start_in(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let arguments: Vec<_> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let environment = [
        (ROOT, root.to_str().unwrap()),
        (CAPABILITIES, "CAP_NET_ADMIN CAP_NET_RAW"),
        ("PLEXD_PROJECT_ID", "p"),
        ("PLEXD_RESOURCE_HANDLE", "h"),
    ];
    let environment: BTreeMap<_, _> =
        environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let started = start(&arguments, &environment).map_err(|error| error.to_string());
    started.map(|started| format!("{started:?}"))
}

#[test]
fn agent_without_a_usable_configuration_sends_nothing() {
    const UP: &[&str] = &["up", "--config", CONFIG];
    let plane = ControlPlane::start(|_| Ok("node".to_owned()), |_| {}).unwrap();
    let base = format!("api: {{base_url: {}}}\n", plane.url());
    let long = format!(
        "{base}registration: {{project_id: p, resource_handle: h, token_file: /etc/plexd/long}}"
    );
    for (why, config, arguments, message) in [
        ("bare", base.clone(), &[][..], "usage: plexd up [--config FILE]"),
        ("empty", String::new(), UP, "/etc/plexd/config.yaml: is empty or not YAML"),
        (
            "early 2026",
            format!("api_url: {}", plane.url()),
            UP,
            "/etc/plexd/config.yaml: api.base_url is required",
        ),
        ("no Project", base.clone(), UP, "registration.project_id is required"),
        (
            "no handle",
            format!("{base}registration: {{project_id: p}}"),
            UP,
            "registration.resource_handle is required",
        ),
        (
            "no file",
            base.clone(),
            &["up", "--config", "/etc/plexd/other"],
            "/etc/plexd/other: entity not found",
        ),
        ("no environment", base.clone(), &["up"], "PLEXD_API is required"),
        ("long token", long, UP, "/etc/plexd/long: a token has 1 to 512 printable ASCII bytes"),
    ] {
        let root = configured(&config);
        fs::write(root.path().join("etc/plexd/long"), "x".repeat(513)).unwrap();
        assert_eq!(start_in(root.path(), arguments), Err(message.to_owned()), "{why}");
    }
    assert_eq!(plane.requests(), 0);
}

/// The document for releases of early 2026 does not fit a current agent: the profile decides.
#[tokio::test(flavor = "multi_thread")]
async fn current_agent_cannot_enrol_from_an_early_document() {
    let scene = Scene::new(package(), AgentProfile::plexd_early_2026()).await;
    assert!(token_in(&scene.document).is_some_and(|token| !token.expose_secret().is_empty()));
    let output = scene.boot().start().unwrap();
    assert_eq!(shown(&output), "plexd: usage: plexd up [--config FILE]");
    assert_eq!(scene.control_plane.requests(), 0);
}
