//! The watermark for a reader with few rights. The contract suite tests that a follower misses nothing.

use broker_pg::create_in;
use broker_ports::Created;
use broker_testkit::builders::resource;
use broker_testkit::store::StoreUnderTest;

use super::world::World;

/// A reader whose role cannot see other sessions gets the same watermark.
#[tokio::test]
async fn watermark_holds_back_a_role_with_few_rights_too() {
    let world = World::alone().await;
    world.register_references(&resource().declaration()).await.unwrap();
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
