//! The cost of the hot statements on 100,000 resources: the indexes that they use, and the pages that they
//! touch per returned row.
//!
//! The plans are generic, without parameter values: pooled connections end up with these, and they are worse.

use broker_pg::statements;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::fresh_database;

const POPULATION: &str = include_str!("plans/population.sql");
const CASES: &str = include_str!("plans/cases.sql");

/// Executes a statement twice and explains the second run: the first one fills the connection's
/// catalog cache, which is not part of the statement's cost. Rolled back.
async fn explain(connection: &mut PgConnection, sql: &str, before: &str, execute: &str) -> Value {
    let prepare = format!(
        "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; PREPARE hot AS {sql}\n; {before}"
    );
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *connection).await.unwrap();
    let execute = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {execute}");
    let mut plan = Value::Null;
    for _ in 0..2 {
        connection.execute("SAVEPOINT before").await.unwrap();
        let explained = sqlx::query_scalar(AssertSqlSafe(&*execute));
        plan = explained.fetch_one(&mut *connection).await.unwrap();
        connection.execute("ROLLBACK TO before").await.unwrap();
    }
    connection.execute("DEALLOCATE hot; ROLLBACK").await.unwrap();
    plan[0]["Plan"].take()
}

fn nodes(plan: &Value) -> Vec<&Value> {
    let below = plan["Plans"].as_array().into_iter().flatten().flat_map(nodes);
    std::iter::once(plan).chain(below).collect()
}

/// The reason why a case's plan exceeds its limits, if any.
async fn plan_problem(connection: &mut PgConnection, case: &str) -> Option<String> {
    let (head, rest) = case.split_once('\n').unwrap();
    let (name, _) = head.split_once(": ").unwrap();
    let (bounds, rest) = rest.split_once('\n').unwrap();
    let bounds = bounds.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok());
    let [rows, pages, pages_per_row] = bounds.collect::<Vec<f64>>()[..] else {
        panic!("{head}: rows, pages and pages per row")
    };
    let (before, execute) = rest.split_at(rest.find("EXECUTE hot").unwrap());
    let statement = statements().into_iter().find(|found| found.name == name);
    let sql = statement.unwrap_or_else(|| panic!("no statement is named {name}")).sql;
    let plan = explain(connection, sql, before, execute).await;

    // Later servers report fractional row counts for nodes that were executed several times.
    let number = |node: &Value, key: &str| node[key].as_f64().unwrap();
    let returned = number(&plan, "Actual Rows");
    // A node includes the pages below it, so the maximum over all nodes is the total. That need not
    // be the root: writing parts may run after the node that contains them.
    let touched = nodes(&plan)
        .into_iter()
        .map(|node| number(node, "Shared Hit Blocks") + number(node, "Shared Read Blocks"));
    let touched = touched.fold(0.0, f64::max);
    let scanned = nodes(&plan).into_iter().find(|node| node["Node Type"] == "Seq Scan");
    let limit = pages + pages_per_row * rows;
    let why = if (returned - rows).abs() > 0.5 {
        format!("returned {returned} rows instead of {rows}")
    } else if let Some(scanned) = scanned {
        format!("reads all of {}", scanned["Relation Name"])
    } else if touched > limit {
        format!("touched {touched} pages for {rows} rows, the limit is {limit}")
    } else {
        return None;
    };
    Some(format!("{head}: {why}\n{plan:#}"))
}

/// Repeats until every page is all-visible, as in a long-running database. A concurrent
/// transaction, such as autovacuum, delays that.
async fn vacuum(connection: &mut PgConnection) {
    const DONE: &str = "SELECT bool_and(relallvisible >= relpages) FROM pg_class
        WHERE relnamespace = 'plexsphere'::regnamespace AND relkind = 'r'";
    for _ in 0..100 {
        connection.execute("VACUUM ANALYZE").await.unwrap();
        if sqlx::query_scalar(DONE).fetch_one(&mut *connection).await.unwrap() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("some pages are not all-visible");
}

/// One test for all: creating the resources is the expensive part.
#[tokio::test]
async fn hot_statements_touch_only_needed_pages() {
    let database = fresh_database().await;
    let mut connection = database.pool().acquire().await.unwrap();
    sqlx::raw_sql(POPULATION).execute(&mut *connection).await.unwrap();
    vacuum(&mut connection).await;
    let mut problems = Vec::new();
    for case in CASES.split("-- case ").skip(1) {
        problems.extend(plan_problem(&mut connection, case).await);
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
