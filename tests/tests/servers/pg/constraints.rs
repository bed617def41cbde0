//! The schema's own rules: each is violated for real, adapters translate some into defined errors,
//! and no column exists for data that must not be stored.

mod error_mapping;
mod closed_sets;

use std::collections::BTreeSet;

use broker_pg::migrate;
use sqlx::{AssertSqlSafe, Executor, PgPool};

use super::fresh_database;

const RULES: &str = include_str!("constraints/rules.sql");
const COLUMNS: &str = include_str!("constraints/columns.txt");

/// The broker's own tables, from the live catalog: all except the platform's and the migrator's.
async fn own_tables(pool: &PgPool) -> Vec<String> {
    let lines = migrate::REFERENCE.iter().flat_map(|migration| migration.up.lines());
    let created = lines.filter_map(|line| line.strip_prefix("CREATE TABLE plexsphere."));
    let platform: Vec<_> = created.filter_map(|rest| rest.split_whitespace().next()).collect();
    assert!(platform.contains(&"nodes"), "{platform:?}");
    let select = "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'plexsphere'::regnamespace AND relkind IN ('r', 'p')
            AND relname <> ALL ($1) AND relname NOT LIKE 'provisioning_broker%migrations'";
    sqlx::query_scalar(select).bind(platform).fetch_all(pool).await.unwrap()
}

/// Every rule of the broker's own tables: constraints, those of their columns' types, and unique
/// indexes without a constraint.
async fn rules(pool: &PgPool) -> BTreeSet<String> {
    let select = "WITH own AS (
            SELECT oid FROM pg_class
            WHERE relnamespace = 'plexsphere'::regnamespace AND relname = ANY ($1)
        )
        SELECT conname::text FROM pg_constraint
        WHERE conrelid IN (SELECT oid FROM own) AND contype IN ('c', 'f', 'p', 'u', 'x')
        UNION
        SELECT conname::text FROM pg_constraint JOIN pg_attribute ON atttypid = contypid
        WHERE attrelid IN (SELECT oid FROM own)
        UNION
        SELECT relname::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid IN (SELECT oid FROM own) AND indisunique";
    let rules = sqlx::query_scalar(select).bind(own_tables(pool).await);
    rules.fetch_all(pool).await.unwrap().into_iter().collect()
}

/// A new rule without a statement that violates it fails this test.
#[tokio::test]
async fn every_schema_rule_refuses_its_violation() {
    let database = fresh_database().await;
    let pool = database.pool();
    let mut cases = RULES.split("-- refused: ");
    sqlx::raw_sql(cases.next().unwrap()).execute(pool).await.unwrap();
    let mut provoked = BTreeSet::new();
    for case in cases {
        let (expected, statement) = case.split_once('\n').unwrap();
        // The transaction is rolled back.
        let mut transaction = pool.begin().await.unwrap();
        let refused = transaction.execute(AssertSqlSafe(statement)).await.expect_err(statement);
        let database_error =
            refused.as_database_error().unwrap_or_else(|| panic!("{statement}: {refused}"));
        let (code, rule) = (
            database_error.code().unwrap_or_default(),
            database_error.constraint().unwrap_or_default(),
        );
        assert_eq!(format!("{code} {rule}").trim(), expected, "{statement}");
        provoked.extend((!rule.is_empty()).then(|| rule.to_owned()));
    }
    assert_eq!(rules(pool).await, provoked, "each rule needs a statement that breaks it");
    // The audit is append-only, but personal data in it can be blanked.
    let blanking = "UPDATE plexsphere.provisioned_resource_audit SET event_data = NULL";
    assert_eq!(pool.execute(blanking).await.unwrap().rows_affected(), 1);
}

/// The entries of `columns.txt` under a keyword.
fn entries(keyword: &str) -> BTreeSet<String> {
    let lines = COLUMNS.lines().filter_map(|line| line.strip_prefix(keyword));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// No column for secrets, and only `event_data` for personal data. A column whose name contains a
/// suspicious word must be listed as harmless, and a column that could hold anything must be listed
/// with its content.
#[tokio::test]
async fn no_column_holds_secrets_or_personal_data() {
    let database = fresh_database().await;
    let select = "SELECT table_name || '.' || column_name, string_to_array(column_name::text, '_'),
            data_type IN ('text', 'character varying', 'character', 'bytea', 'json', 'jsonb', 'ARRAY',
                'USER-DEFINED', 'xml')
        FROM information_schema.columns
        WHERE table_schema = 'plexsphere' AND table_name = ANY ($1)";
    let columns = sqlx::query_as(select).bind(own_tables(database.pool()).await);
    let columns: Vec<(String, Vec<String>, bool)> =
        columns.fetch_all(database.pool()).await.unwrap();
    let denied = entries("word ");
    let named = columns.iter().filter(|(_, words, _)| words.iter().any(|it| denied.contains(it)));
    let named: BTreeSet<_> = named.map(|(column, ..)| column.clone()).collect();
    assert_eq!(named, entries("harmless "), "columns that are named like secrets or personal data");
    let free = columns.into_iter().filter(|(.., free)| *free);
    let free: BTreeSet<_> = free.map(|(column, ..)| column).collect();
    assert_eq!(free, entries("free "), "columns that could hold anything");
}
