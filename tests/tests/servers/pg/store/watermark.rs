//! Following the watermark by a role that has few rights. That whoever follows it misses nothing is a part of the
//! contract.

use broker_pg::create_in;
use broker_ports::Created;
use broker_testkit::builders::resource;
use broker_testkit::store::StoreUnderTest;

use super::world::World;

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
