//! Reverting a migration removes only the data that its script documents.

use std::collections::{BTreeMap, BTreeSet};

use broker_pg::migrate::{self, MigrateError};
use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, Executor, PgPool};

use super::{last, versions};
use crate::servers::pg::fresh_database;

const FILL: &str = include_str!("revert.sql");

/// The id of the Deleted resource in FILL.
const DELETED: &str = "5fe6005b-f6e4-15c9-50c0-11fb65f12b8f";

type Row = Map<String, Value>;

/// Every table of the schema except the migration records, with its columns and rows.
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

/// Whether the revert of this migration documents the loss of the row.
fn is_lost(version: u32, table: &str, row: &Row) -> bool {
    match (version, table) {
        (30, "provisioned_resource_outbox_token") => row["version"] == 4,
        (27, "provisioned_resources") => row["status"] == "Deleted",
        (27, "provisioned_resource_outbox_token") => {
            // Lost because of its type, or with its resource.
            row["event_type"] == "broker.ProvisionedResourceDeleted"
                || row["provisioned_resource_id"] == DELETED
        }
        _ => false,
    }
}

fn created_tables(version: u32) -> &'static [&'static str] {
    match version {
        30 => &["provisioned_resource_audit", "provisioning_outbox"],
        29 => &[
            "provisioned_resource_schedule",
            "provisioning_brake",
            "provisioning_permits",
            "provisioning_shared_config_users",
            "provisioning_shared_configs",
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
async fn down_keeps_all_data_of_the_older_schema() {
    let database = fresh_database().await;
    let pool = database.pool();
    sqlx::raw_sql(FILL).execute(pool).await.unwrap();
    for version in versions().into_iter().rev() {
        let before = contents(pool).await;
        assert_eq!(migrate::down(pool, version - 1).await.unwrap(), [version]);
        let after = contents(pool).await;

        let gone: Vec<_> = before.keys().filter(|table| !after.contains_key(*table)).collect();
        assert_eq!(gone, created_tables(version), "tables that the revert of {version} dropped");
        for (table, (columns, rows)) in after {
            let (_, rows_before) = &before[&table];
            let kept =
                rows_before.iter().filter(|row| !is_lost(version, &table, row)).cloned().map(
                    |row| row.into_iter().filter(|(column, _)| columns.contains(column)).collect(),
                );
            assert_eq!(sorted(rows), sorted(kept.collect()), "{table} without {version}");
        }
    }
}

#[tokio::test]
async fn down_is_refused_while_a_resource_is_in_teardown() {
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
