//! Convergence: N declared machines get an armed composite resource. Baseline and ours each use their fastest
//! concurrency. The baseline sends the same three writes: ProviderConfig, shell, arm. The naive way sends two,
//! sequentially, with one store transaction per write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_app::PassResult;
use broker_app::SystemIds;
use broker_domain::{MeshRole, ObjectReference, Parameters, ProvisionedResourceId, ResourceHandle};
use broker_ports::{ApplyRequest, IdSource};
use broker_render::{
    Agent, ApiUrl, Bootstrap, CloudTags, CompositionName, FIELD_MANAGER, InjectionStrategy,
    Precondition, Xr, XrInput, Xrd, inject_bootstrap, xr,
};
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use kube::Client;
use secrecy::SecretString;
use uuid::Uuid;

use super::fixture::{Fixture, commit, for_each_concurrent};
use super::harness::{BenchOptions, Case, Way};

/// Passes (ours) or resources (baseline) in flight.
const CONCURRENCIES: [usize; 4] = [8, 16, 32, 64];

/// The response format that the broker requests: metadata only.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

struct RenderedWrites {
    id: ProvisionedResourceId,
    config: (String, Vec<u8>),
    shell: Vec<u8>,
    armed: Vec<u8>,
    composite: String,
}

pub(super) async fn run(options: BenchOptions) {
    let fixture = Fixture::new().await;
    let best = fastest_concurrencies(&fixture, options.size(200)).await;
    for count in [50, 200, 800] {
        let case = options.case(&fixture, format!("{count} machines"), options.size(count));
        converge(&case, &fixture, best).await;
    }
}

async fn converge(
    case: &Case<'_>,
    fixture: &Fixture,
    (baseline_concurrency, our_concurrency): (usize, usize),
) {
    let count = case.size;
    for round in case.rounds() {
        let writes = writes(&fixture.world, fresh(count));
        round
            .measure(Way::Baseline, send(&fixture.bare_client, writes, baseline_concurrency))
            .await;
        let declared = declare(&fixture.world, count).await;
        round
            .measure(Way::Ours, run_passes(&fixture.world, declared.clone(), our_concurrency))
            .await;
        for id in declared {
            assert!(
                fixture.world.get(id).await.bootstrap_token_id().is_some(),
                "{id} has no token"
            );
        }
        let declared = declare(&fixture.world, count).await;
        let writes = self::writes(&fixture.world, declared);
        round.measure(Way::Naive, one_by_one(fixture, writes)).await;
    }
}

/// The fastest concurrencies of baseline and ours, from two trials of each.
async fn fastest_concurrencies(fixture: &Fixture, count: usize) -> (usize, usize) {
    let (mut baseline, mut ours) = (BTreeMap::new(), BTreeMap::new());
    for concurrency in CONCURRENCIES.into_iter().chain(CONCURRENCIES) {
        let writes = writes(&fixture.world, fresh(count));
        let started = Instant::now();
        send(&fixture.bare_client, writes, concurrency).await;
        *baseline.entry(concurrency).or_insert(Duration::ZERO) += started.elapsed();
        let declared = declare(&fixture.world, count).await;
        let started = Instant::now();
        run_passes(&fixture.world, declared, concurrency).await;
        *ours.entry(concurrency).or_insert(Duration::ZERO) += started.elapsed();
    }
    let fastest = |trials: BTreeMap<usize, Duration>| {
        trials.into_iter().min_by_key(|(_, took)| *took).unwrap().0
    };
    let (baseline, ours) = (fastest(baseline), fastest(ours));
    eprintln!("fastest concurrency: baseline {baseline}, ours {ours}");
    (baseline, ours)
}

fn fresh(count: usize) -> Vec<ProvisionedResourceId> {
    (0..count).map(|_| SystemIds.provisioned_resource_id()).collect()
}

async fn declare(world: &Arc<RealWorld>, count: usize) -> Vec<ProvisionedResourceId> {
    let mut declared = Vec::new();
    for _ in 0..count {
        declared.push(world.declare(&world.declaration(NODE)).await.unwrap().id());
    }
    declared
}

async fn run_passes(
    world: &Arc<RealWorld>,
    declared: Vec<ProvisionedResourceId>,
    concurrency: usize,
) {
    let world = Arc::clone(world);
    for_each_concurrent(concurrency, declared, move |id| {
        let world = Arc::clone(&world);
        async move {
            let result = world.reconciler.reconcile(id).await.unwrap();
            assert!(matches!(result, PassResult::Completed { .. }), "{result:?}");
        }
    })
    .await;
}

async fn send(client: &Client, writes: Vec<RenderedWrites>, concurrency: usize) {
    let client = client.clone();
    for_each_concurrent(concurrency, writes, move |writes| {
        let client = client.clone();
        async move {
            let RenderedWrites { config: (path, config), shell, armed, composite, .. } = writes;
            apply(&client, &path, config).await;
            apply(&client, &composite, shell).await;
            apply(&client, &composite, armed).await;
        }
    })
    .await;
}

async fn one_by_one(fixture: &Fixture, writes: Vec<RenderedWrites>) {
    let pool = fixture.world.pool();
    for RenderedWrites { id, config: (path, config), armed, composite, .. } in writes {
        let row = sqlx::query("SELECT * FROM plexsphere.provisioned_resources WHERE id = $1");
        row.bind(id.as_uuid()).fetch_one(pool).await.unwrap();
        let get = Request::get(&composite).body(Vec::new()).unwrap();
        assert!(fixture.bare_client.request_text(get).await.is_err(), "it exists already");
        for statement in TRANSACTIONS {
            commit(pool, sqlx::query(statement).bind(id.as_uuid())).await;
        }
        apply(&fixture.bare_client, &path, config).await;
        apply(&fixture.bare_client, &composite, armed).await;
    }
}

/// Issue a token, record it, record the apply: one transaction each.
const TRANSACTIONS: [&str; 4] = [
    "INSERT INTO plexsphere.bootstrap_token_ledgers (provisioned_resource_id, highest_epoch) VALUES ($1, 1)",
    "INSERT INTO plexsphere.bootstrap_tokens (id, provisioned_resource_id, ordinal, sha256, expires_at)
    VALUES ($1, $1, 1, sha256($1::text::bytea), clock_timestamp() + interval '1 hour')",
    "UPDATE plexsphere.provisioned_resources SET bootstrap_token_id = $1, version = version + 1 WHERE id = $1",
    "INSERT INTO plexsphere.provisioned_resource_audit (provisioned_resource_id, action, actor, correlation_id)
    VALUES ($1, 'substrate_apply', 'naive', 'naive')",
];

async fn apply(client: &Client, path: &str, body: Vec<u8>) {
    let request = Request::patch(format!("{path}?fieldManager={FIELD_MANAGER}&force=true"))
        .header(ACCEPT, METADATA)
        .header(CONTENT_TYPE, "application/apply-patch+yaml")
        .body(body);
    client.request_text(request.unwrap()).await.unwrap();
}

/// Renders the broker's writes before the measurement begins.
fn writes(world: &RealWorld, ids: Vec<ProvisionedResourceId>) -> Vec<RenderedWrites> {
    let xrd = world.kinds.xrd_of(NODE);
    ids.into_iter().map(|id| RenderedWrites::of(world, &xrd, id)).collect()
}

impl RenderedWrites {
    fn of(world: &RealWorld, xrd: &Xrd, id: ProvisionedResourceId) -> Self {
        let (parameters, tags) = (Parameters::default(), CloudTags::default());
        let rendered = xr(&XrInput {
            xrd,
            composition: CompositionName::new(xrd.plural()).unwrap(),
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: MeshRole::Node,
            identity: world.identity_of(id),
            parameters: &parameters,
            tags: &tags,
        })
        .unwrap();
        let open = |manifest| {
            ApplyRequest::open(world.project, manifest, Precondition::Absent).expose_for_apply()
        };
        let config = world.config_of(id);
        let shell = rendered.shell(1);
        Self {
            id,
            config: (path(config.reference(), "providerconfigs"), open(config)),
            composite: path(shell.reference(), xrd.plural()),
            shell: open(shell),
            armed: armed(&rendered, id.as_uuid()),
        }
    }
}

fn armed(rendered: &Xr<'_>, token: Uuid) -> Vec<u8> {
    let api_url = ApiUrl::new("https://mesh.example.org").unwrap();
    let plaintext = SecretString::from("7f3a9b0c".repeat(8));
    let bootstrap = Bootstrap {
        token_id: token.try_into().unwrap(),
        token: &plaintext,
        api_url: &api_url,
        agent: &Agent::default(),
        handle: &ResourceHandle::new("web-1").unwrap(),
    };
    inject_bootstrap(rendered, &bootstrap).unwrap().expose_for_apply()
}

fn path(reference: &ObjectReference, plural: &str) -> String {
    let (api_version, name) = (reference.api_version(), reference.name());
    let namespace = reference.namespace().unwrap();
    format!("/apis/{api_version}/namespaces/{namespace}/{plural}/{name}")
}
