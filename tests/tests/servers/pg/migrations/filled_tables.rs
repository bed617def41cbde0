//! Migration of a database with resources of the first release: no table is rewritten, and no
//! transaction with an exclusive lock reads or writes rows.

use std::collections::BTreeMap;

use broker_pg::{PgStore, migrate};
use broker_ports::{ListQuery, Repository};
use broker_testkit::builders::rows;
use broker_tests::proxy::Request;
use broker_tests::{PgProxy, TestDatabase, until};
use sqlx::{Executor, PgPool, Row};

use super::dump::dump;
use super::{another_pool, versions};
use crate::servers::pg::fresh_database;

/// Inserts 12,000 resources of the first release: more than one batch of the migrator.
const FILL: &str = "SET session_replication_role = replica;
INSERT INTO plexsphere.provisioned_resources
    (id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name, bootstrap_token_id,
     deletion_requested_at)
SELECT id, id, id, id, id, (ARRAY['Pending', 'Ready', 'Failed', 'Deregistering', 'Deleted'])[1 + n % 5], 'pr-' || id,
    CASE WHEN n % 5 > 0 THEN id END, CASE WHEN n % 5 > 2 THEN now() + interval '1 h' END
FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, 12000) AS n) AS r;
INSERT INTO plexsphere.provisioned_resource_outbox_token (provisioned_resource_id, event_type)
SELECT id, 'broker.ProvisionedResourceRequested' FROM plexsphere.provisioned_resources;
SET session_replication_role = DEFAULT";

async fn first_release() -> TestDatabase {
    let database = fresh_database().await;
    migrate::down(database.pool(), 27).await.unwrap();
    database.pool().execute(FILL).await.unwrap();
    database
}

/// The files and the rows of the first release's tables. A new file means a rewritten table.
async fn stored(pool: &PgPool) -> Vec<String> {
    let stored = "SELECT pg_relation_filenode('plexsphere.' || name)::text
        FROM unnest(ARRAY['provisioned_resources', 'provisioned_resource_outbox_token']) AS name
        UNION ALL SELECT md5(string_agg(r::text, '' ORDER BY id)) FROM (
            SELECT id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
                bootstrap_token_id, created_at, updated_at, deletion_requested_at
            FROM plexsphere.provisioned_resources) AS r";
    sqlx::query_scalar(stored).fetch_all(pool).await.unwrap()
}

fn is_commit(request: &Request) -> bool {
    request.verb == "COMMIT"
}

/// The strongest lock that another session holds on each table of the first release.
async fn held_locks(pool: &PgPool) -> BTreeMap<String, String> {
    let locks = "SELECT c.relname, l.mode FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
        WHERE l.granted AND l.pid <> pg_backend_pid()
            AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND c.relname IN ('provisioned_resources', 'provisioned_resource_outbox_token')
            AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        ORDER BY l.mode DESC";
    let rows = sqlx::query(locks).fetch_all(pool).await.unwrap();
    rows.iter().map(|row| (row.get("relname"), row.get("mode"))).collect()
}

#[tokio::test]
async fn filled_tables_are_locked_by_catalog_steps_only() {
    let database = first_release().await;
    let before = stored(database.pool()).await;
    let proxy = PgProxy::start(&database).await;
    let mut commit = proxy.script().first(is_commit).before_forward().hold();
    let pool = proxy.pool();
    let mut migrating = Box::pin(migrate::up(&pool));
    let mut seen = Vec::new();
    let done = loop {
        tokio::select! {
            done = &mut migrating => break done.unwrap(),
            () = commit.wait_until_held() => {
                let ended = proxy.script().requests();
                let step = ended.iter().rev().nth(2).unwrap().target.clone();
                seen.push((held_locks(database.pool()).await, step));
                let next = proxy.script().first(is_commit).before_forward().hold();
                std::mem::replace(&mut commit, next).release();
            }
        }
    };
    assert_eq!(done, versions()[2..]);
    let after = stored(database.pool()).await;
    assert_eq!(after, before, "a table was rewritten, or a row changed");
    let read = PgStore::new(database.pool().clone()).list(&ListQuery::new(rows(1_000))).await;
    assert_eq!(read.unwrap().resources.len(), 1_000, "rows of every phase can be read");

    let modes: Vec<_> = seen
        .iter()
        .map(|(locks, _)| locks.values().map(String::as_str).collect::<Vec<_>>())
        .collect();
    let expected = [
        vec!["AccessExclusiveLock"],   // 0028: columns, without their values
        vec!["AccessExclusiveLock"],   // 0028: the key and NOT NULL, both proven before
        vec!["ShareRowExclusiveLock"], // 0029: a reference and a trigger
        vec!["AccessExclusiveLock"],   // 0030: a column
        vec!["AccessExclusiveLock"],   // 0030: the key
    ];
    assert_eq!(modes, expected, "{seen:?}");
    for (_, step) in seen {
        let writes = |line: &str| {
            ["UPDATE ", "INSERT INTO ", "DELETE "].iter().any(|verb| line.starts_with(verb))
        };
        assert!(!step.lines().any(writes), "rows change under an exclusive lock: {step}");
    }
    let unscheduled: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM plexsphere.provisioned_resources AS r
         WHERE NOT EXISTS (SELECT FROM plexsphere.provisioned_resource_schedule AS s
             WHERE s.provisioned_resource_id = r.id)",
    )
    .fetch_one(database.pool())
    .await
    .unwrap();
    assert_eq!(unscheduled, 0, "resources without a schedule entry");
}

#[tokio::test]
async fn interrupted_index_build_is_repeated() {
    let expected = dump(fresh_database().await.pool()).await;
    let database = first_release().await;
    let proxy = PgProxy::start(&database).await;
    let is_build = |request: &Request| request.target.contains("INDEX CONCURRENTLY");
    let mut build = proxy.script().first(is_build).before_forward().hold();
    // An index build waits for every older snapshot. This reader holds one.
    let others = another_pool(&database);
    let mut reader = others.acquire().await.unwrap();
    let pool = proxy.pool();
    let (ended, ()) = tokio::join!(migrate::up(&pool), async {
        build.wait_until_held().await;
        reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
        reader.execute("SELECT count(*) FROM plexsphere.projects").await.unwrap();
        build.release();
        until("the build to wait", || async { invalid_index(database.pool()).await.map(drop) })
            .await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE '%INDEX CONCURRENTLY%' AND pid <> pg_backend_pid()";
        database.pool().execute(end).await.unwrap();
    });
    ended.unwrap_err();
    assert!(invalid_index(database.pool()).await.is_some());
    migrate::ensure_current(database.pool()).await.unwrap_err();
    migrate::down(database.pool(), 0).await.unwrap_err();

    reader.execute("ROLLBACK").await.unwrap();
    migrate::up(database.pool()).await.unwrap();
    assert_eq!(invalid_index(database.pool()).await, None);
    assert_eq!(dump(database.pool()).await, expected);
}

async fn invalid_index(pool: &PgPool) -> Option<String> {
    let invalid_index =
        "SELECT c.relname::text FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE NOT i.indisvalid AND c.relnamespace = 'plexsphere'::regnamespace";
    sqlx::query_scalar(invalid_index).fetch_optional(pool).await.unwrap()
}
