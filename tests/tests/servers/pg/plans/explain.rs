//! Carrying out a statement under `EXPLAIN`, and what of its plan matters.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

/// What became of a statement.
pub(super) struct Found {
    /// How many rows it gave.
    pub(super) rows: u64,
    /// How many pages it touched, in memory or not; the same page counts whenever it is touched.
    pub(super) pages: u64,
    /// The tables that it read from the first row to the last.
    pub(super) scanned: Vec<String>,
    /// The whole plan, for whoever has to find out why.
    pub(super) plan: String,
}

/// Carries a statement out twice and looks at the second time: the first fills the connection's memory of the
/// catalog, which is no part of the statement.
pub(super) async fn explain(connection: &mut PgConnection, sql: &str, values: &str) -> Found {
    let prepare = format!("SET LOCAL plan_cache_mode = force_generic_plan; PREPARE hot AS {sql}");
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let execute =
        format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE hot{values}");
    let mut found = None;
    for _ in 0..2 {
        connection.execute("SAVEPOINT before").await.unwrap();
        let plan: Value =
            sqlx::query_scalar(AssertSqlSafe(&*execute)).fetch_one(&mut *connection).await.unwrap();
        connection.execute("ROLLBACK TO before").await.unwrap();
        found = Some(plan);
    }
    connection.execute("DEALLOCATE hot").await.unwrap();
    read(&found.unwrap()[0]["Plan"])
}

fn read(plan: &Value) -> Found {
    let mut found = Found {
        rows: number(plan, "Actual Rows"),
        pages: 0,
        scanned: Vec::new(),
        plan: serde_json::to_string_pretty(plan).unwrap(),
    };
    walk(plan, &mut found);
    found
}

/// A node counts what was touched below it, too, so the most of all nodes is what was touched. It need not be
/// the first one: parts that write are carried out after what they are written in.
fn walk(node: &Value, found: &mut Found) {
    found.pages =
        found.pages.max(number(node, "Shared Hit Blocks") + number(node, "Shared Read Blocks"));
    if node["Node Type"] == "Seq Scan" {
        found.scanned.push(node["Relation Name"].as_str().unwrap().to_owned());
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, found);
    }
}

/// Later servers count rows in fractions, for nodes that were carried out several times.
fn number(node: &Value, key: &str) -> u64 {
    let number = node[key].as_f64().unwrap_or_else(|| panic!("no {key} in {node}"));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of rows and pages are small and not negative"
    )]
    let number = number as u64;
    number
}
