//! The test world: the real service and reconciler over in-memory adapters.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Bytes;
use broker_app::{Reconciler, Service};
use broker_domain::{Declaration, MeshRole, ProvisionedResource, ProvisionedResourceId};
use broker_embed::Broker;
use broker_memory::{
    Behaviour, BlueprintDocuments, ManualClock, MemoryAdapters, MemoryCluster, MemoryPlatform,
    MemoryStore,
};
use broker_ports::{AccessScope, Actor, CorrelationId, EventSink, Ports, RequestContext};
use broker_render::catalog::{
    Blueprint, BlueprintReport, BlueprintResult, ComposedKind, Files, ImportReport, Published,
    Source, compare,
};
use broker_render::{InjectionStrategy, ProviderConfigUse, Xrd};
use broker_testkit::builders::{id, project, second};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::cli::{Migrate, RunArguments};
use crate::demo::world::config;
use crate::failure::{Exit, Failure};
use crate::program::{self, Environment};
use crate::settings::{self, Replica, Settings};
use crate::wiring::{ImportMode, Migration, Wiring};

/// The flags of a declaration. Its blueprint is standalone and has a required `size` and an optional object `disk`.
pub(crate) const DECLARATION: [&str; 8] = [
    "--project=00000000-0000-0000-0000-000000000001",
    "--resource=00000000-0000-0000-0000-000000000002",
    "--blueprint-version=00000000-0000-0000-0000-0000000000b1",
    "--credential=00000000-0000-0000-0000-000000000004",
    "--set",
    "size=small",
    "--request-id",
    "r1",
];

const BLUEPRINT: u128 = 0xb1;

pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) store: MemoryStore,
    pub(crate) cluster: MemoryCluster,
    pub(crate) service: Service,
    pub(crate) reconciler: Reconciler,
    ports: Ports,
    published: Mutex<Vec<PublishedFiles>>,
}

/// An imported blueprint.
struct PublishedFiles {
    slug: String,
    version: String,
    files: [Vec<u8>; 3],
}

impl PublishedFiles {
    fn of(report: &BlueprintReport, source: &Source<'_>) -> Self {
        let Files { metadata, xrd, composition } = source.files().unwrap();
        let version = report.version().unwrap().to_owned();
        let files = [metadata, xrd, composition].map(<[u8]>::to_vec);
        Self { slug: report.slug.clone(), version, files }
    }

    fn view(&self, number: u128) -> Published<'_> {
        let [metadata, xrd, composition] = &self.files;
        let files = Files { metadata, xrd, composition };
        Published { id: id(number), slug: &self.slug, version: &self.version, files }
    }
}

/// The output and exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    /// A world whose Crossplane behaves this way for every resource.
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        let platform = MemoryPlatform::new();
        publish_blueprint(&platform.adapters, behaviour);
        let ports = platform.ports();
        let MemoryAdapters { clock, store, cluster, .. } = platform.adapters;
        // Short: tests of `--wait` wait in real time.
        let mut config = config().unwrap();
        config.wait_interval = Duration::from_millis(50);
        let built = Broker::configured(config).ports(ports.clone()).parts().unwrap();
        let (service, reconciler) = (built.service, built.reconciler);
        Self { service, reconciler, ports, published: Mutex::default(), clock, store, cluster }
    }

    /// Runs one pass over a resource and one round of Crossplane.
    pub(crate) async fn run_round(&self, id: ProvisionedResourceId) {
        self.reconciler.reconcile(id).await.unwrap();
        self.clock.advance(Duration::from_secs(1));
        self.cluster.tick();
    }

    /// Runs rounds until the resource is settled.
    pub(crate) fn settle(&self, id: ProvisionedResourceId) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for _ in 0..12 {
                self.run_round(id).await;
            }
        });
    }

    /// Declares the world's resource, inside a runtime.
    pub(crate) async fn declare_now(&self) -> ProvisionedResourceId {
        let declaration = Declaration::new(project(1), id(2), id(BLUEPRINT), id(4))
            .with_parameters(r#"{"size": "small"}"#);
        self.service.provision(&operator(), &declaration).await.unwrap().id()
    }

    /// Reads the stored resource, inside a runtime.
    pub(crate) async fn stored(&self, id: ProvisionedResourceId) -> ProvisionedResource {
        self.service.get(&operator(), id).await.unwrap()
    }

    /// Runs a command line.
    pub(crate) fn run_command(&self, arguments: &[&str]) -> CommandOutput {
        self.run_command_in(&[(settings::DSN, "postgres://broker@localhost/broker")], "", arguments)
    }

    /// The JSON output of a command line that succeeds.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.run_command(&[arguments, &["--output=json"]].concat()).json()
    }

    /// Runs a command line with an environment and a standard input.
    pub(crate) fn run_command_in(
        &self,
        environment: &[(&str, &str)],
        stdin: &str,
        arguments: &[&str],
    ) -> CommandOutput {
        let environment: BTreeMap<_, _> = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let environment = Environment {
            variables: &|| Ok(environment.clone()),
            wiring: self,
            stdin: &mut Cursor::new(stdin.to_owned()),
            stdout: &mut out,
            stderr: &mut err,
        };
        let arguments = ["provisioning-broker"].iter().chain(arguments).map(Into::into);
        let exit = program::run(arguments, environment);
        let text = |bytes| String::from_utf8(bytes).unwrap();
        CommandOutput { exit, out: text(out), err: text(err) }
    }

    /// Declares the world's resource and returns its id.
    pub(crate) fn declare(&self) -> ProvisionedResourceId {
        let declared = self.json(&[&["provision"], &DECLARATION[..]].concat());
        declared["id"].as_str().unwrap().parse().unwrap()
    }
}

impl CommandOutput {
    /// The JSON output of a successful command.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!((self.exit, self.err.as_str()), (Exit::Success, ""));
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

#[async_trait]
impl Wiring for World {
    async fn service(&self, _: &Settings) -> Result<Service, Failure> {
        Ok(self.service.clone())
    }

    async fn replica(
        &self,
        replica: Replica<'_>,
        arguments: &RunArguments,
        sink: Arc<dyn EventSink>,
    ) -> Result<Broker, Failure> {
        let ports = Ports { sink, ..self.ports.clone() };
        let mut config = config().unwrap();
        config.sweep_interval = replica.settings.reconcile_interval;
        config.poll_interval = Duration::from_millis(20);
        config.strict = arguments.strict;
        config.retention = arguments.retention;
        Ok(Broker::configured(config).ports(ports).build().await?)
    }

    async fn migrate(&self, _: &Settings, command: Migrate) -> Result<Vec<Migration>, Failure> {
        let last = match command {
            Migrate::Up { .. } => 2,
            Migrate::Down { to, .. } => to,
            Migrate::Status { .. } | Migrate::Sql { .. } => 1,
        };
        let migration = |version: u32, name: &str| Migration {
            version,
            name: name.to_owned(),
            applied_at: (version <= last).then(|| second(version.into())),
        };
        Ok(vec![migration(1, "first"), migration(2, "second")])
    }

    async fn import(
        &self,
        _: &Settings,
        mode: ImportMode,
        sources: &[Source<'_>],
    ) -> Result<ImportReport, Failure> {
        let mut published = self.published.lock().unwrap();
        let views: Vec<_> = (1..).zip(&*published).map(|(number, it)| it.view(number)).collect();
        let mut report = compare(sources, &views);
        if mode == ImportMode::Diff || report.is_refused() {
            return Ok(report);
        }
        for (source, line) in sources.iter().zip(&mut report.blueprints) {
            if line.result == BlueprintResult::Imported {
                published.push(PublishedFiles::of(line, source));
                line.id = Some(id(published.len() as u128));
            }
        }
        Ok(report)
    }

    fn rbac(&self, blueprints: &[Blueprint]) -> Result<String, Failure> {
        let slugs: Vec<_> = blueprints.iter().map(|blueprint| blueprint.slug.as_str()).collect();
        Ok(format!("- {}\n", slugs.join("\n- ")))
    }
}

/// Sends a GET request; returns status and body.
pub(crate) async fn http_get(address: SocketAddr, path: &str) -> (u16, String) {
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let response = client.get(format!("http://{address}{path}").parse().unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

pub(crate) fn operator() -> RequestContext {
    let correlation_id = CorrelationId::new("test").unwrap();
    RequestContext::new(Actor::new("user:test").unwrap(), AccessScope::All, correlation_id)
}

/// Adds the world's blueprint to the sample platform.
fn publish_blueprint(adapters: &MemoryAdapters, behaviour: Behaviour) {
    let xrd = Arc::new(Xrd::parse(XRD.as_bytes()).unwrap());
    adapters.cluster.install_xrd(&xrd);
    adapters.cluster.behave(&xrd, behaviour);
    let schema = r#"{"parameters": [{"name": "size", "type": "string", "required": true},
                                    {"name": "disk", "type": "object"}]}"#;
    let documents = BlueprintDocuments {
        xrd: XRD.into(),
        composition: BlueprintDocuments::composition_named("bucket"),
        parameter_schema: schema.into(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: MeshRole::Standalone,
        composed_kinds: vec![ComposedKind {
            api_version: "nop.crossplane.io/v1alpha1".to_owned(),
            kind: "NopResource".to_owned(),
        }],
        provider_config: ProviderConfigUse::PerResource,
    };
    adapters.platform.publish(id(BLUEPRINT), documents);
}

/// The XRD of the world's blueprint.
pub(crate) const XRD: &str = "
apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {name: buckets.example.org}
spec:
  group: example.org
  names: {kind: Bucket, plural: buckets}
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
              cloudTags: {type: object, additionalProperties: {type: string}}
              parameters:
                type: object
                properties:
                  size: {type: string}
                  disk: {type: object, properties: {gb: {type: integer}}}
";
