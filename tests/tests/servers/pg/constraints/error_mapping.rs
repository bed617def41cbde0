//! Errors that the adapters translate beyond their ports' contracts. Deadlocks and lost races have
//! separate tests.

use broker_domain::CloudId;
use broker_pg::PgPlatform;
use broker_ports::{CloudResolver, FailureClass, Repository};
use broker_testkit::builders::resource;
use broker_testkit::store::StoreUnderTest;
use broker_tests::TestPostgres;
use sqlx::{AssertSqlSafe, Executor, PgPool};
use uuid::Uuid;

use crate::servers::pg::faults::sqlstate;
use crate::servers::pg::fresh_database;
use crate::servers::pg::store::world::World;

#[tokio::test]
async fn id_with_stored_events_is_taken() {
    let world = World::alone().await;
    world.register_references(&resource().declaration()).await.unwrap();
    let id = resource().id();
    let event = "INSERT INTO plexsphere.provisioning_outbox
            (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
        VALUES ($1, $2, 1, 'broker.ProvisionedResourceRequested', now(), '{}')";
    let event = sqlx::query(event).bind(Uuid::from_u128(0x00dd)).bind(id.as_uuid());
    event.execute(world.pool()).await.unwrap();
    let error = world.store.create(&resource().admitted()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Rejected, "{error}");
    let words = error.domain().map(ToString::to_string);
    assert_eq!(words, Some(format!("id: {id} is taken; use a new one")));
}

const PASSWORD: &str = "hunter2 is not the password";

#[tokio::test]
async fn unusable_database_is_rejected_with_the_reason() {
    let database = fresh_database().await;
    let empty = TestPostgres::shared().await.database().await;
    let role = format!("stranger_{}", database.name());
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'");
    database.pool().execute(AssertSqlSafe(create)).await.unwrap();
    let options = || database.options();
    for (why, options, state, words) in [
        ("no rights", options().username(&role).password(PASSWORD), "42501", "grant it the schema"),
        (
            "a wrong password",
            options().password(PASSWORD),
            "28P01",
            "refused the user or the password",
        ),
        ("no such database", options().database("nowhere"), "3D000", "there is no such database"),
        ("never migrated", empty.options(), "42P01", "bring its schema up to date"),
    ] {
        let pool = PgPool::connect_lazy_with(options);
        let unknown = CloudId::new(Uuid::from_u128(0x00dd)).unwrap();
        let refused = CloudResolver::resolve(&PgPlatform::new(pool.clone()), unknown).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.class(), sqlstate(&refused)),
            (FailureClass::Rejected, Some(state)),
            "{why}"
        );
        assert!(refused.to_string().contains(words), "{why}: {refused}");
        assert!(!format!("{refused:?}").contains(PASSWORD), "{why}: {refused:?}");
        pool.close().await;
    }
    database.pool().execute(AssertSqlSafe(format!("DROP ROLE {role}"))).await.unwrap();
}
