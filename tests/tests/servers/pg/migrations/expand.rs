//! Migrations only add: the statements of the first release run on the newest schema, what they write can be
//! read, and what they wrote before stays.

use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use broker_pg::{PgStore, migrate};
use broker_ports::Repository;
use broker_testkit::builders::{declaration, id, resource};
use broker_testkit::store::StoreUnderTest;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgPool, Postgres, Row};
use time::OffsetDateTime;
use uuid::Uuid;

use super::super::store::world::World;

const FIRST_RELEASE: &str = include_str!("first_release.sql");

/// A statement of the first release by its name.
fn first(name: &str) -> Query<'static, Postgres, PgArguments> {
    let marker = format!("-- name: {name}\n");
    let (_, rest) = FIRST_RELEASE.split_once(marker.as_str()).unwrap();
    let (statement, _) = rest.split_once(';').unwrap();
    sqlx::query(statement)
}

async fn now(pool: &PgPool) -> OffsetDateTime {
    sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(pool).await.unwrap()
}

/// A resource, driven by the first release along these phases.
async fn drive(pool: &PgPool, number: u128, phases: &[Phase]) -> ProvisionedResourceId {
    let resource: ProvisionedResourceId = id(number);
    let at = now(pool).await;
    let declared = declaration().build();
    first("CreateProvisionedResource")
        .bind(resource.as_uuid())
        .bind(declared.resource_id.as_uuid())
        .bind(declared.project_id.as_uuid())
        .bind(declared.blueprint_version_id.as_uuid())
        .bind(declared.cloud_credential_id.as_uuid())
        .bind(Phase::Pending.as_str())
        .bind(resource.xr_name().as_str())
        .bind(None::<Uuid>)
        .bind(at)
        .bind(at)
        .execute(pool)
        .await
        .unwrap();
    for _ in 0..2 {
        first("AppendOutboxToken")
            .bind(resource.as_uuid())
            .bind("broker.ProvisionedResourceRequested")
            .execute(pool)
            .await
            .unwrap();
    }
    for phase in phases {
        let at = now(pool).await;
        let step = if *phase == Phase::Deregistering {
            first("RequestProvisionedResourceDeletion")
                .bind(resource.as_uuid())
                .bind(phase.as_str())
                .bind(at)
                .bind(at)
        } else {
            first("UpdateProvisionedResourcePhase")
                .bind(resource.as_uuid())
                .bind(phase.as_str())
                .bind(Some(Uuid::from_u128(number)))
                .bind(at)
        };
        assert_eq!(step.execute(pool).await.unwrap().rows_affected(), 1);
    }
    resource
}

/// One way to each phase.
fn ways() -> Vec<Vec<Phase>> {
    use Phase::{Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Provisioning, Ready};
    vec![
        vec![],
        vec![Provisioning],
        vec![Provisioning, Enrolling],
        vec![Provisioning, Enrolling, Ready],
        vec![Provisioning, Failed],
        vec![Provisioning, Enrolling, Ready, Failed],
        vec![Provisioning, Deregistering],
        vec![Provisioning, Enrolling, Ready, Deregistering, Deprovisioning],
        vec![Provisioning, Failed, Deregistering, Deprovisioning, Deleted],
    ]
}

async fn read(pool: &PgPool, resource: ProvisionedResourceId) -> ProvisionedResource {
    PgStore::new(pool.clone()).get_by_id(resource).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_first_release_runs_on_the_newest_schema_and_its_rows_can_be_read() {
    let world = World::alone().await;
    world.know(&resource().declaration()).await.unwrap();
    let pool = world.pool();
    for (number, phases) in (1..).zip(ways()) {
        let written = drive(pool, number, &phases).await;
        let found = read(pool, written).await;
        assert_eq!(found.phase(), phases.last().copied().unwrap_or(Phase::Pending));
        assert!(
            found.version().get() > phases.len() as u64,
            "a writer that knows no versions raises them: {:?}",
            found.version()
        );
        let row =
            first("GetProvisionedResource").bind(written.as_uuid()).fetch_one(pool).await.unwrap();
        assert_eq!(row.get::<String, _>("status"), found.phase().as_str());
        let entry = world.schedule().entry(written).await.unwrap();
        assert!(
            entry.is_some_and(|entry| entry.due_at.is_some()),
            "it has a place in the schedule"
        );
    }
    let listed = first("ListProvisionedResources").fetch_all(pool).await.unwrap();
    assert_eq!(listed.len(), ways().len());
}

#[tokio::test]
async fn what_the_first_release_wrote_is_there_after_migrating_up_and_down_again() {
    let world = World::alone().await;
    world.know(&resource().declaration()).await.unwrap();
    let pool = world.pool();
    migrate::down(pool, 27).await.unwrap();
    let mut written = Vec::new();
    for (number, phases) in (1..).zip(ways()) {
        let phase = phases.last().copied().unwrap_or(Phase::Pending);
        written.push((drive(pool, number, &phases).await, phase));
    }
    let rows = "SELECT array_agg(r::text ORDER BY id) FROM (
        SELECT id, resource_id, project_id, blueprint_version_id, cloud_credential_id, status, xr_name,
            bootstrap_token_id, created_at, updated_at, deletion_requested_at
        FROM plexsphere.provisioned_resources) AS r";
    let before: Vec<String> = sqlx::query_scalar(rows).fetch_one(pool).await.unwrap();

    migrate::up(pool).await.unwrap();
    for (resource, phase) in &written {
        assert_eq!(read(pool, *resource).await.phase(), *phase);
    }
    let after: Vec<String> = sqlx::query_scalar(rows).fetch_one(pool).await.unwrap();
    assert_eq!(after, before, "the new columns change nothing in the old ones");

    migrate::down(pool, 27).await.unwrap();
    let back: Vec<String> = sqlx::query_scalar(rows).fetch_one(pool).await.unwrap();
    assert_eq!(back, before);
    // What is on its way down has substrate, and the schema before has no word for its phase.
    migrate::down(pool, 26).await.unwrap_err();
    let kept: Vec<String> = sqlx::query_scalar(rows).fetch_one(pool).await.unwrap();
    assert_eq!(kept, before);
}
