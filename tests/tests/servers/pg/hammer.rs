//! Eight processes hammer one database and are killed at random. Afterwards its whole history is looked at:
//! legal edges only (S1), one audit line and one event per change of phase (S2), events without gaps and in
//! order (S3), and no write by a worker that had lost its lease (S16).

mod history;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use broker_testkit::builders::{project, resource};
use broker_testkit::store::StoreUnderTest;
use broker_tests::{TestDatabase, TestPostgres, until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::{Connection, Executor, PgConnection};

use super::migrated;
use super::store::world::World;
use crate::servers::processes::Killed;
use history::{violations, witness};

/// Another seed is another run; one that found something is kept here.
const SEED: u64 = 20_261_116;
const PROJECTS: u128 = 4;
/// What the server knows their sessions by.
const NAME: &str = "hammer";

/// A world with what the hammers refer to, and witnesses.
async fn witnessed(postgres: &TestPostgres) -> World {
    let world = World::over(postgres.database_from(&migrated()).await.into());
    for number in 1..=PROJECTS {
        let builder = resource().numbered(number).in_project(project(number));
        world.know(&builder.declaration()).await.unwrap();
    }
    witness(world.pool()).await;
    world
}

/// One of the processes, in its latest life.
struct Hammer<'a> {
    database: &'a TestDatabase,
    number: usize,
    lives: u64,
    mode: &'static str,
    process: Killed,
}

impl<'a> Hammer<'a> {
    fn start(database: &'a TestDatabase, number: usize, mode: &'static str) -> Self {
        let process = spawn(database, number, 0, mode);
        Self { database, number, lives: 0, mode, process }
    }

    /// Kills it, wherever it is, and lets it begin anew.
    fn kill(&mut self) {
        self.assert_alive();
        self.lives += 1;
        // The old one is dead before the new one begins: `Killed` waits for it.
        self.process = spawn(self.database, self.number, self.lives, self.mode);
    }

    /// One that ended by itself met what it must not meet, and said so.
    fn assert_alive(&mut self) {
        let ended = self.process.0.try_wait().unwrap();
        assert!(ended.is_none(), "hammer {} gave up with {ended:?}: see above", self.number);
    }
}

fn spawn(database: &TestDatabase, number: usize, life: u64, mode: &str) -> Killed {
    let seed = SEED + life * 1_000 + u64::try_from(number).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_hammer"))
        .args([
            &format!("{}&application_name={NAME}", database.url()),
            &seed.to_string(),
            &format!("hammer-{number}-{life}"),
            mode,
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    Killed(child)
}

/// Of processes that are dead. What they had sent may still be under way.
async fn assert_sound(world: &World) {
    until("their sessions to end", || async {
        let counted = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1",
        );
        let left: i64 = counted.bind(NAME).fetch_one(world.pool()).await.unwrap();
        (left == 0).then_some(())
    })
    .await;
    let mut connection = PgConnection::connect_with(&world.database().options()).await.unwrap();
    let found = violations(&mut connection).await;
    assert!(found.is_empty(), "seed {SEED}, {} violations:\n{}", found.len(), found.join("\n"));
}

/// How often each thing happened.
async fn count(world: &World, of: &'static str) -> i64 {
    let sql = format!("SELECT count(*) FROM {of}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(world.pool()).await.unwrap()
}

#[tokio::test]
async fn eight_processes_that_are_killed_at_random_leave_a_sound_history() {
    let world = witnessed(&TestPostgres::shared().await).await;
    let mut hammers: Vec<_> =
        (0..8).map(|number| Hammer::start(world.database(), number, "calm")).collect();
    let mut dice = StdRng::seed_from_u64(SEED);
    let started = Instant::now();
    let mut kills = 0;
    while started.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(dice.random_range(50..500))).await;
        hammers[dice.random_range(0..8)].kill();
        kills += 1;
    }
    hammers.iter_mut().for_each(Hammer::assert_alive);
    drop(hammers);
    let changes = count(&world, "public.changes").await;
    let takeovers = count(&world, "public.leases").await;
    eprintln!("{kills} kills, {changes} changes of phase, {takeovers} leases");
    assert!(kills >= 30 && changes > 500 && takeovers > 500, "nothing was hammered");
    assert_sound(&world).await;
    each_rule_is_looked_at(&world).await;
}

/// What each rule is about, broken by hand in a transaction that is rolled back.
const FORGERIES: [(&str, &str); 6] = [
    (
        "S1",
        "UPDATE plexsphere.provisioned_resource_audit SET new_phase = 'Deleted' WHERE sequence =
         (SELECT max(sequence) FROM plexsphere.provisioned_resource_audit WHERE new_phase = 'Ready')",
    ),
    (
        "S2",
        "DELETE FROM plexsphere.provisioned_resource_audit WHERE sequence =
         (SELECT max(sequence) FROM plexsphere.provisioned_resource_audit WHERE action = 'phase_changed')",
    ),
    (
        "S2, S3",
        "DELETE FROM plexsphere.provisioning_outbox WHERE position =
         (SELECT max(position) FROM plexsphere.provisioning_outbox)",
    ),
    (
        "S2, S3",
        "DELETE FROM plexsphere.provisioned_resource_outbox_token WHERE ctid =
         (SELECT ctid FROM plexsphere.provisioned_resource_outbox_token LIMIT 1)",
    ),
    (
        "S3",
        "UPDATE plexsphere.provisioning_outbox SET settled_at = NULL WHERE sequence = 1
         AND provisioned_resource_id IN (SELECT provisioned_resource_id FROM plexsphere.provisioning_outbox
             WHERE sequence = 2 AND settled_at IS NOT NULL)",
    ),
    (
        "S16",
        "UPDATE plexsphere.provisioned_resource_audit SET epoch = epoch - 1 WHERE sequence =
         (SELECT max(sequence) FROM plexsphere.provisioned_resource_audit WHERE epoch > 1)",
    ),
];

async fn each_rule_is_looked_at(world: &World) {
    let mut connection = PgConnection::connect_with(&world.database().options()).await.unwrap();
    for (rule, forgery) in FORGERIES {
        let mut transaction = connection.begin().await.unwrap();
        transaction.execute("SET LOCAL session_replication_role = replica").await.unwrap();
        let forged = transaction.execute(forgery).await.unwrap().rows_affected();
        assert!(forged > 0, "nothing to forge: {forgery}");
        let found = violations(&mut transaction).await;
        assert!(found.iter().any(|found| found.starts_with(&format!("{rule}: "))), "{found:?}");
        transaction.rollback().await.unwrap();
    }
}

/// The server is killed, as by a power cut, while four processes work, and comes back.
#[tokio::test]
async fn a_server_that_is_restarted_under_load_leaves_a_sound_history() {
    let postgres = TestPostgres::dedicated().await;
    let world = witnessed(&postgres).await;
    let mut hammers: Vec<_> =
        (0..4).map(|number| Hammer::start(world.database(), number, "faults")).collect();
    let mut before = 0;
    for _ in 0..3 {
        before = until("the hammers to go on", || async {
            let counted = sqlx::query_scalar("SELECT count(*) FROM public.changes");
            let changes: i64 = counted.fetch_one(world.pool()).await.ok()?;
            (changes > before + 50).then_some(changes)
        })
        .await;
        postgres.server().kill().await;
        postgres.server().restart().await;
    }
    until("the hammers to go on at the end", || async {
        let counted = sqlx::query_scalar("SELECT count(*) FROM public.changes");
        let changes: i64 = counted.fetch_one(world.pool()).await.ok()?;
        (changes > before).then_some(())
    })
    .await;
    hammers.iter_mut().for_each(Hammer::assert_alive);
    drop(hammers);
    assert_sound(&world).await;
}
