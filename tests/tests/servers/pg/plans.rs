//! What the hot statements cost on 100,000 resources: which indexes they walk, and how many pages they touch for
//! what they give. Never how long they take.
//!
//! Plans are generic ones, made without a look at the values: what a pool's connection ends up with, and the
//! worse ones.

mod cases;
mod explain;

use broker_pg::statements;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use cases::{CASES, Case};
use explain::{Found, explain};

use super::fresh_database;

const POPULATION: &str = include_str!("plans/population.sql");

/// What is wrong with how a case is carried out, if anything. It leaves nothing behind.
async fn wrong(connection: &mut PgConnection, case: &Case, sql: &str) -> Option<String> {
    connection.execute("BEGIN").await.unwrap();
    connection.execute(AssertSqlSafe(case.before)).await.unwrap();
    let found = explain(connection, sql, case.values).await;
    connection.execute("ROLLBACK").await.unwrap();
    let Found { rows, pages, scanned, .. } = &found;
    let bound = case.pages + case.pages_per_row * rows;
    let why = if *rows != case.rows {
        format!("gave {rows} rows and not {}", case.rows)
    } else if !scanned.is_empty() {
        format!("reads all of {}", scanned.join(", "))
    } else if *pages > bound {
        format!("touched {pages} pages for {rows} rows and may touch {bound}")
    } else {
        return None;
    };
    Some(format!("{} ({}): {why}\n{}", case.statement, case.why, found.plan))
}

/// Until every page is known to be visible to all, as it is in a database that has been in use for a while.
/// Whoever still looks at the database meanwhile, such as the server's own housekeeping, holds that up.
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
    panic!("there are pages that somebody may not see yet");
}

/// One test for all: making the resources takes longer than everything that is done with them.
#[tokio::test]
async fn hot_statements_touch_what_they_give() {
    let database = fresh_database().await;
    let mut connection = database.pool().acquire().await.unwrap();
    sqlx::raw_sql(POPULATION).execute(&mut *connection).await.unwrap();
    vacuum(&mut connection).await;

    let statements = statements();
    let mut wrongs = Vec::new();
    for case in CASES {
        let statement = statements.iter().find(|found| found.name == case.statement);
        let sql = statement.unwrap_or_else(|| panic!("there is no {}", case.statement)).sql;
        wrongs.extend(wrong(&mut connection, case, sql).await);
    }
    assert!(wrongs.is_empty(), "{}", wrongs.join("\n"));

    let case = &Case { statement: "without an index", ..CASES[0] };
    for (sql, why) in [
        ("SELECT id FROM plexsphere.provisioned_resources WHERE $1 = resource_id", "reads all of"),
        ("SELECT id FROM plexsphere.provisioned_resources ORDER BY id LIMIT 0", "gave 0 rows"),
        (
            "SELECT $1 FROM (SELECT count(*) FROM (SELECT updated_at FROM plexsphere.provisioned_resources \
             ORDER BY id LIMIT 1000) AS r) AS r",
            "touched",
        ),
    ] {
        let said = wrong(&mut connection, case, sql).await.unwrap();
        assert!(said.contains(why), "{said}");
    }
}
