//! The constraints that the store puts into words of the domain, each broken through the store.

use broker_domain::{Declaration, Error};
use broker_pg::PgStore;
use broker_ports::{Created, FailureClass, PortError, Repository, Write, WriteKind, Written};
use broker_testkit::builders::{attribution, declaration, resource, stamp};
use broker_tests::TestDatabase;
use sqlx::PgPool;
use uuid::Uuid;

use crate::servers::pg::fresh_database;

/// What a declaration refers to, but for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Project,
    Resource,
    Blueprint,
    Credential,
}

/// The Resource is another Project's, so that it can be there without the declaration's own.
async fn know(pool: &PgPool, declared: &Declaration, missing: Missing) {
    let there = |part| missing != part;
    let rows = [
        (there(Missing::Project), "INSERT INTO plexsphere.projects (id) VALUES ($1)", 0),
        (
            there(Missing::Resource),
            "WITH elsewhere AS (INSERT INTO plexsphere.projects DEFAULT VALUES RETURNING id)
            INSERT INTO plexsphere.resources (id, project_id) SELECT $1, id FROM elsewhere",
            1,
        ),
        (
            there(Missing::Blueprint),
            "INSERT INTO plexsphere.blueprint_versions (id, slug, version, display_name, description,
                provider_kinds, injection_strategy, parameter_schema, metadata, xrd, composition)
            VALUES ($1, $1::text, 'v1', '', '', '{}', 'helm-values', '{}', '', '', '')",
            2,
        ),
        (
            there(Missing::Credential),
            "WITH cloud AS (INSERT INTO plexsphere.clouds (provider) VALUES ('test') RETURNING id)
            INSERT INTO plexsphere.cloud_credentials (id, cloud_id, kv_mount, kv_path)
            SELECT $1, id, 'kv', 'path' FROM cloud",
            3,
        ),
    ];
    let ids = [
        declared.project_id.as_uuid(),
        declared.resource_id.as_uuid(),
        declared.blueprint_version_id.as_uuid(),
        declared.cloud_credential_id.as_uuid(),
    ];
    for (_, insert, id) in rows.into_iter().filter(|(there, ..)| *there) {
        sqlx::query(insert).bind(ids[id]).execute(pool).await.unwrap();
    }
}

/// A database, a store over it, and the neighbours that a resource refers to, but for one.
async fn scene(missing: Missing) -> (TestDatabase, PgStore) {
    let database = fresh_database().await;
    know(database.pool(), &resource().declaration(), missing).await;
    let store = PgStore::new(database.pool().clone());
    (database, store)
}

/// An event in the outbox that the store did not put there.
async fn foreign_event(pool: &PgPool, event: Uuid, of: Uuid, sequence: i64) {
    let insert = "INSERT INTO plexsphere.provisioning_outbox
            (event_id, provisioned_resource_id, sequence, event_type, occurred_at, payload)
        VALUES ($1, $2, $3, 'broker.ProvisionedResourceRequested', now(), '{}')";
    sqlx::query(insert).bind(event).bind(of).bind(sequence).execute(pool).await.unwrap();
}

/// The domain error behind a refusal: reason and words.
fn refusal<T: std::fmt::Debug>(answer: Result<T, PortError>) -> (String, String) {
    let error = answer.unwrap_err();
    assert_eq!(error.class(), FailureClass::Rejected, "{error}");
    let domain: &Error = error.domain().unwrap_or_else(|| panic!("no domain error in {error:?}"));
    (domain.reason().to_owned(), domain.to_string())
}

#[tokio::test]
async fn a_missing_parent_is_named() {
    let rows = [
        (Missing::Project, "invalid_input", "project_id: names no existing project"),
        (Missing::Resource, "invalid_input", "resource_id: names no existing resource"),
        (Missing::Blueprint, "blueprint_not_found", ""),
        (Missing::Credential, "credential_not_found", ""),
    ];
    for (missing, reason, words) in rows {
        let (database, store) = scene(missing).await;
        let refused = refusal(store.create(&resource().admitted()).await);
        assert_eq!(refused.0, reason, "{missing:?}");
        assert!(words.is_empty() || refused.1 == words, "{missing:?}: {}", refused.1);
        assert_eq!(traces(database.pool()).await, 0, "{missing:?}: something was stored");
    }
}

/// Rows that a refused declaration could have left.
async fn traces(pool: &PgPool) -> i64 {
    let count = "SELECT (SELECT count(*) FROM plexsphere.provisioned_resources)
        + (SELECT count(*) FROM plexsphere.provisioned_resource_outbox_token)
        + (SELECT count(*) FROM plexsphere.provisioned_resource_schedule)
        + (SELECT count(*) FROM plexsphere.provisioned_resource_audit)
        + (SELECT count(*) FROM plexsphere.provisioning_outbox)";
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn an_id_that_is_taken_is_named() {
    let (_database, store) = scene(Missing::Nothing).await;
    let admitted = resource().admitted();
    assert!(matches!(store.create(&admitted).await.unwrap(), Created::Stored));
    let (reason, words) = refusal(store.create(&admitted).await);
    assert_eq!(reason, "invalid_input");
    assert_eq!(words, format!("id: {} is taken; use a new one", resource().id()));
}

#[tokio::test]
async fn an_id_whose_events_are_still_there_is_taken() {
    let (database, store) = scene(Missing::Nothing).await;
    let id = resource().id();
    foreign_event(database.pool(), Uuid::from_u128(0x00dd), id.as_uuid(), 1).await;
    let (_, words) = refusal(store.create(&resource().admitted()).await);
    assert_eq!(words, format!("id: {id} is taken; use a new one"));
}

#[tokio::test]
async fn an_event_id_that_is_taken_is_named() {
    let (database, store) = scene(Missing::Nothing).await;
    let admitted = resource().admitted();
    let requested = admitted.change().event().unwrap().id();
    let elsewhere = Uuid::from_u128(0x00dd);
    foreign_event(database.pool(), requested.as_uuid(), elsewhere, 1).await;
    let (_, words) = refusal(store.create(&admitted).await);
    assert_eq!(words, format!("event_id: {requested} is taken; use a new one"));

    // And of a change, by the statement that every write goes through.
    let (database, store) = scene(Missing::Nothing).await;
    assert!(matches!(store.create(&admitted).await.unwrap(), Created::Stored));
    let deletion = resource().build().request_deletion(stamp(0x00de, 9)).unwrap();
    let deleting = deletion.event().unwrap().id();
    foreign_event(database.pool(), deleting.as_uuid(), elsewhere, 1).await;
    let by = attribution();
    let write = Write::by_caller(&deletion, &by);
    let (_, words) = refusal(store.write(WriteKind::DeletionIntent, &write).await);
    assert_eq!(words, format!("event_id: {deleting} is taken; use a new one"));
}

#[tokio::test]
async fn a_request_id_that_is_taken_is_an_answer_and_no_error() {
    let (_database, store) = scene(Missing::Nothing).await;
    let first = resource().requested_as("order-1");
    assert!(matches!(store.create(&first.admitted()).await.unwrap(), Created::Stored));
    // Another id in the same words, and then in others.
    let again = resource().numbered(2).declared_as(declaration().requested_as("order-1"));
    let other = resource()
        .numbered(3)
        .declared_as(declaration().requested_as("order-1").with_parameters(r#"{"size":"large"}"#));
    let replayed = store.create(&again.admitted()).await.unwrap();
    let Created::Replayed(stored) = replayed else { panic!("{replayed:?}") };
    assert_eq!(stored.id(), first.id());
    let conflict = store.create(&other.admitted()).await.unwrap();
    assert!(matches!(conflict, Created::Conflict), "{conflict:?}");
}

#[tokio::test]
async fn a_write_that_breaks_nothing_is_committed() {
    let (_database, store) = scene(Missing::Nothing).await;
    assert!(matches!(store.create(&resource().admitted()).await.unwrap(), Created::Stored));
    let deletion = resource().build().request_deletion(stamp(0x00de, 9)).unwrap();
    let by = attribution();
    let write = Write::by_caller(&deletion, &by);
    assert_eq!(store.write(WriteKind::DeletionIntent, &write).await.unwrap(), Written::Committed);
}
