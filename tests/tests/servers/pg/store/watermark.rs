//! Following the watermark: whoever reads what changed since the last time misses nothing, however late and in
//! whatever order the writers commit.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use broker_domain::ProvisionedResourceId;
use broker_pg::{PgStore, create_in};
use broker_ports::{Created, ListQuery, Repository, Watermark};
use broker_testkit::builders::{id, resource, rows};
use broker_testkit::store::StoreUnderTest;
use futures::future::join_all;
use sqlx::postgres::PgPoolOptions;

use super::world::World;

const WRITERS: u128 = 16;
const ROUNDS: u128 = 6;

/// Reads what changed since, and from where to go on.
async fn read(
    store: &PgStore,
    since: Watermark,
    seen: &mut BTreeSet<ProvisionedResourceId>,
) -> Watermark {
    let query = ListQuery::new(rows(1_000)).updated_since(since);
    let page = store.list(&query).await.unwrap();
    assert_eq!(page.next, None, "the page is meant to hold everything");
    seen.extend(page.resources.iter().map(broker_domain::ProvisionedResource::id));
    page.watermark
}

#[tokio::test]
async fn what_commits_late_and_out_of_order_is_not_missed() {
    let world = World::alone().await;
    for number in 1..=WRITERS * ROUNDS {
        world.know(&resource().numbered(number).declaration()).await.unwrap();
    }
    let pool = PgPoolOptions::new()
        .max_connections(20)
        .connect_lazy_with(world.pool().connect_options().as_ref().clone());
    let store = PgStore::new(pool.clone());
    let start = store.list(&ListQuery::new(rows(1))).await.unwrap().watermark;
    let busy = AtomicUsize::new(usize::try_from(WRITERS).unwrap());

    // Every writer keeps its transaction open while others begin and commit: for as many statements as its
    // number and the round say.
    let write = |writer: u128| {
        let (pool, busy) = (&pool, &busy);
        async move {
            for round in 0..ROUNDS {
                let mut host = pool.begin().await.unwrap();
                let builder = resource().numbered(1 + writer * ROUNDS + round);
                let created = create_in(&mut host, &builder.admitted()).await.unwrap();
                assert_eq!(created, Created::Stored);
                for _ in 0..(writer * 7 + round * 5) % 17 {
                    sqlx::query("SELECT pg_sleep(0.002)").execute(&mut *host).await.unwrap();
                }
                host.commit().await.unwrap();
            }
            busy.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let follow = async {
        let (mut since, mut seen, mut reads) = (start, BTreeSet::new(), 0);
        while busy.load(Ordering::SeqCst) > 0 {
            since = read(&store, since, &mut seen).await;
            reads += 1;
        }
        read(&store, since, &mut seen).await;
        (seen, reads)
    };
    let (_, (seen, reads)) = tokio::join!(join_all((0..WRITERS).map(write)), follow);
    assert_eq!(seen, (1..=WRITERS * ROUNDS).map(id).collect());
    assert!(reads > 1, "the reader did not read beside the writers");
}

/// A reader whose role sees nothing of what other sessions do sees the same watermark.
#[tokio::test]
async fn a_role_without_rights_on_other_sessions_is_held_back_as_well() {
    let world = World::alone().await;
    world.know(&resource().declaration()).await.unwrap();
    let mut host = world.pool().begin().await.unwrap();
    assert_eq!(create_in(&mut host, &resource().admitted()).await.unwrap(), Created::Stored);
    let open: time::OffsetDateTime =
        sqlx::query_scalar("SELECT updated_at FROM plexsphere.provisioned_resources")
            .fetch_one(&mut *host)
            .await
            .unwrap();

    let mut reader = world.pool().begin().await.unwrap();
    sqlx::raw_sql(
        "CREATE ROLE watermark_reader; \
                   GRANT USAGE ON SCHEMA plexsphere TO watermark_reader; \
                   SET LOCAL ROLE watermark_reader",
    )
    .execute(&mut *reader)
    .await
    .unwrap();
    let seen: time::OffsetDateTime =
        sqlx::query_scalar("SELECT plexsphere.provisioned_resources_watermark()")
            .fetch_one(&mut *reader)
            .await
            .unwrap();
    reader.rollback().await.unwrap();
    assert!(seen <= open, "{seen} is after {open}");
}
