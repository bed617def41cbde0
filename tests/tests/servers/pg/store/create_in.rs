//! Declaring within the host's transaction: it takes effect with the host's commit, and a refusal
//! does not end the transaction.

use broker_domain::ProvisionedResource;
use broker_pg::create_in;
use broker_ports::{Created, FailureClass, ListQuery, Outbox, Repository, Schedule};
use broker_testkit::builders::{declaration, id, resource, rows};
use broker_testkit::store::StoreUnderTest;
use futures::StreamExt;
use sqlx::Executor;

use super::world::World;

async fn host_world() -> World {
    let world = World::alone().await;
    world.pool().execute("CREATE TABLE public.orders (number int PRIMARY KEY)").await.unwrap();
    world
}

async fn orders(world: &World) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM public.orders").fetch_one(world.pool()).await.unwrap()
}

#[tokio::test]
async fn declaration_exists_after_host_commit_and_wakes_listeners() {
    let world = host_world().await;
    let builder = resource().requested_as("order-1");
    world.register_references(&builder.declaration()).await.unwrap();
    let mut hints = world.store.wakeups().await.unwrap();

    let mut host = world.pool().acquire().await.unwrap();
    let refused = create_in(&mut host, &builder.admitted()).await.unwrap_err();
    assert_eq!(refused.class(), FailureClass::Rejected, "outside of a transaction");
    // sqlx does not track a transaction that SQL text began, so the test ends it by SQL text.
    for end in ["ROLLBACK", "COMMIT"] {
        host.execute("BEGIN; INSERT INTO public.orders VALUES (1)").await.unwrap();
        let created = create_in(&mut host, &builder.admitted()).await.unwrap();
        assert_eq!(created, Created::Stored);
        assert_eq!(world.store.get_by_id(builder.id()).await.unwrap(), None, "not committed yet");
        host.execute(end).await.unwrap();
    }

    assert_eq!(hints.next().await, Some(builder.id()));
    assert!(world.store.get_by_id(builder.id()).await.unwrap().is_some());
    assert_eq!(world.store.backlog().await.unwrap().depth, 1);
    assert_eq!(world.store.history(builder.id()).await.unwrap().len(), 1);
    assert!(world.store.entry(builder.id()).await.unwrap().unwrap().due_at.is_some());
    assert_eq!(orders(&world).await, 1);
}

#[tokio::test]
async fn no_outcome_ends_the_hosts_transaction() {
    let world = host_world().await;
    let shared = declaration().requested_as("order-1");
    world.register_references(&shared.clone().build()).await.unwrap();
    let first = resource().declared_as(shared.clone());
    let equal = resource().numbered(2).declared_as(shared.clone());
    let other = resource().numbered(3).declared_as(shared.with_parameters(r#"{"a":1}"#));
    let unknown = resource().numbered(4).declared_as(declaration().from_blueprint(99));
    let taken = resource().numbered(1).requested_as("order-2");

    let mut host = world.pool().begin().await.unwrap();
    assert_eq!(create_in(&mut host, &first.admitted()).await.unwrap(), Created::Stored);
    let replayed = create_in(&mut host, &equal.admitted()).await.unwrap();
    assert!(matches!(replayed, Created::Replayed(found) if found.id() == first.id()));
    assert_eq!(create_in(&mut host, &other.admitted()).await.unwrap(), Created::Conflict);
    for (builder, reason) in [(unknown, "blueprint_not_found"), (taken, "invalid_input")] {
        let error = create_in(&mut host, &builder.admitted()).await.unwrap_err();
        assert_eq!(error.class(), FailureClass::Rejected, "{error}");
        assert_eq!(error.domain().unwrap().reason(), reason);
    }
    host.execute("INSERT INTO public.orders VALUES (1)").await.unwrap();
    host.commit().await.unwrap();

    assert_eq!(orders(&world).await, 1);
    let listed = world.store.list(&ListQuery::new(rows(10))).await.unwrap().resources;
    assert!(listed.iter().map(ProvisionedResource::id).eq([id(1)]), "{listed:?}");
}
