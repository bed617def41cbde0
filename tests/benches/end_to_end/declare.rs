//! Declaration throughput: N concurrent declarations, with and without a request id. The baseline
//! stores the same rows with one bare statement. The naive way looks up every reference and the request id,
//! and uses one transaction per write, one declaration after the other.

use std::sync::Arc;

use broker_domain::{Declaration, RequestId};
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use serde_json::json;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Executor, PgPool, Postgres};
use uuid::Uuid;

use super::fixture::{Fixture, commit, for_each_concurrent};
use super::harness::{BenchOptions, Case, Way};

type Insert = Query<'static, Postgres, PgArguments>;

const CONCURRENCY: usize = 8;

const STORE: &str = "WITH written AS (
    INSERT INTO plexsphere.provisioned_resources
        (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, parameters,
         mesh_role, phase_entered_at, request_id, request_hash)
    VALUES ($1, $2, $3, $4, $5, 'Pending', 'pr-' || $1, '{}', 'node', clock_timestamp(), $6::text,
        CASE WHEN $6::text IS NOT NULL THEN sha256($1::text::bytea) END)
    RETURNING id, project_id
), token AS (
    INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
    SELECT id, 'broker.ProvisionedResourceRequested', 1 FROM written
), event AS (
    INSERT INTO plexsphere.provisioning_outbox
        (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
    SELECT id, id, 1, 'broker.ProvisionedResourceRequested', clock_timestamp(), $7 FROM written
)
INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id, new_phase, version)
SELECT project_id, id, 'declared', 'bare', 'bare', 'Pending', 1 FROM written";

/// The references of a declaration, looked up one by one: blueprint, Project, credential, cloud, Resource.
const LOOKUPS: [&str; 5] = [
    "SELECT * FROM plexsphere.blueprint_versions WHERE id = $1",
    "SELECT * FROM plexsphere.namespace_assignments WHERE project_id = $1",
    "SELECT * FROM plexsphere.cloud_credentials WHERE id = $1",
    "SELECT c.* FROM plexsphere.clouds AS c JOIN plexsphere.cloud_credentials AS k ON k.cloud_id = c.id
      WHERE k.id = $1",
    "SELECT * FROM plexsphere.resource_labels WHERE resource_id = $1",
];

const BY_REQUEST_ID: &str =
    "SELECT * FROM plexsphere.provisioned_resources WHERE project_id = $1 AND request_id = $2";

/// The rows of [`STORE`], one statement each.
const RESOURCE: &str = "INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, parameters,
     mesh_role, phase_entered_at, request_id, request_hash)
VALUES ($1, $2, $3, $4, $5, 'Pending', 'pr-' || $1, '{}', 'node', clock_timestamp(), $6::text,
    CASE WHEN $6::text IS NOT NULL THEN sha256($1::text::bytea) END)";
const TOKEN: &str = "INSERT INTO plexsphere.provisioned_resource_outbox_token
    (provisioned_resource_id, event_type, version)
VALUES ($1, 'broker.ProvisionedResourceRequested', 1)";
const EVENT: &str = "INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
VALUES ($1, $1, 1, 'broker.ProvisionedResourceRequested', clock_timestamp(), $2)";
const AUDIT: &str = "INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id, new_phase, version)
VALUES ($2, $1, 'declared', 'naive', 'naive', 'Pending', 1)";

pub(super) async fn run(options: BenchOptions) {
    for (name, has_request_id) in [("without a request id", false), ("with a request id", true)] {
        let fixture = Fixture::new().await;
        for (label, count) in [("100", 100), ("500", 500), ("2,500", 2_500)] {
            let case = options.case(&fixture, format!("{label} {name}"), options.size(count));
            declare(&case, &fixture, has_request_id).await;
        }
    }
}

async fn declare(case: &Case<'_>, fixture: &Fixture, has_request_id: bool) {
    let Fixture { world, .. } = fixture;
    for round in case.rounds() {
        let declared = || declarations(world, case.size, has_request_id);
        truncate(world.pool()).await;
        round.measure(Way::Baseline, store(world.pool(), declared())).await;
        truncate(world.pool()).await;
        round.measure(Way::Ours, provision(world, declared())).await;
        truncate(world.pool()).await;
        round.measure(Way::Naive, Box::pin(one_by_one(world.pool(), declared()))).await;
    }
}

/// Each round begins with empty tables. The audit table's own trigger must be disabled for that.
async fn truncate(pool: &PgPool) {
    let tables = "SET session_replication_role = replica;
        TRUNCATE plexsphere.provisioned_resources, plexsphere.provisioned_resource_schedule,
            plexsphere.provisioned_resource_outbox_token, plexsphere.provisioning_outbox,
            plexsphere.provisioned_resource_audit;
        SET session_replication_role = origin";
    pool.execute(tables).await.unwrap();
}

fn declarations(world: &RealWorld, count: usize, has_request_id: bool) -> Vec<Declaration> {
    let declared = |number: usize| {
        let mut declared = world.declaration(NODE);
        if has_request_id {
            declared.request_id = Some(RequestId::new(format!("request-{number}")).unwrap());
        }
        declared
    };
    (0..count).map(declared).collect()
}

async fn provision(world: &Arc<RealWorld>, declared: Vec<Declaration>) {
    let world = Arc::clone(world);
    for_each_concurrent(CONCURRENCY, declared, move |declared| {
        let world = Arc::clone(&world);
        async move {
            world.declare(&declared).await.unwrap();
        }
    })
    .await;
}

async fn store(pool: &PgPool, declared: Vec<Declaration>) {
    let pool = pool.clone();
    for_each_concurrent(CONCURRENCY, declared, move |declared| {
        let pool = pool.clone();
        async move {
            let id = fresh();
            let store = resource(STORE, id, &declared).bind(payload(id, &declared));
            store.execute(&pool).await.unwrap();
        }
    })
    .await;
}

async fn one_by_one(pool: &PgPool, declared: Vec<Declaration>) {
    for declared in declared {
        if let Some(request) = &declared.request_id {
            let existing = sqlx::query(BY_REQUEST_ID).bind(declared.project_id.as_uuid());
            let existing = existing.bind(request.as_str()).fetch_optional(pool).await.unwrap();
            assert!(existing.is_none(), "{request} is a new id");
        }
        let credential = declared.cloud_credential_id.as_uuid();
        let project = declared.project_id.as_uuid();
        let ids = [declared.blueprint_version_id.as_uuid(), project, credential, credential];
        let ids = ids.into_iter().chain([declared.resource_id.as_uuid()]);
        for (statement, id) in LOOKUPS.into_iter().zip(ids) {
            sqlx::query(statement).bind(id).fetch_optional(pool).await.unwrap();
        }
        let id = fresh();
        let writes = [
            resource(RESOURCE, id, &declared),
            sqlx::query(TOKEN).bind(id),
            sqlx::query(EVENT).bind(id).bind(payload(id, &declared)),
            sqlx::query(AUDIT).bind(id).bind(declared.project_id.as_uuid()),
        ];
        for write in writes {
            commit(pool, write).await;
        }
    }
}

fn fresh() -> Uuid {
    use broker_ports::IdSource as _;
    broker_app::SystemIds.provisioned_resource_id().as_uuid()
}

fn resource(statement: &'static str, id: Uuid, declared: &Declaration) -> Insert {
    sqlx::query(statement)
        .bind(id)
        .bind(declared.resource_id.as_uuid())
        .bind(declared.project_id.as_uuid())
        .bind(declared.blueprint_version_id.as_uuid())
        .bind(declared.cloud_credential_id.as_uuid())
        .bind(declared.request_id.as_ref().map(|request| request.as_str().to_owned()))
}

/// Has the length of the event that the broker stores.
fn payload(id: Uuid, declared: &Declaration) -> String {
    let Declaration { project_id, resource_id, .. } = declared;
    let (blueprint, credential) = (declared.blueprint_version_id, declared.cloud_credential_id);
    json!({
        "event_type": "broker.ProvisionedResourceRequested", "event_id": id.to_string(), "sequence": 1,
        "occurred_at": "2026-01-01T00:00:00.000000Z", "provisioned_resource_id": id.to_string(),
        "project_id": project_id.to_string(), "xr_name": format!("pr-{id}"),
        "resource_id": resource_id.to_string(), "blueprint_version_id": blueprint.to_string(),
        "cloud_credential_id": credential.to_string(),
    })
    .to_string()
}
