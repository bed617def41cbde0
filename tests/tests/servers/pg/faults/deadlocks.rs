//! Two who want the same rows: in which order, and what becomes of the one that has to give way.

use std::time::Duration;

use broker_domain::{Phase, ProvisionedResourceId, Version};
use broker_pg::{PgStore, create_in};
use broker_ports::{
    ClaimRequest, ClaimTarget, Created, FailureClass, Lane, Lease, PassOutcome, Released,
    Repository, Schedule, Write, WriteKind, Written,
};
use broker_testkit::builders::{attribution, resource, rows, stamp, worker};
use broker_testkit::store::StoreUnderTest;
use broker_tests::until;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor, PgConnection, PgPool};

use super::{HOUR, sqlstate};
use crate::servers::pg::store::world::World;

/// A stored resource, held by a worker.
async fn held() -> (World, ProvisionedResourceId, Lease) {
    let world = World::alone().await;
    let id = stored(&world, 1).await;
    let request = ClaimRequest::new(worker("holder"), ClaimTarget::One(id), HOUR);
    let lease = world.store.claim(&request).await.unwrap().pop().unwrap();
    (world, id, lease)
}

async fn stored(world: &World, number: u128) -> ProvisionedResourceId {
    let builder = resource().numbered(number);
    world.know(&builder.declaration()).await.unwrap();
    assert_eq!(world.store.create(&builder.admitted()).await.unwrap(), Created::Stored);
    builder.id()
}

/// Waits until a session waits for a lock.
async fn somebody_waits(pool: &PgPool) {
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock')";
    until("somebody to wait for a lock", || async {
        let waits: bool = sqlx::query_scalar(waiting).fetch_one(pool).await.unwrap();
        waits.then_some(())
    })
    .await;
}

/// What a host, or the release before, sends: it updates the row, and the trigger the place in the schedule.
/// The two locks are taken one after the other here, so that whoever takes them the other way round is between
/// them at the wrong moment.
struct OtherWriter(PgConnection);

impl OtherWriter {
    async fn with_the_row(world: &World, id: ProvisionedResourceId) -> Self {
        let mut writer = PgConnection::connect_with(&world.database().options()).await.unwrap();
        writer.execute("BEGIN").await.unwrap();
        let lock = "SELECT FROM plexsphere.provisioned_resources WHERE id = $1 FOR NO KEY UPDATE";
        sqlx::query(lock).bind(id.as_uuid()).execute(&mut writer).await.unwrap();
        Self(writer)
    }

    async fn deletes(mut self, id: ProvisionedResourceId) {
        let update = "UPDATE plexsphere.provisioned_resources \
                      SET status = 'Deregistering', deletion_requested_at = clock_timestamp() WHERE id = $1";
        sqlx::query(update).bind(id.as_uuid()).execute(&mut self.0).await.unwrap();
        self.0.execute("COMMIT").await.unwrap();
    }

    /// Deletes the resource once the other one, which comes after it, waits.
    async fn goes_first<T>(
        self,
        world: &World,
        id: ProvisionedResourceId,
        other: impl Future<Output = T>,
    ) -> T {
        let deletes = async {
            somebody_waits(world.pool()).await;
            self.deletes(id).await;
        };
        tokio::join!(other, deletes).0
    }
}

#[tokio::test]
async fn a_guarded_write_and_an_update_by_hand_never_deadlock() {
    let (world, id, lease) = held().await;
    let other = OtherWriter::with_the_row(&world, id).await;
    let row = world.store.get_by_id(id).await.unwrap().unwrap();
    let change = row.advance(Phase::Provisioning, stamp(9, 9)).unwrap().unwrap();
    let by = attribution();
    let write = Write::by_worker(&change, lease.epoch, &by);
    let written = other.goes_first(&world, id, world.store.write(WriteKind::Phase, &write)).await;
    assert_eq!(written.unwrap(), Written::Stale, "it waited, and sees what the other left");
}

#[tokio::test]
async fn a_release_and_an_update_by_hand_never_deadlock() {
    let (world, id, lease) = held().await;
    let other = OtherWriter::with_the_row(&world, id).await;
    let later = PassOutcome::Succeeded { due_in: Some(HOUR) };
    let released =
        other.goes_first(&world, id, world.store.release(&lease, Version::FIRST, &later)).await;
    assert_eq!(released.unwrap(), Released::Done);
    let entry = world.store.entry(id).await.unwrap().unwrap();
    assert!(entry.due_at.unwrap() <= entry.now, "the deletion is not put off: {entry:?}");
}

#[tokio::test]
async fn a_pause_and_an_update_by_hand_never_deadlock() {
    let (world, id, _) = held().await;
    let other = OtherWriter::with_the_row(&world, id).await;
    let by = attribution();
    let paused = other.goes_first(&world, id, world.store.set_paused(id, true, &by)).await;
    assert!(paused.unwrap());
    let last = world.store.history(id).await.unwrap().pop().unwrap();
    assert_eq!(last.entry.new_phase, Some(Phase::Deregistering));
}

/// Nobody knows in which order a host declares.
#[tokio::test]
async fn two_hosts_that_deadlock_lose_one_declaration_and_no_transaction() {
    let world = World::alone().await;
    let builders = [1, 2].map(|number| {
        resource().numbered(number).requested_as(if number == 1 { "one" } else { "two" })
    });
    for builder in &builders {
        world.know(&builder.declaration()).await.unwrap();
    }
    let [one, two] = builders.map(|builder| builder.admitted());
    let mut first = world.pool().begin().await.unwrap();
    let mut second = world.pool().begin().await.unwrap();
    assert_eq!(create_in(&mut first, &one).await.unwrap(), Created::Stored);
    assert_eq!(create_in(&mut second, &two).await.unwrap(), Created::Stored);
    let (mine, other) =
        tokio::join!(create_in_and_commit(first, &two), create_in_and_commit(second, &one));
    let (lost, won) = if mine.is_err() { (mine, other) } else { (other, mine) };
    let error = lost.unwrap_err();
    assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40P01")));
    // The loser gave its own back with its commit, and the winner found it taken.
    assert!(matches!(won.unwrap(), Created::Replayed(_)));
    for admitted in [&one, &two] {
        let id = admitted.change().resource().id();
        assert!(world.store.get_by_id(id).await.unwrap().is_some(), "{id} is lost");
        assert_eq!(world.store.history(id).await.unwrap().len(), 1);
    }
}

/// The host commits, whatever it was answered.
async fn create_in_and_commit(
    mut host: sqlx::Transaction<'static, sqlx::Postgres>,
    admitted: &broker_ports::Admitted,
) -> Result<Created, broker_ports::PortError> {
    let created = create_in(&mut host, admitted).await;
    host.commit().await.unwrap();
    created
}

/// Somebody who locks a place and then the row, as nobody should, deadlocks with a write. One of the two gives
/// way: whoever looks for a deadlock when there is one, and the store looks first.
#[tokio::test]
async fn a_real_deadlock_is_transient_and_changes_nothing() {
    let (world, id, lease) = held().await;
    let impatient = world.database().options().options([("deadlock_timeout", "300ms")]);
    let store = PgStore::new(PgPoolOptions::new().max_connections(1).connect_lazy_with(impatient));
    let mut stranger = PgConnection::connect_with(&world.database().options()).await.unwrap();
    stranger.execute("SET deadlock_timeout = '5s'; BEGIN").await.unwrap();
    let place = "provisioned_resource_schedule WHERE provisioned_resource_id";
    lock(&mut stranger, place, id).await.unwrap();

    let row = world.store.get_by_id(id).await.unwrap().unwrap();
    let change = row.advance(Phase::Provisioning, stamp(9, 9)).unwrap().unwrap();
    let by = attribution();
    let write = Write::by_worker(&change, lease.epoch, &by);
    let (written, locked) = tokio::join!(store.write(WriteKind::Phase, &write), async {
        somebody_waits(world.pool()).await;
        lock(&mut stranger, "provisioned_resources WHERE id", id).await
    });
    stranger.execute("ROLLBACK").await.unwrap();
    match (written, locked) {
        (Err(error), Ok(())) => {
            assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40P01")));
            assert_eq!(world.store.get_by_id(id).await.unwrap().unwrap(), row);
            assert_eq!(world.store.history(id).await.unwrap().len(), 1);
            assert_eq!(store.write(WriteKind::Phase, &write).await.unwrap(), Written::Committed);
        }
        // On a machine so slow that the store had looked before the stranger came.
        (Ok(written), Err(_)) => assert_eq!(written, Written::Committed),
        other => panic!("one of the two gives way: {other:?}"),
    }
    assert_eq!(world.store.history(id).await.unwrap().len(), 2);
}

async fn lock(
    session: &mut PgConnection,
    whom: &'static str,
    id: ProvisionedResourceId,
) -> Result<(), sqlx::Error> {
    let sql = format!("SELECT FROM plexsphere.{whom} = $1 FOR UPDATE");
    sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id.as_uuid()).execute(session).await.map(drop)
}

/// A host whose role works at REPEATABLE READ: who had to wait for another writer is refused, not misled.
#[tokio::test]
async fn a_stricter_isolation_level_loses_nothing_but_races() {
    let (world, id, lease) = held().await;
    let strict =
        world.database().options().options([("default_transaction_isolation", "repeatable read")]);
    let strict = PgStore::new(PgPoolOptions::new().max_connections(2).connect_lazy_with(strict));
    let other = OtherWriter::with_the_row(&world, id).await;
    let row = world.store.get_by_id(id).await.unwrap().unwrap();
    let change = row.advance(Phase::Provisioning, stamp(9, 9)).unwrap().unwrap();
    let by = attribution();
    let write = Write::by_worker(&change, lease.epoch, &by);
    let written = other.goes_first(&world, id, strict.write(WriteKind::Phase, &write)).await;
    let error = written.unwrap_err();
    assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40001")));
    assert_eq!(strict.write(WriteKind::Phase, &write).await.unwrap(), Written::Stale);
    let released = strict.release(&lease, Version::FIRST, &PassOutcome::Succeeded { due_in: None });
    assert_eq!(released.await.unwrap(), Released::Done);
}

/// As long as a claim takes a place only, and no more than it can have at once, it waits for nobody.
#[tokio::test]
async fn a_claim_waits_for_nobody_who_works_on_a_row() {
    let (world, id, _) = held().await;
    let free = stored(&world, 2).await;
    let _other = OtherWriter::with_the_row(&world, id).await;
    let mut locked = world.pool().begin().await.unwrap();
    lock(&mut locked, "provisioned_resources WHERE id", free).await.unwrap();
    let request = ClaimRequest::new(worker("another"), ClaimTarget::One(free), HOUR);
    let claim = tokio::time::timeout(Duration::from_mins(1), world.store.claim(&request));
    assert_eq!(claim.await.expect("it waits").unwrap().len(), 1);
}

/// Whoever writes down a Project's turn serves it at this moment: another claim has nothing to add.
#[tokio::test]
async fn a_claim_waits_for_nobody_who_writes_a_turn() {
    let world = World::alone().await;
    for number in [1, 2] {
        stored(&world, number).await;
    }
    let target = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
    let request = ClaimRequest::new(worker("one"), target, HOUR);
    assert_eq!(world.store.claim(&request).await.unwrap().len(), 1, "it begins the Project's turn");
    let mut locked = world.pool().begin().await.unwrap();
    let turns = "SELECT FROM plexsphere.provisioning_turns FOR UPDATE";
    let turns = sqlx::query(turns).execute(&mut *locked).await.unwrap();
    assert_eq!(turns.rows_affected(), 1);
    let claim = tokio::time::timeout(Duration::from_mins(1), world.store.claim(&request));
    assert_eq!(claim.await.expect("it waits").unwrap().len(), 1);
}
