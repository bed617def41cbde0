//! What can go wrong between a caller and a commit, on the way or in the server itself.

use std::time::Duration;

use broker_ports::FailureClass;
use broker_tests::{PgProxy, until};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, Executor, PgConnection, PgPool, Postgres};

use super::operation::Operation;
use super::scene::Scene;

/// What a trigger does to a session that asks for it by a setting of its own. It fires when the statement has
/// written everything that it writes.
pub(super) const SABOTAGE: &str =
    "CREATE OR REPLACE FUNCTION public.sabotage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE current_setting('test.fault', true)
        WHEN 'disk_full' THEN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100';
        WHEN 'out_of_memory' THEN RAISE EXCEPTION 'no memory left' USING ERRCODE = '53200';
        WHEN 'serialization' THEN RAISE EXCEPTION 'somebody else was first' USING ERRCODE = '40001';
        WHEN 'deadlock' THEN RAISE EXCEPTION 'each waits for the other' USING ERRCODE = '40P01';
        WHEN 'slow' THEN PERFORM pg_sleep(600);
        WHEN 'locked' THEN PERFORM pg_advisory_xact_lock(4711);
        WHEN 'ended' THEN PERFORM pg_terminate_backend(pg_backend_pid());
        ELSE NULL;
    END CASE;
    RETURN NULL;
END
$$;
DO $$
DECLARE
    sabotaged text;
BEGIN
    FOR sabotaged IN SELECT tablename FROM pg_tables
        WHERE schemaname = 'plexsphere' AND tablename NOT LIKE '%_migrations'
    LOOP
        EXECUTE format('CREATE TRIGGER zz_sabotage AFTER INSERT OR UPDATE OR DELETE
            ON plexsphere.%I FOR EACH ROW EXECUTE FUNCTION public.sabotage()', sabotaged);
    END LOOP;
END
$$";

/// What the server knows the sessions by that meet a fault.
const NAME: &str = "faulty";

/// Words of the statement that does nothing where there is a ledger already.
const NO_FIRST: &str = "ON CONFLICT (provisioned_resource_id) DO NOTHING";

/// The lock that `locked` waits for.
const LOCK: &str = "SELECT pg_advisory_lock(4711)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    NobodyListens,
    PoolExhausted,
    /// The connection is cut; the server never hears of the commit.
    CutBeforeCommit,
    /// The connection is cut; the server has committed.
    CutAfterCommit,
    /// The connection is cut; the server never hears of the transaction's last statement.
    CutBeforeWork,
    /// The connection is cut; the server has done the transaction's last statement.
    CutAfterWork,
    ReadOnly,
    DiskFull,
    OutOfMemory,
    StatementTimeout,
    LockTimeout,
    Serialization,
    Deadlock,
    /// By an administrator, or by a server that shuts down.
    SessionEnded,
}

impl Fault {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NobodyListens => "when nobody listens",
            Self::PoolExhausted => "when the pool is exhausted",
            Self::CutBeforeCommit => "cut before the commit is forwarded",
            Self::CutAfterCommit => "cut before the commit is answered",
            Self::CutBeforeWork => "cut before the last statement is forwarded",
            Self::CutAfterWork => "cut before the last statement is answered",
            Self::ReadOnly => "on a standby that only reads",
            Self::DiskFull => "when the disk is full",
            Self::OutOfMemory => "when the server has no memory left",
            Self::StatementTimeout => "when the statement takes too long",
            Self::LockTimeout => "when a lock is waited for for too long",
            Self::Serialization => "when it cannot be serialized",
            Self::Deadlock => "when it is the victim of a deadlock",
            Self::SessionEnded => "when the session is ended",
        }
    }

    /// What the caller has to be told.
    pub(super) const fn class(self, operation: Operation) -> FailureClass {
        match self {
            Self::CutBeforeCommit | Self::CutAfterCommit => FailureClass::Unknown,
            // Only who had sent a commit by then cannot know.
            Self::SessionEnded if !operation.is_transaction() => FailureClass::Unknown,
            Self::SessionEnded
            | Self::NobodyListens
            | Self::PoolExhausted
            | Self::CutBeforeWork
            | Self::CutAfterWork
            | Self::ReadOnly
            | Self::DiskFull
            | Self::OutOfMemory
            | Self::StatementTimeout
            | Self::LockTimeout
            | Self::Serialization
            | Self::Deadlock => FailureClass::Transient,
        }
    }

    /// Whether the server has committed.
    pub(super) const fn happens(self) -> bool {
        matches!(self, Self::CutAfterCommit)
    }

    /// What the server says of it, where it can say anything.
    pub(super) const fn sqlstate(self) -> Option<&'static str> {
        match self {
            Self::NobodyListens
            | Self::PoolExhausted
            | Self::CutBeforeCommit
            | Self::CutAfterCommit
            | Self::CutBeforeWork
            | Self::CutAfterWork => None,
            Self::ReadOnly => Some("25006"),
            Self::DiskFull => Some("53100"),
            Self::OutOfMemory => Some("53200"),
            Self::StatementTimeout => Some("57014"),
            Self::LockTimeout => Some("55P03"),
            Self::Serialization => Some("40001"),
            Self::Deadlock => Some("40P01"),
            Self::SessionEnded => Some("57P01"),
        }
    }

    /// A pool whose next operation meets the fault.
    pub(super) async fn strike(self, scene: &Scene, operation: Operation) -> Faulty {
        let with = |settings: &[(&str, &str)]| {
            Faulty::of(patient(scene.options().options(settings.iter().copied())))
        };
        match self {
            Self::NobodyListens => {
                let port = PgProxy::to(scene.database()).await.port();
                Faulty::of(hurried(scene.options().port(port)))
            }
            Self::PoolExhausted => {
                let pool = hurried(scene.options());
                let taken =
                    until("the only connection", || async { pool.acquire().await.ok() }).await;
                Faulty { taken: Some(taken), ..Faulty::of(pool) }
            }
            Self::CutBeforeCommit
            | Self::CutAfterCommit
            | Self::CutBeforeWork
            | Self::CutAfterWork => self.cut(scene, operation).await,
            Self::ReadOnly => with(&[("default_transaction_read_only", "on")]),
            Self::DiskFull => with(&[("test.fault", "disk_full")]),
            Self::OutOfMemory => with(&[("test.fault", "out_of_memory")]),
            Self::StatementTimeout => {
                with(&[("test.fault", "slow"), ("statement_timeout", "50ms")])
            }
            Self::LockTimeout => Self::waiting_for(scene, "50ms").await,
            Self::Serialization => with(&[("test.fault", "serialization")]),
            Self::Deadlock => with(&[("test.fault", "deadlock")]),
            Self::SessionEnded => with(&[("test.fault", "ended")]),
        }
    }

    /// A pool whose operations, when they have written everything, wait for a lock until the fault is over.
    pub(super) async fn waiting(scene: &Scene) -> Faulty {
        Self::waiting_for(scene, "0").await
    }

    async fn waiting_for(scene: &Scene, lock_timeout: &str) -> Faulty {
        let mut holder = PgConnection::connect_with(&scene.options()).await.unwrap();
        holder.execute(LOCK).await.unwrap();
        let settings = [("test.fault", "locked"), ("lock_timeout", lock_timeout)];
        let pool = patient(scene.options().options(settings));
        Faulty { holder: Some(holder), ..Faulty::of(pool) }
    }

    async fn cut(self, scene: &Scene, operation: Operation) -> Faulty {
        let proxy = PgProxy::to(scene.database()).await;
        let at_commit = matches!(self, Self::CutBeforeCommit | Self::CutAfterCommit);
        let when = proxy.script().first(move |request| match request.verb.as_str() {
            "PREPARE" => false,
            _ if !operation.is_transaction() => true,
            "COMMIT" => at_commit,
            // What a first token is issued by, before any transaction: it finds that this is none.
            "WITH" if request.target.contains(NO_FIRST) => false,
            // The statement that does what is asked for; others only lock.
            "WITH" | "UPDATE" => !at_commit,
            _ => false,
        });
        if matches!(self, Self::CutBeforeCommit | Self::CutBeforeWork) {
            when.before_forward().cut();
        } else {
            when.before_answer().cut();
        }
        let pool = patient(proxy.options());
        Faulty { proxy: Some(proxy), ..Faulty::of(pool) }
    }
}

/// A pool whose operations meet a fault, and what keeps the fault up.
pub(super) struct Faulty {
    pool: PgPool,
    proxy: Option<PgProxy>,
    taken: Option<PoolConnection<Postgres>>,
    holder: Option<PgConnection>,
}

impl Faulty {
    const fn of(pool: PgPool) -> Self {
        Self { pool, proxy: None, taken: None, holder: None }
    }

    pub(super) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Ends the fault, and waits for the end of the session that met it: a server tells of an error before it
    /// gives the locks of the statement back.
    pub(super) async fn over(self, scene: &Scene) {
        let Self { pool, proxy, taken, holder } = self;
        drop(taken);
        if let Some(holder) = holder {
            holder.close().await.unwrap();
        }
        pool.close().await;
        drop(proxy);
        let session = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                       WHERE datname = current_database() AND application_name = $1)";
        until("the session to end", || async {
            let asked = sqlx::query_scalar(session).bind(NAME);
            let is_left: bool = asked.fetch_one(scene.pool()).await.unwrap();
            (!is_left).then_some(())
        })
        .await;
    }
}

/// A pool of one connection, with as much patience as it takes. It does not ask whether its connection is
/// alive: what the operation sends is all that is sent.
fn patient(options: PgConnectOptions) -> PgPool {
    let patient = PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    patient.connect_lazy_with(options.application_name(NAME))
}

/// The same, without any patience.
fn hurried(options: PgConnectOptions) -> PgPool {
    let hurried =
        PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_millis(50));
    hurried.connect_lazy_with(options.application_name(NAME))
}
