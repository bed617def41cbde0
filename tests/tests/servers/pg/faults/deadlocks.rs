//! Two transactions on the same rows: the lock order, and the result of the one that loses.

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

use super::{HOUR, sqlstate, wait_for_lock_waiter};
use crate::servers::pg::store::world::World;

async fn leased_resource() -> (World, ProvisionedResourceId, Lease) {
    let world = World::alone().await;
    let id = stored(&world, 1).await;
    let request = ClaimRequest::new(worker("holder"), ClaimTarget::One(id), HOUR);
    let lease = world.store.claim(&request).await.unwrap().pop().unwrap();
    (world, id, lease)
}

async fn stored(world: &World, number: u128) -> ProvisionedResourceId {
    let builder = resource().numbered(number);
    world.register_references(&builder.declaration()).await.unwrap();
    assert_eq!(world.store.create(&builder.admitted()).await.unwrap(), Created::Stored);
    builder.id()
}

async fn change_of(world: &World, id: ProvisionedResourceId) -> Change {
    let row = world.store.get_by_id(id).await.unwrap().unwrap();
    row.advance(Phase::Provisioning, stamp(9, 9)).unwrap().unwrap()
}

fn store_with(world: &World, setting: (&str, &str)) -> PgStore {
    let options = world.database().options().options([setting]);
    PgStore::new(PgPoolOptions::new().max_connections(2).connect_lazy_with(options))
}

async fn lock(
    session: &mut PgConnection,
    rows: &'static str,
    id: ProvisionedResourceId,
) -> Result<(), sqlx::Error> {
    let sql = format!("SELECT FROM plexsphere.{rows}");
    sqlx::query(sqlx::AssertSqlSafe(sql)).bind(id.as_uuid()).execute(session).await.map(drop)
}

const ROW: &str = "provisioned_resources WHERE id = $1 FOR UPDATE";

/// Runs `other` while a host's transaction holds the row. Once `other` waits, the host requests the
/// deletion, whose trigger updates the schedule, and commits. `other` would deadlock if it locked the
/// schedule first.
async fn during_host_update<T>(
    world: &World,
    id: ProvisionedResourceId,
    other: impl Future<Output = T>,
) -> T {
    let mut writer = PgConnection::connect_with(&world.database().options()).await.unwrap();
    writer.execute("BEGIN").await.unwrap();
    lock(&mut writer, "provisioned_resources WHERE id = $1 FOR NO KEY UPDATE", id).await.unwrap();
    let host = async {
        wait_for_lock_waiter(world.pool()).await;
        let update = "UPDATE plexsphere.provisioned_resources \
                      SET status = 'Deregistering', deletion_requested_at = clock_timestamp()";
        writer.execute(update).await.unwrap();
        writer.execute("COMMIT").await.unwrap();
    };
    tokio::join!(other, host).0
}

#[tokio::test]
async fn operation_behind_a_manual_update_never_deadlocks() {
    let by = attribution();
    let (world, id, lease) = leased_resource().await;
    let change = change_of(&world, id).await;
    let write = Write::by_worker(&change, lease.epoch, &by);
    let written = world.store.write(WriteKind::Phase, &write);
    let written = during_host_update(&world, id, written).await;
    assert_eq!(written.unwrap(), Written::Stale, "the write waited and sees the host's result");

    let (world, id, lease) = leased_resource().await;
    let later = PassOutcome::Succeeded { due_in: Some(HOUR) };
    let release = world.store.release(&lease, Version::FIRST, &later);
    assert_eq!(during_host_update(&world, id, release).await.unwrap(), Released::Done);
    let entry = world.store.entry(id).await.unwrap().unwrap();
    assert!(entry.due_at.unwrap() <= entry.now, "the deletion is due at once: {entry:?}");

    let (world, id, _) = leased_resource().await;
    let pause = world.store.set_paused(id, true, &by);
    assert!(during_host_update(&world, id, pause).await.unwrap());
    let last = world.store.history(id).await.unwrap().pop().unwrap();
    assert_eq!(last.entry.new_phase, Some(Phase::Deregistering));
}

/// With REPEATABLE READ, a transaction that waited for another writer fails instead of using stale data.
#[tokio::test]
async fn stricter_isolation_level_only_loses_races() {
    let (world, id, lease) = leased_resource().await;
    let strict = store_with(&world, ("default_transaction_isolation", "repeatable read"));
    let (change, by) = (change_of(&world, id).await, attribution());
    let write = Write::by_worker(&change, lease.epoch, &by);
    let written = strict.write(WriteKind::Phase, &write);
    let error = during_host_update(&world, id, written).await.unwrap_err();
    assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40001")));
    assert_eq!(strict.write(WriteKind::Phase, &write).await.unwrap(), Written::Stale);
    let released = strict.release(&lease, Version::FIRST, &PassOutcome::Succeeded { due_in: None });
    assert_eq!(released.await.unwrap(), Released::Done);
}

/// Two hosts declare the same resources in opposite order.
#[tokio::test]
async fn deadlocked_hosts_lose_one_declaration_and_no_transaction() {
    let world = World::alone().await;
    let builders = [(1, "one"), (2, "two")]
        .map(|(number, request)| resource().numbered(number).requested_as(request));
    for builder in &builders {
        world.register_references(&builder.declaration()).await.unwrap();
    }
    let [one, two] = builders.map(|builder| builder.admitted());
    let mut first = world.pool().begin().await.unwrap();
    let mut second = world.pool().begin().await.unwrap();
    assert_eq!(create_in(&mut first, &one).await.unwrap(), Created::Stored);
    assert_eq!(create_in(&mut second, &two).await.unwrap(), Created::Stored);
    let (of_first, of_second) =
        tokio::join!(create_in_and_commit(first, &two), create_in_and_commit(second, &one));
    let (lost, won) = if of_first.is_err() { (of_first, of_second) } else { (of_second, of_first) };
    let error = lost.unwrap_err();
    assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40P01")));
    // The loser's host committed its first declaration, which the winner finds: a replay.
    assert!(matches!(won.unwrap(), Created::Replayed(_)));
    for admitted in [&one, &two] {
        let id = admitted.change().resource().id();
        assert!(world.store.get_by_id(id).await.unwrap().is_some(), "{id} is lost");
        assert_eq!(world.store.history(id).await.unwrap().len(), 1);
    }
}

async fn create_in_and_commit(
    mut host: sqlx::Transaction<'static, sqlx::Postgres>,
    admitted: &Admitted,
) -> Result<Created, PortError> {
    let created = create_in(&mut host, admitted).await;
    host.commit().await.unwrap();
    created
}

/// A session that locks the schedule before the row, which no adapter does, deadlocks with a write. The
/// store's shorter `deadlock_timeout` makes the store fail.
#[tokio::test]
async fn deadlock_is_transient_and_changes_nothing() {
    let (world, id, lease) = leased_resource().await;
    let store = store_with(&world, ("deadlock_timeout", "300ms"));
    let mut other_session = PgConnection::connect_with(&world.database().options()).await.unwrap();
    other_session.execute("SET deadlock_timeout = '5s'; BEGIN").await.unwrap();
    let schedule_row =
        "provisioned_resource_schedule WHERE provisioned_resource_id = $1 FOR UPDATE";
    lock(&mut other_session, schedule_row, id).await.unwrap();

    let (change, by) = (change_of(&world, id).await, attribution());
    let write = Write::by_worker(&change, lease.epoch, &by);
    let (written, locked) = tokio::join!(store.write(WriteKind::Phase, &write), async {
        wait_for_lock_waiter(world.pool()).await;
        lock(&mut other_session, ROW, id).await
    });
    other_session.execute("ROLLBACK").await.unwrap();
    match (written, locked) {
        (Err(error), Ok(())) => {
            assert_eq!((error.class(), sqlstate(&error)), (FailureClass::Transient, Some("40P01")));
            assert_eq!(world.store.history(id).await.unwrap().len(), 1);
            assert_eq!(store.write(WriteKind::Phase, &write).await.unwrap(), Written::Committed);
        }
        // On a slow machine, the store may have looked for a deadlock before the other session closed the cycle.
        (Ok(written), Err(_)) => assert_eq!(written, Written::Committed),
        other => panic!("exactly one of the two fails: {other:?}"),
    }
    assert_eq!(world.store.history(id).await.unwrap().len(), 2);
}

/// A claim locks only the schedule, and skips locked entries. It also skips a Project whose turn another
/// session is updating, because that session serves the Project.
#[tokio::test]
async fn claim_waits_for_no_row_lock_and_no_turn() {
    let world = World::alone().await;
    let due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
    let claim = async |target| {
        let request = ClaimRequest::new(worker("one"), target, HOUR);
        let claim = tokio::time::timeout(Duration::from_mins(1), world.store.claim(&request));
        assert_eq!(claim.await.expect("the claim waits for a lock").unwrap().len(), 1);
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
