//! A world for the binary in which every credential is a random secret, and all output is captured.

use std::sync::Arc;

use broker_render::secret_name;
use broker_tests::HttpProxy;
use broker_tests::real::RealWorld;
use broker_tests::secret_search::{LeakDetector, table_texts};
use broker_tests::world::SIZED;
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use uuid::Uuid;

use super::receiver::Receiver;
use super::secrets::Secrets;
use crate::servers::cli::process::{CommandOutput, EVENT_URL, Environment};

/// A blueprint with a parameter that accepts only a reference to a Secret.
pub(super) const SECRET_BLUEPRINT: u128 = 0xca;
const SECRET_SCHEMA: &str = r#"{"parameters":[{"name":"hush","type":"string","secret":true},{"name":"size","type":"string"}]}"#;

/// The prefix of places that are tables.
pub(super) const ROWS: &str = "the rows of ";

/// A copy of another blueprint with other parameters.
const INSERT_BLUEPRINT: &str = "INSERT INTO plexsphere.blueprint_versions
    (id, slug, version, display_name, description, provider_kinds, injection_strategy, mesh_role,
     parameter_schema, composed_kinds, metadata, xrd, composition)
SELECT $1, 'hushed', version, display_name, description, provider_kinds, injection_strategy, mesh_role,
     $2::text::json, composed_kinds, metadata, xrd, composition
FROM plexsphere.blueprint_versions WHERE id = $3";

pub(super) struct Fixture {
    pub(super) world: Arc<RealWorld>,
    pub(super) cluster: HttpProxy,
    pub(super) receiver: Receiver,
    pub(super) environment: Environment,
    pub(super) secrets: Secrets,
    pub(super) detector: LeakDetector,
}

impl Fixture {
    pub(super) async fn new(seed: u64) -> Self {
        let mut secrets = Secrets::seeded(seed);
        let world = Arc::new(RealWorld::new().await);
        let cluster = HttpProxy::start(world.broker.client.clone()).await;
        let receiver = Receiver::start().await;
        let (key, bearer) = (secrets.plain(), secrets.plain());
        let url = world.database().url();
        let event_url = format!("http://{}/hook/{key}?key={key}", receiver.address);
        let environment = Environment::new(&url, &with_bearer(&cluster.kubeconfig(), &bearer))
            .with(EVENT_URL, &event_url);
        let mut detector = LeakDetector::default();
        detector.secrets.insert(password_of(&url));
        sqlx::query(INSERT_BLUEPRINT)
            .bind(Uuid::from_u128(SECRET_BLUEPRINT))
            .bind(SECRET_SCHEMA)
            .bind(Uuid::from_u128(SIZED))
            .execute(world.pool())
            .await
            .unwrap();
        let credential = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": secret_name("kv", "team/cloud")},
            "stringData": {"credentials": secrets.special_characters()},
        });
        create(&world, "secrets", &credential).await;
        Self { world, cluster, receiver, environment, secrets, detector }
    }

    pub(super) async fn command(&mut self, words: &[String]) -> CommandOutput {
        let environment = self.environment.clone();
        self.command_in(&environment, words).await
    }

    pub(super) async fn command_in(
        &mut self,
        environment: &Environment,
        words: &[String],
    ) -> CommandOutput {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let output = environment.run(&words).await;
        self.record_command(words[0], &output);
        output
    }

    pub(super) fn record_command(&mut self, verb: &str, output: &CommandOutput) {
        self.detector.record(format!("the output of {verb}"), &output.out);
        self.detector.record(format!("the errors of {verb}"), &output.err);
    }

    pub(super) fn record_log(&mut self, lines: Vec<String>) {
        for line in lines {
            self.detector.record("the log", line);
        }
    }

    /// All captured output, with posted events, stored rows, and every secret.
    pub(super) async fn end(self) -> LeakDetector {
        let Self { world, receiver, secrets, mut detector, .. } = self;
        for post in receiver.posts() {
            detector.record("an event", post);
        }
        for (table, text) in table_texts(world.pool()).await {
            detector.record(format!("{ROWS}{table}"), text);
        }
        detector.secrets.extend(secrets.into_all());
        // The tokens of all machines, including those that commands declared.
        detector.secrets.extend(world.plaintexts());
        let written = world.crossplane.tokens().await;
        detector.secrets.extend(written.iter().map(|token| token.expose_secret().to_owned()));
        detector
    }
}

/// Creates an object in the Project's namespace as another party.
async fn create(world: &RealWorld, plural: &str, object: &Value) {
    let path = format!("/api/v1/namespaces/{}/{plural}", world.namespace());
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    world.admin.request::<Value>(request).await.unwrap();
}

/// A kubeconfig for the proxy with a bearer token, which the proxy forwards.
fn with_bearer(kubeconfig: &str, bearer: &str) -> String {
    let mut kubeconfig: Value = serde_json::from_str(kubeconfig).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": bearer});
    kubeconfig.to_string()
}

fn password_of(url: &str) -> String {
    let (user, _) = url.trim_start_matches("postgres://").split_once('@').unwrap();
    user.split_once(':').unwrap().1.to_owned()
}
