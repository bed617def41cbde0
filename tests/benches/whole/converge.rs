//! Convergence: N declared machines go from nothing to an armed composite resource. Floor and ours each use
//! the concurrency at which they are fastest. The floor sends the same three writes: ProviderConfig, shell,
//! arm. The naive way sends two, one resource after the other, with one store transaction per write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker_app::PassResult;
use broker_app::SystemIds;
use broker_domain::{MeshRole, ObjectReference, Parameters, ProvisionedResourceId};
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

use super::lab::{Case, Lab, Way};
use super::stand::{Stand, at_once, commit};

/// Passes, or resources, in flight.
const CONCURRENCIES: [usize; 4] = [8, 16, 32, 64];

/// The response format that the broker requests: metadata only.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

struct Writes {
    id: ProvisionedResourceId,
    config: (String, Vec<u8>),
    shell: Vec<u8>,
    armed: Vec<u8>,
    composite: String,
}

pub(super) async fn run(lab: Lab) {
    let stand = Stand::new().await;
    let best = best(&stand, lab.many(200)).await;
    for many in [50, 200, 800] {
        converge(&lab.case(&stand, format!("{many} machines"), lab.many(many)), &stand, best).await;
    }
}

async fn converge(case: &Case<'_>, stand: &Stand, (best_of_floor, best_of_ours): (usize, usize)) {
    let many = case.many;
    for round in case.rounds() {
        let writes = writes(&stand.world, fresh(many));
        round.measure(Way::Floor, send(&stand.bare, writes, best_of_floor)).await;
        let declared = declare(&stand.world, many).await;
        round.measure(Way::Ours, pass(&stand.world, declared.clone(), best_of_ours)).await;
        for id in declared {
            assert!(stand.world.get(id).await.bootstrap_token_id().is_some(), "{id} has no token");
        }
        let declared = declare(&stand.world, many).await;
        let writes = self::writes(&stand.world, declared);
        round.measure(Way::Naive, one_by_one(stand, writes)).await;
    }
}

/// The concurrencies at which floor and ours are fastest, from two trials of each.
async fn best(stand: &Stand, many: usize) -> (usize, usize) {
    let (mut floor, mut ours) = (BTreeMap::new(), BTreeMap::new());
    for concurrency in CONCURRENCIES.into_iter().chain(CONCURRENCIES) {
        let writes = writes(&stand.world, fresh(many));
        let started = Instant::now();
        send(&stand.bare, writes, concurrency).await;
        *floor.entry(concurrency).or_insert(Duration::ZERO) += started.elapsed();
        let declared = declare(&stand.world, many).await;
        let started = Instant::now();
        pass(&stand.world, declared, concurrency).await;
        *ours.entry(concurrency).or_insert(Duration::ZERO) += started.elapsed();
    }
    let best = |tried: BTreeMap<usize, Duration>| {
        tried.into_iter().min_by_key(|(_, took)| *took).unwrap().0
    };
    let (floor, ours) = (best(floor), best(ours));
    eprintln!("best concurrency: {floor} bare, {ours} of ours");
    (floor, ours)
}

fn fresh(many: usize) -> Vec<ProvisionedResourceId> {
    (0..many).map(|_| SystemIds.provisioned_resource_id()).collect()
}

async fn declare(world: &Arc<RealWorld>, many: usize) -> Vec<ProvisionedResourceId> {
    let mut declared = Vec::new();
    for _ in 0..many {
        declared.push(world.declare(&world.declaration(NODE)).await.unwrap().id());
    }
    declared
}

async fn pass(world: &Arc<RealWorld>, declared: Vec<ProvisionedResourceId>, concurrency: usize) {
    let world = Arc::clone(world);
    at_once(concurrency, declared, move |id| {
        let world = Arc::clone(&world);
        async move {
            let passed = world.reconciler.reconcile(id).await.unwrap();
            assert!(matches!(passed, PassResult::Completed { .. }), "{passed:?}");
        }
    })
    .await;
}

async fn send(client: &Client, writes: Vec<Writes>, concurrency: usize) {
    let client = client.clone();
    at_once(concurrency, writes, move |writes| {
        let client = client.clone();
        async move {
            let Writes { config: (path, config), shell, armed, composite, .. } = writes;
            apply(&client, &path, config).await;
            apply(&client, &composite, shell).await;
            apply(&client, &composite, armed).await;
        }
    })
    .await;
}

async fn one_by_one(stand: &Stand, writes: Vec<Writes>) {
    let pool = stand.world.pool();
    for Writes { id, config: (path, config), armed, composite, .. } in writes {
        let row = sqlx::query("SELECT * FROM plexsphere.provisioned_resources WHERE id = $1");
        row.bind(id.as_uuid()).fetch_one(pool).await.unwrap();
        let get = Request::get(&composite).body(Vec::new()).unwrap();
        assert!(stand.bare.request_text(get).await.is_err(), "it stands");
        for statement in TRANSACTIONS {
            commit(pool, sqlx::query(statement).bind(id.as_uuid())).await;
        }
        apply(&stand.bare, &path, config).await;
        apply(&stand.bare, &composite, armed).await;
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

/// What the broker would send, rendered before the measurement begins.
fn writes(world: &RealWorld, ids: Vec<ProvisionedResourceId>) -> Vec<Writes> {
    let xrd = world.kinds.xrd_of(NODE);
    ids.into_iter().map(|id| Writes::of(world, &xrd, id)).collect()
}

impl Writes {
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
    };
    inject_bootstrap(rendered, &bootstrap).unwrap().expose_for_apply()
}

fn path(reference: &ObjectReference, plural: &str) -> String {
    let (api_version, name) = (reference.api_version(), reference.name());
    let home = reference.namespace().unwrap();
    format!("/apis/{api_version}/namespaces/{home}/{plural}/{name}")
}
