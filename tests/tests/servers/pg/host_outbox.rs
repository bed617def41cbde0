//! A host whose database has a table `plexsphere.outbox_events` of its own. The example sink forwards into it.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_app::Relay;
use broker_domain::{EventType, Phase};
use broker_pg::migrate;
use broker_ports::{Envelope, EventSink, Ports};
use broker_testkit::builders::id;
use broker_tests::TestPostgres;
use broker_tests::real::{RealWorld, config};
use broker_tests::world::{NODE, operator};
use forward_events::HostOutbox;
use futures::future::join_all;
use sqlx::PgPool;
use uuid::Uuid;

use super::migrations::dump::dump;

const TABLE: &str = include_str!("../../../../examples/forward-events/schema.sql");
const HOST: &str = include_str!("host_outbox.sql");

/// Every named object of the schema. Triggers have their names per table.
const NAMES: &str = "SELECT relname::text FROM pg_class WHERE relnamespace = 'plexsphere'::regnamespace
    UNION SELECT proname::text FROM pg_proc WHERE pronamespace = 'plexsphere'::regnamespace
    UNION SELECT conname::text FROM pg_constraint WHERE connamespace = 'plexsphere'::regnamespace
    UNION SELECT typname::text FROM pg_type WHERE typnamespace = 'plexsphere'::regnamespace AND typtype <> 'b'";

async fn names(pool: &PgPool) -> BTreeSet<String> {
    sqlx::query_scalar(NAMES).fetch_all(pool).await.unwrap().into_iter().collect()
}

/// The host's rows, without those that were forwarded.
async fn rows_of_host(pool: &PgPool) -> Vec<String> {
    let select = "SELECT e::text FROM plexsphere.outbox_events AS e WHERE context <> 'provisioning' ORDER BY id";
    sqlx::query_scalar(select).fetch_all(pool).await.unwrap()
}

async fn forwarded(pool: &PgPool) -> Vec<(Uuid, String, String)> {
    let select = "SELECT event_id, event_type, payload::text FROM plexsphere.outbox_events
        WHERE context = 'provisioning' ORDER BY id";
    sqlx::query_as(select).fetch_all(pool).await.unwrap()
}

/// Delivers until no event waits.
async fn deliver_all(relay: &Relay) {
    while relay.deliver_batch().await.unwrap().was_busy() {}
}

#[tokio::test]
async fn host_outbox_only_gains_the_forwarded_events() {
    let world = RealWorld::new().await;
    let pool = world.pool();
    migrate::down(pool, 0).await.unwrap();
    sqlx::raw_sql(TABLE).execute(pool).await.unwrap();
    sqlx::raw_sql(HOST).execute(pool).await.unwrap();
    let before = (dump(pool).await, rows_of_host(pool).await);
    let names_of_host = names(pool).await;

    migrate::up(pool).await.unwrap();
    let added: Vec<_> = names(pool).await.difference(&names_of_host).cloned().collect();
    assert!(added.iter().any(|name| name == "provisioning_outbox"), "{added:?}");
    for name in added {
        let prefixes = ["provisioned_resource", "provisioning_"];
        assert!(prefixes.iter().any(|own| name.starts_with(own)), "{name} is not the broker's own");
    }

    let sink = Arc::new(HostOutbox::new(pool.clone()));
    let relay = Relay::new(Ports { sink, ..world.ports.clone() }, config("relay")).unwrap();
    let machine = world.declare_until(Phase::Ready, &world.declaration(NODE)).await.id();
    deliver_all(&relay).await;
    world.service.deprovision(&operator(), machine).await.unwrap();
    world.until(machine, Phase::Deleted).await;
    deliver_all(&relay).await;
    let events = forwarded(pool).await;
    let types: Vec<_> = events.iter().map(|(_, event_type, _)| event_type.as_str()).collect();
    let life = [EventType::Requested, EventType::Ready, EventType::Deleting, EventType::Deleted];
    assert_eq!(types, life.map(EventType::as_str));
    for (event_id, event_type, payload) in &events {
        let envelope: serde_json::Value = serde_json::from_str(payload).unwrap();
        assert_eq!(envelope["id"], event_id.to_string());
        assert_eq!(envelope["type"], event_type.as_str());
    }

    // As if the process had died before each acknowledgement.
    let forget = "UPDATE plexsphere.provisioning_outbox
        SET settled_at = NULL, claimed_by = NULL, held_until = NULL";
    let repeated = sqlx::query(forget).execute(pool).await.unwrap().rows_affected();
    assert_eq!(repeated, 4);
    deliver_all(&relay).await;
    assert_eq!(forwarded(pool).await, events, "once per event id");

    migrate::down(pool, 0).await.unwrap();
    assert_eq!((dump(pool).await, rows_of_host(pool).await), before);
    assert_eq!(forwarded(pool).await, events, "the host keeps what it was given");
}

#[tokio::test]
async fn event_forwarded_concurrently_is_stored_once() {
    let database = TestPostgres::shared().await.database().await;
    let pool = database.pool();
    migrate::reference_up(pool).await.unwrap();
    sqlx::raw_sql(TABLE).execute(pool).await.unwrap();
    let sink = HostOutbox::new(pool.clone());
    let event = Envelope::new(id(1), EventType::Ready, id(2), 2, br#"{"a":  1}"#.to_vec());
    for delivered in join_all((0..8).map(|_| sink.deliver(&event))).await {
        delivered.unwrap();
    }
    let stored =
        (Uuid::from_u128(1), EventType::Ready.as_str().to_owned(), r#"{"a":  1}"#.to_owned());
    assert_eq!(forwarded(pool).await, [stored]);
}
