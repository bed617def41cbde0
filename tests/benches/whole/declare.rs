//! N declarations are accepted, some at a time, with a request id and without. The floor stores the same rows by one bare
//! statement. The naive way looks everything up, and takes a transaction for each write, one declaration after the
//! other.

use std::sync::Arc;

use broker_domain::{Declaration, RequestId};
use broker_tests::real::RealWorld;
use broker_tests::world::NODE;
use sqlx::{Executor, PgPool};
use uuid::Uuid;

use super::lab::{Lab, Way};
use super::stand::{Stand, at_once};

/// Declarations under way at a time.
const AT_ONCE: usize = 8;

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
    INSERT INTO plexsphere.outbox_events
        (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
    SELECT id, id, 1, 'broker.ProvisionedResourceRequested', clock_timestamp(), '{}' FROM written
)
INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id, new_phase, version)
SELECT project_id, id, 'declared', 'bare', 'bare', 'Pending', 1 FROM written";

/// What a declaration refers to, one after the other.
const LOOKED_UP: [(&str, Refers); 5] = [
    ("SELECT * FROM plexsphere.blueprint_versions WHERE id = $1", Refers::Blueprint),
    ("SELECT * FROM plexsphere.namespace_assignments WHERE project_id = $1", Refers::Project),
    ("SELECT * FROM plexsphere.cloud_credentials WHERE id = $1", Refers::Credential),
    ("SELECT c.* FROM plexsphere.clouds AS c JOIN plexsphere.cloud_credentials AS k ON k.cloud_id = c.id
      WHERE k.id = $1", Refers::Credential),
    ("SELECT * FROM plexsphere.resource_labels WHERE resource_id = $1", Refers::Resource),
];

/// The same rows as above, each by itself.
const WRITTEN: [&str; 4] = [
    "INSERT INTO plexsphere.provisioned_resources
        (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, parameters,
         mesh_role, phase_entered_at)
    VALUES ($1, $2, $3, $4, $5, 'Pending', 'pr-' || $1, '{}', 'node', clock_timestamp())",
    "INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
    SELECT $1, 'broker.ProvisionedResourceRequested', 1
    WHERE $2::uuid IS NOT NULL AND $3::uuid IS NOT NULL AND $4::uuid IS NOT NULL AND $5::uuid IS NOT NULL",
    "INSERT INTO plexsphere.outbox_events
        (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
    SELECT $1, $1, 1, 'broker.ProvisionedResourceRequested', clock_timestamp(), '{}'
    WHERE $2::uuid IS NOT NULL AND $3::uuid IS NOT NULL AND $4::uuid IS NOT NULL AND $5::uuid IS NOT NULL",
    "INSERT INTO plexsphere.provisioned_resource_audit
        (project_id, provisioned_resource_id, action, actor, correlation_id, new_phase, version)
    SELECT $3, $1, 'declared', 'naive', 'naive', 'Pending', 1
    WHERE $2::uuid IS NOT NULL AND $4::uuid IS NOT NULL AND $5::uuid IS NOT NULL",
];

#[derive(Clone, Copy)]
enum Refers {
    Blueprint,
    Project,
    Credential,
    Resource,
}

/// Whether a declaration can be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeatable {
    Yes,
    No,
}

pub(super) async fn run(lab: Lab) {
    for (name, repeatable) in
        [("without a request id", Repeatable::No), ("with a request id", Repeatable::Yes)]
    {
        let stand = Stand::new().await;
        let many = lab.many(500);
        let case = lab.case(&stand, name, many);
        for round in case.rounds() {
            forget(stand.world.pool()).await;
            let declared = declarations(&stand.world, many, repeatable);
            round.measure(Way::Floor, store(stand.world.pool(), declared)).await;
            forget(stand.world.pool()).await;
            let declared = declarations(&stand.world, many, repeatable);
            round.measure(Way::Ours, provision(&stand.world, declared)).await;
            forget(stand.world.pool()).await;
            let declared = declarations(&stand.world, many, repeatable);
            round.measure(Way::Naive, one_by_one(stand.world.pool(), declared)).await;
        }
    }
}

/// Each round begins with empty tables.
async fn forget(pool: &PgPool) {
    let tables =
        "TRUNCATE plexsphere.provisioned_resources, plexsphere.provisioned_resource_schedule,
        plexsphere.provisioned_resource_outbox_token, plexsphere.outbox_events";
    pool.execute(tables).await.unwrap();
}

fn declarations(world: &RealWorld, many: usize, repeatable: Repeatable) -> Vec<Declaration> {
    let declared = |number: usize| {
        let mut declared = world.declaration(NODE);
        if repeatable == Repeatable::Yes {
            declared.request_id = Some(RequestId::new(format!("request-{number}")).unwrap());
        }
        declared
    };
    (0..many).map(declared).collect()
}

async fn provision(world: &Arc<RealWorld>, declared: Vec<Declaration>) {
    let world = Arc::clone(world);
    at_once(AT_ONCE, declared, move |declared| {
        let world = Arc::clone(&world);
        async move {
            world.declare(&declared).await.unwrap();
        }
    })
    .await;
}

async fn store(pool: &PgPool, declared: Vec<Declaration>) {
    let pool = pool.clone();
    at_once(AT_ONCE, declared, move |declared| {
        let pool = pool.clone();
        async move {
            let request = declared.request_id.as_ref().map(RequestId::as_str);
            let store = bound(STORE, fresh(), &declared).bind(request);
            store.execute(&pool).await.unwrap();
        }
    })
    .await;
}

async fn one_by_one(pool: &PgPool, declared: Vec<Declaration>) {
    for declared in declared {
        for (statement, refers) in LOOKED_UP {
            let id = match refers {
                Refers::Blueprint => declared.blueprint_version_id.as_uuid(),
                Refers::Project => declared.project_id.as_uuid(),
                Refers::Credential => declared.cloud_credential_id.as_uuid(),
                Refers::Resource => declared.resource_id.as_uuid(),
            };
            sqlx::query(statement).bind(id).fetch_optional(pool).await.unwrap();
        }
        let id = fresh();
        for statement in WRITTEN {
            let mut transaction = pool.begin().await.unwrap();
            bound(statement, id, &declared).execute(&mut *transaction).await.unwrap();
            transaction.commit().await.unwrap();
        }
    }
}

fn fresh() -> Uuid {
    use broker_ports::IdSource as _;
    broker_tests::real::SystemIds.provisioned_resource_id().as_uuid()
}

fn bound<'q>(
    statement: &'static str,
    id: Uuid,
    declared: &Declaration,
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    sqlx::query(statement)
        .bind(id)
        .bind(declared.resource_id.as_uuid())
        .bind(declared.project_id.as_uuid())
        .bind(declared.blueprint_version_id.as_uuid())
        .bind(declared.cloud_credential_id.as_uuid())
}
