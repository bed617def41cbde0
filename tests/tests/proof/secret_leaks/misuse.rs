//! Misuse of secrets by operators and providers, and a capture of all output that results.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, Phase, ProvisionedResourceId};
use broker_memory::Behaviour;
use broker_ports::{
    ClusterEvent, Issue, IssueRequest, ListQuery, PortError, Repository, SweepQuery, TokenIssuer,
    TokenState, TtlWindow,
};
use broker_testkit::builders::rows;
use broker_tests::secret_search::LeakDetector;
use broker_tests::world::{World, declaration, operator};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::panics::PanickingMesh;
use crate::simulation::Declared;

/// A blueprint with a parameter that accepts only a reference to a Secret.
const SECRET_BLUEPRINT: u128 = 0xca;
const SECRET_BLUEPRINT_SCHEMA: &str = r#"{"parameters":[{"name":"hush","type":"string","secret":true},{"name":"size","type":"string"}]}"#;

/// An issuer that records the tokens it issues.
struct RecordingIssuer {
    tokens: Arc<dyn TokenIssuer>,
    issued: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl TokenIssuer for RecordingIssuer {
    async fn issue(&self, request: &IssueRequest) -> Result<Issue, PortError> {
        let issue = self.tokens.issue(request).await?;
        if let Issue::Issued(token) = &issue {
            let plaintext = token.plaintext.secret().expose_secret().to_owned();
            self.issued.lock().unwrap().push(plaintext);
        }
        Ok(issue)
    }

    async fn close(&self, resource: ProvisionedResourceId) -> Result<(), PortError> {
        self.tokens.close(resource).await
    }

    async fn state(&self, token: BootstrapTokenId) -> Result<Option<TokenState>, PortError> {
        self.tokens.state(token).await
    }

    async fn ttl_window(&self) -> Result<TtlWindow, PortError> {
        self.tokens.ttl_window().await
    }
}

pub(super) struct SecretMisuse {
    random: StdRng,
    issued: Arc<Mutex<Vec<String>>>,
}

impl SecretMisuse {
    pub(super) fn new(seed: u32) -> Self {
        Self { random: StdRng::seed_from_u64(seed.into()), issued: Arc::default() }
    }

    /// Records issued tokens, and publishes a blueprint with a secret parameter.
    pub(super) fn prepare(&self, world: &mut World) {
        let issued = Arc::clone(&self.issued);
        world.rewire(|ports| {
            let tokens = Arc::clone(&ports.tokens);
            ports.tokens = Arc::new(RecordingIssuer { tokens, issued });
        });
        let role = broker_domain::MeshRole::Standalone;
        world.publish(SECRET_BLUEPRINT, "Vault", "vaults", role, SECRET_BLUEPRINT_SCHEMA);
    }

    pub(super) fn issued(&self) -> Vec<String> {
        self.issued.lock().unwrap().clone()
    }

    /// Misuses the secrets of every resource, after everything has settled.
    pub(super) async fn misuse_all(
        &mut self,
        world: &World,
        declared: &[Declared],
        detector: &mut LeakDetector,
    ) {
        for _ in 0..4 {
            self.send_literals(world, detector).await;
        }
        for resource in declared {
            repeat_the_token(world, resource.id, detector).await;
            capture_explanations(world, resource.id, detector).await;
            // The broker knows only a resource's own token, so it cannot redact this one from messages about another
            // resource.
            world.cluster.stop_denying("Machine");
        }
        read_everything(world, detector).await;
    }

    fn secret(&mut self) -> String {
        let alphabet: Vec<char> = ('a'..='z').chain('0'..='9').chain("\"\\é/".chars()).collect();
        let length = self.random.random_range(12..40);
        let letters = (0..length).map(|_| alphabet[self.random.random_range(0..alphabet.len())]);
        letters.collect()
    }

    /// Sends a secret where only a reference is accepted, in the shapes that callers try.
    async fn send_literals(&mut self, world: &World, detector: &mut LeakDetector) {
        let secret = self.secret();
        let shapes: [Value; 5] = [
            json!({"hush": secret}),
            json!({"hush": {"value": secret}}),
            json!({"hush": [secret]}),
            json!({"hush": {"secretRef": {"name": "a", "key": secret.as_str(), "more": secret}}}),
            json!({"hush": {"secretRef": secret}, "size": 3}),
        ];
        detector.secrets.insert(secret);
        for shape in shapes {
            let declaration_with_literal =
                declaration(SECRET_BLUEPRINT).with_parameters(shape.to_string());
            detector.record(
                "a declaration",
                format!("{declaration_with_literal:?} {declaration_with_literal:#?}"),
            );
            let refused =
                world.declare(&declaration_with_literal).await.expect_err("a literal is refused");
            detector.record_error(&refused);
            let refused =
                world.service.plan_declaration(&operator(), &declaration_with_literal).await;
            detector.record_error(&refused.expect_err("a literal is not planned either"));
        }
    }
}

/// Providers, functions and webhooks repeat their input in messages.
async fn repeat_the_token(world: &World, id: ProvisionedResourceId, detector: &mut LeakDetector) {
    let row = world.get(id).await;
    let Some(token) = world.cluster.bootstrap_token_of(id) else { return };
    let plaintext = token.secret().expose_secret().to_owned();
    detector.record("a token", format!("{token:?} {token:#?}"));
    let words = format!("cannot boot with {plaintext}, says the provider");
    world.cluster.behave_for(id, Behaviour::stuck(words.clone()));
    let xr = world.xr(&row);
    world.cluster.record_event(&xr, ClusterEvent::new(None, "Boot", words.clone()).as_warning());
    let drift = json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": plaintext}}});
    world.cluster.patch_as("kubectl", &xr, &drift);
    world.cluster.deny("Machine", words.clone());
    world.cluster.tick();
    if row.phase() == Phase::Ready {
        // One pass is refused by the webhook, with the token in the message. In two others the mesh panics, once with the
        // token.
        let mut replicas = vec![world.replica("careless")];
        for mesh in [PanickingMesh::ThroughHook, PanickingMesh::WithPayload(words)] {
            replicas.push(world.replica_with("careless", |ports| ports.nodes = Arc::new(mesh)));
        }
        for replica in replicas {
            if let Err(error) = replica.reconcile(id).await {
                detector.record_error(&error);
            }
        }
    }
    detector.secrets.insert(plaintext);
}

async fn capture_explanations(
    world: &World,
    id: ProvisionedResourceId,
    detector: &mut LeakDetector,
) {
    match world.service.explain(&operator(), id).await {
        Ok(explained) => {
            detector.record(
                "an explanation",
                format!("{explained} {explained:?} {}", explained.to_json()),
            );
        }
        Err(error) => detector.record_error(&error),
    }
    match world.service.plan(&operator(), id).await {
        Ok(plan) => detector.record("a plan", format!("{plan} {plan:?} {}", plan.to_json())),
        Err(error) => detector.record_error(&error),
    }
}

async fn read_everything(world: &World, detector: &mut LeakDetector) {
    let page = world.store.list(&ListQuery::new(rows(500))).await.unwrap();
    for row in &page.resources {
        detector.record("a row", format!("{row:?} {:?}", row.snapshot()));
        for line in world.store.history(row.id()).await.unwrap() {
            detector.record("the audit", format!("{line:?}"));
        }
    }
    let page = world.store.sweep_page(&SweepQuery::new(rows(500))).await.unwrap();
    detector.record("a row", format!("{page:?}"));
    for event in world.sink.deliveries() {
        detector.record("an event", format!("{event:?}"));
        detector.record("an event", String::from_utf8_lossy(&event.json));
    }
}
