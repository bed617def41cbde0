//! Two who want the same rows: in which order, and what becomes of the one that has to give way.

use std::time::Duration;

use broker_domain::{Change, Phase, ProvisionedResourceId, Version};
use broker_pg::{PgStore, create_in};
use broker_ports::{
    Admitted, ClaimRequest, ClaimTarget, Created, FailureClass, Lane, Lease, PassOutcome,
    PortError, Released, Repository, Schedule, Write, WriteKind, Written,
};
use broker_testkit::builders::{attribution, resource, rows, stamp, worker};
use broker_testkit::store::StoreUnderTest;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Executor, PgConnection};

use super::{HOUR, somebody_waits, sqlstate};
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

/// A change from the first phase to the next one.
async fn change_of(world: &World, id: ProvisionedResourceId) -> Change {
    let row = world.store.get_by_id(id).await.unwrap().unwrap();
    row.advance(Phase::Provisioning, stamp(9, 9)).unwrap().unwrap()
}

/// The store over sessions with this setting.
fn store_with(world: &World, setting: (&str, &str)) -> PgStore {
    let options = world.database().options().options([setting]);
    PgStore::new(PgPoolOptions::new().max_connections(2).connect_lazy_with(options))
}

async fn lock(
    session: &mut PgConnection,
    whom: &'static str,
    id: ProvisionedResourceId,
) -> Result<(), sqlx::Error> {
    let sql = format!("SELECT FROM plexsphere.{whom}");
    sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id.as_uuid()).execute(session).await.map(drop)
}

const ROW: &str = "provisioned_resources WHERE id = $1 FOR UPDATE";

/// What a host, or the release before, sends: it updates the row, and the trigger the place in the schedule. It takes
/// the two locks one after the other here, so that whoever takes them the other way round is between them at the wrong
/// moment. It deletes the resource once `other`, which comes after it, waits.
async fn after_an_update_by_hand<T>(
    world: &World,
    id: ProvisionedResourceId,
    other: impl Future<Output = T>,
) -> T {
    let mut writer = PgConnection::connect_with(&world.database().options()).await.unwrap();
    writer.execute("BEGIN").await.unwrap();
    lock(&mut writer, "provisioned_resources WHERE id = $1 FOR NO KEY UPDATE", id).await.unwrap();
    let deletes = async {
        somebody_waits(world.pool()).await;
        let update = "UPDATE plexsphere.provisioned_resources \
                      SET status = 'Deregistering', deletion_requested_at = clock_timestamp()";
        writer.execute(update).await.unwrap();
        writer.execute("COMMIT").await.unwrap();
    };
    tokio::join!(other, deletes).0
}

#[tokio::test]
async fn what_waits_for_an_update_by_hand_never_deadlocks() {
    let by = attribution();
    let (world, id, lease) = held().await;
    let change = change_of(&world, id).await;
    let write = Write::by_worker(&change, lease.epoch, &by);
    let written = world.store.write(WriteKind::Phase, &write);
    let written = after_an_update_by_hand(&world, id, written).await;
    assert_eq!(written.unwrap(), Written::Stale, "it waited, and sees what the other left");

    let (world, id, lease) = held().await;
    let later = PassOutcome::Succeeded { due_in: Some(HOUR) };
    let release = world.store.release(&lease, Version::FIRST, &later);
    assert_eq!(after_an_update_by_hand(&world, id, release).await.unwrap(), Released::Done);
    let entry = world.store.entry(id).await.unwrap().unwrap();
    assert!(entry.due_at.unwrap() <= entry.now, "the deletion is not put off: {entry:?}");

    let (world, id, _) = held().await;
    let pause = world.store.set_paused(id, true, &by);
    assert!(after_an_update_by_hand(&world, id, pause).await.unwrap());
    let last = world.store.history(id).await.unwrap().pop().unwrap();
    assert_eq!(last.entry.new_phase, Some(Phase::Deregistering));
}

/// A host whose role works at REPEATABLE READ: who had to wait for another writer is refused, not misled.
#[tokio::test]
async fn a_stricter_isolation_level_loses_nothing_but_races() {
    let (world, id, lease) = held().await;
    let strict = store_with(&world, ("default_transaction_isolation", "repeatable read"));
    let (change, by) = (change_of(&world, id).await, attribution());
    let write = Write::by_worker(&change, lease.epoch, &by);
    let written = strict.write(WriteKind::Phase, &write);
    let error = after_an_update_by_hand(&world, id, written).await.unwrap_err();
    assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40001")));
    assert_eq!(strict.write(WriteKind::Phase, &write).await.unwrap(), Written::Stale);
    let released = strict.release(&lease, Version::FIRST, &PassOutcome::Succeeded { due_in: None });
    assert_eq!(released.await.unwrap(), Released::Done);
}

/// Nobody knows in which order a host declares.
#[tokio::test]
async fn two_hosts_that_deadlock_lose_one_declaration_and_no_transaction() {
    let world = World::alone().await;
    let builders = [(1, "one"), (2, "two")]
        .map(|(number, request)| resource().numbered(number).requested_as(request));
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
    admitted: &Admitted,
) -> Result<Created, PortError> {
    let created = create_in(&mut host, admitted).await;
    host.commit().await.unwrap();
    created
}

/// Somebody who locks a place and then the row, as nobody should, deadlocks with a write. One of the two gives
/// way: whoever looks for a deadlock when there is one, and the store looks first.
#[tokio::test]
async fn a_real_deadlock_is_transient_and_changes_nothing() {
    let (world, id, lease) = held().await;
    let store = store_with(&world, ("deadlock_timeout", "300ms"));
    let mut stranger = PgConnection::connect_with(&world.database().options()).await.unwrap();
    stranger.execute("SET deadlock_timeout = '5s'; BEGIN").await.unwrap();
    let place = "provisioned_resource_schedule WHERE provisioned_resource_id = $1 FOR UPDATE";
    lock(&mut stranger, place, id).await.unwrap();

    let (change, by) = (change_of(&world, id).await, attribution());
    let write = Write::by_worker(&change, lease.epoch, &by);
    let (written, locked) = tokio::join!(store.write(WriteKind::Phase, &write), async {
        somebody_waits(world.pool()).await;
        lock(&mut stranger, ROW, id).await
    });
    stranger.execute("ROLLBACK").await.unwrap();
    match (written, locked) {
        (Err(error), Ok(())) => {
            assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40P01")));
            assert_eq!(world.store.history(id).await.unwrap().len(), 1);
            assert_eq!(store.write(WriteKind::Phase, &write).await.unwrap(), Written::Committed);
        }
        // On a machine so slow that the store had looked before the stranger came.
        (Ok(written), Err(_)) => assert_eq!(written, Written::Committed),
        other => panic!("one of the two gives way: {other:?}"),
    }
    assert_eq!(world.store.history(id).await.unwrap().len(), 2);
}

/// A claim takes a place only, and no more than it can have at once. Whoever writes down a Project's turn serves it at
/// this moment: another claim has nothing to add.
#[tokio::test]
async fn a_claim_waits_for_nobody_who_works_on_a_row_or_writes_a_turn() {
    let world = World::alone().await;
    let due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
    let claim = async |target| {
        let request = ClaimRequest::new(worker("one"), target, HOUR);
        let claim = tokio::time::timeout(Duration::from_mins(1), world.store.claim(&request));
        assert_eq!(claim.await.expect("it waits").unwrap().len(), 1);
    };
    let one = stored(&world, 1).await;
    stored(&world, 2).await;
    stored(&world, 3).await;
    let mut locked = world.pool().begin().await.unwrap();
    lock(&mut locked, ROW, one).await.unwrap();
    claim(ClaimTarget::One(one)).await;
    claim(due).await;
    let turns = "SELECT FROM plexsphere.provisioning_turns FOR UPDATE";
    let turns = sqlx::query(turns).execute(&mut *locked).await.unwrap();
    assert_eq!(turns.rows_affected(), 1, "the claim began the Project's turn");
    claim(due).await;
}
