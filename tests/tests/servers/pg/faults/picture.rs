//! Everything that stands in the database, in a form in which two runs can be compared.

use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};

/// All rows of all tables, without what differs from run to run: times, and what the server drew or counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture(Vec<String>);

/// Columns whose values the server draws or counts.
const DRAWN: &[(&str, &str)] = &[
    ("provisioned_resource_audit", "sequence"),
    ("provisioning_outbox", "position"),
    ("bootstrap_tokens", "id"),
    ("bootstrap_tokens", "sha256"),
];

impl Picture {
    pub(super) async fn of(pool: &PgPool) -> Self {
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT tablename::text FROM pg_tables
             WHERE schemaname = 'plexsphere' AND tablename NOT LIKE '%_migrations'",
        )
        .fetch_all(pool)
        .await
        .unwrap();
        assert!(tables.len() > 10, "{tables:?}");
        let parts = tables.iter().map(|table| {
            format!("SELECT '{table}' AS t, to_jsonb(r) AS row FROM plexsphere.{table} AS r")
        });
        let all = parts.collect::<Vec<_>>().join(" UNION ALL ");
        let rows: Vec<(String, Value)> =
            sqlx::query_as(AssertSqlSafe(all)).fetch_all(pool).await.unwrap();
        let mut lines: Vec<_> = rows
            .into_iter()
            .map(|(table, row)| format!("{table} {}", still(&table, row)))
            .collect();
        lines.sort_unstable();
        Self(lines)
    }

    pub(super) fn assert_is(&self, expected: &Self, case: &str) {
        if self == expected {
            return;
        }
        let only = |one: &Self, other: &Self| {
            let lines = one.0.iter().filter(|line| !other.0.contains(line));
            lines.map(String::as_str).collect::<Vec<_>>().join("\n  ")
        };
        panic!(
            "{case}: the database is not as it should be\nfound, of {} rows:\n  {}\ninstead, of {} rows:\n  {}",
            self.0.len(),
            only(self, expected),
            expected.0.len(),
            only(expected, self)
        );
    }
}

/// A row that stays the same from run to run.
fn still(table: &str, row: Value) -> Value {
    let Value::Object(mut columns) = row else { panic!("a row is an object") };
    for (column, value) in &mut columns {
        let is_time = column == "at" || column.ends_with("_at") || column.ends_with("_until");
        if is_time && !value.is_null() {
            *value = "set".into();
        }
    }
    columns.retain(|column, _| !DRAWN.contains(&(table, column)));
    Value::Object(columns)
}
