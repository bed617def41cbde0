//! Taking a migration back loses what its script says, and nothing else: whatever has a place in the older
//! schema stays as it was.

use std::collections::{BTreeMap, BTreeSet};

use broker_pg::migrate::{self, MigrateError};
use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, Executor, PgPool};

use super::{last, versions};
use crate::servers::pg::fresh_database;

/// A resource of every phase that is not on its way down, with an event each and a second Ready, an audit, a
/// pause and a brake; and what it refers to, by its own id. Past triggers: it is about what is kept, not about how it
/// came there.
const FILL: &str = "SET session_replication_role = replica;
INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, parameters,
     failure_step, failure_reason, token_closed, request_id, request_hash, phase_entered_at,
     bootstrap_token_id, deletion_requested_at, substrate, cluster_id, event_sequence, version)
SELECT id, id, id, id, id, status, 'xr-' || id, '{\"size\":\"small\"}',
    CASE WHEN status = 'Failed' THEN 'Provisioning' END, CASE WHEN status = 'Failed' THEN 'quota' END,
    status = 'Deleted', 'request', sha256('x'), now(), id, CASE WHEN status = 'Deleted' THEN now() END,
    '{\"composed\": []}', id::text, 2, 3
FROM (SELECT md5(status)::uuid AS id, status
      FROM unnest(ARRAY['Pending', 'Provisioning', 'Enrolling', 'Ready', 'Failed', 'Deleted']) AS status) AS r;
INSERT INTO plexsphere.projects (id) SELECT id FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.resources (id, project_id) SELECT id, id FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.blueprint_versions (id, slug, version, display_name, description, provider_kinds,
    injection_strategy, parameter_schema, metadata, xrd, composition)
SELECT id, id::text, 'v1', '', '', '{}', 'helm-values', '{}', '', '', '' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.clouds (id, provider) SELECT id, 'test' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
SELECT id, id, 'kv', 'path' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioned_resource_schedule (provisioned_resource_id, project_id, paused)
SELECT id, project_id, true FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_turns (lane, project_id, served_at)
SELECT 'converge', project_id, now() FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioning_brake VALUES ('a cluster', NULL, 1, 2, now());
INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type, version)
SELECT id, event.type, event.version FROM plexsphere.provisioned_resources
    CROSS JOIN (VALUES ('broker.ProvisionedResourceRequested', 1), ('broker.ProvisionedResourceReady', 2),
                       ('broker.ProvisionedResourceReady', 4), ('broker.ProvisionedResourceDeleted', 5))
        AS event (type, version);
INSERT INTO plexsphere.provisioning_outbox
    (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
SELECT id, id, 1, 'broker.ProvisionedResourceRequested', now(), '{}' FROM plexsphere.provisioned_resources;
INSERT INTO plexsphere.provisioned_resource_audit
    (project_id, provisioned_resource_id, action, actor, correlation_id)
SELECT project_id, id, 'declared', 'somebody', 'c' FROM plexsphere.provisioned_resources;
SET session_replication_role = origin";

/// The id that FILL gives the resource that is Deleted.
const DELETED: &str = "5fe6005b-f6e4-15c9-50c0-11fb65f12b8f";

type Row = Map<String, Value>;

/// Every table of the schema but the records of migrations, with its columns and rows.
async fn contents(pool: &PgPool) -> BTreeMap<String, (BTreeSet<String>, Vec<Row>)> {
    let tables: Vec<(String, Vec<String>)> = sqlx::query_as(
        "SELECT table_name::text, array_agg(column_name::text) FROM information_schema.columns
         WHERE table_schema = 'plexsphere' AND table_name NOT LIKE '%_migrations' GROUP BY table_name",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    let mut contents = BTreeMap::new();
    for (table, columns) in tables {
        let sql = format!("SELECT to_jsonb(r) FROM plexsphere.{table} AS r");
        let rows: Vec<Value> =
            sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(pool).await.unwrap();
        let rows = rows.into_iter().map(|row| row.as_object().unwrap().clone()).collect();
        contents.insert(table, (columns.into_iter().collect(), rows));
    }
    contents
}

/// Whether a migration says of a row that it goes.
fn goes(version: u32, table: &str, row: &Row) -> bool {
    match (version, table) {
        (30, "provisioned_resource_outbox_token") => row["version"] == 4,
        (27, "provisioned_resources") => row["status"] == "Deleted",
        (27, "provisioned_resource_outbox_token") => {
            // With its resource, or for its type.
            row["event_type"] == "broker.ProvisionedResourceDeleted"
                || row["provisioned_resource_id"] == DELETED
        }
        _ => false,
    }
}

/// The tables that a migration brought.
fn brought(version: u32) -> &'static [&'static str] {
    match version {
        30 => &["provisioned_resource_audit", "provisioning_outbox"],
        29 => &[
            "provisioned_resource_schedule",
            "provisioning_brake",
            "provisioning_permits",
            "provisioning_turns",
        ],
        26 => &["provisioned_resource_outbox_token", "provisioned_resources"],
        _ => &[],
    }
}

fn sorted(rows: Vec<Row>) -> Vec<String> {
    let mut lines: Vec<_> = rows.into_iter().map(|row| Value::Object(row).to_string()).collect();
    lines.sort_unstable();
    lines
}

#[tokio::test]
async fn what_has_a_place_in_the_older_schema_stays_as_it_was() {
    let database = fresh_database().await;
    let pool = database.pool();
    sqlx::raw_sql(FILL).execute(pool).await.unwrap();
    for version in versions().into_iter().rev() {
        let before = contents(pool).await;
        assert_eq!(migrate::down(pool, version - 1).await.unwrap(), [version]);
        let after = contents(pool).await;

        let gone: Vec<_> = before.keys().filter(|table| !after.contains_key(*table)).collect();
        assert_eq!(gone, brought(version), "tables that {version} took away");
        for (table, (columns, rows)) in after {
            let (_, had) = &before[&table];
            let kept = had.iter().filter(|row| !goes(version, &table, row)).cloned().map(|row| {
                row.into_iter().filter(|(column, _)| columns.contains(column)).collect()
            });
            assert_eq!(sorted(rows), sorted(kept.collect()), "{table} without {version}");
        }
    }
}

#[tokio::test]
async fn what_is_on_its_way_down_is_not_forgotten() {
    let database = fresh_database().await;
    let pool = database.pool();
    sqlx::raw_sql(FILL).execute(pool).await.unwrap();
    pool.execute(
        "UPDATE plexsphere.provisioned_resources SET status = 'Deprovisioning' WHERE status = 'Ready'",
    )
    .await
    .unwrap();
    migrate::down(pool, 27).await.unwrap();
    let before = contents(pool).await;
    let error = migrate::down(pool, 26).await.unwrap_err();
    assert!(matches!(error, MigrateError::Failed { version: 27, .. }), "{error}");
    assert_eq!(contents(pool).await, before);
    assert_eq!(migrate::up(pool).await.unwrap().last(), Some(&last()));
}
