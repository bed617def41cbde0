//! Migrations only add: the first release's statements run on the newest schema, and its rows can
//! be read.

use broker_domain::{Phase, ProvisionedResourceId};
use broker_ports::Repository;
use broker_testkit::builders::{declaration, id, resource, second};
use broker_testkit::store::StoreUnderTest;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{PgPool, Postgres, Row};
use uuid::Uuid;

use super::super::store::world::World;

const FIRST_RELEASE: &str = include_str!("first_release.sql");

/// A statement of the first release, by its name in the file.
fn first(name: &str) -> Query<'static, Postgres, PgArguments> {
    let marker = format!("-- name: {name}\n");
    let (_, rest) = FIRST_RELEASE.split_once(marker.as_str()).unwrap();
    let (statement, _) = rest.split_once(';').unwrap();
    sqlx::query(statement)
}

/// A resource that the first release moves through these phases.
async fn drive(pool: &PgPool, number: u128, phases: &[Phase]) -> ProvisionedResourceId {
    let resource: ProvisionedResourceId = id(number);
    let at = second(1_000_000);
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

#[tokio::test]
async fn first_release_works_on_the_newest_schema() {
    use Phase::{Deleted, Deprovisioning, Deregistering, Enrolling, Failed, Provisioning, Ready};
    let world = World::alone().await;
    world.register_references(&resource().declaration()).await.unwrap();
    let pool = world.pool();
    let paths: [&[Phase]; 5] = [
        &[],
        &[Provisioning, Enrolling, Ready],
        &[Provisioning, Enrolling, Ready, Failed],
        &[Provisioning, Enrolling, Ready, Deregistering, Deprovisioning],
        &[Provisioning, Failed, Deregistering, Deprovisioning, Deleted],
    ];
    for (number, phases) in (1..).zip(paths) {
        let written = drive(pool, number, phases).await;
        let found = world.store.get_by_id(written).await.unwrap().unwrap();
        assert_eq!(found.phase(), phases.last().copied().unwrap_or(Phase::Pending));
        assert!(
            found.version().get() > phases.len() as u64,
            "each write raises the version, although its writer knows no versions: {:?}",
            found.version()
        );
        let row =
            first("GetProvisionedResource").bind(written.as_uuid()).fetch_one(pool).await.unwrap();
        assert_eq!(row.get::<String, _>("status"), found.phase().as_str());
        let entry = world.schedule().entry(written).await.unwrap();
        assert!(entry.is_some_and(|entry| entry.due_at.is_some()), "it is scheduled");
    }
    let listed = first("ListProvisionedResources").fetch_all(pool).await.unwrap();
    assert_eq!(listed.len(), paths.len());
}
