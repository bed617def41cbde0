//! Every place that could contain a plaintext, and how to read it.

use std::collections::{BTreeMap, BTreeSet};

use broker_pg::migrate;
use broker_tests::secret_search::{Search, in_hexadecimal, spellings, table_texts};
use broker_tests::{DedicatedPostgres, TestDatabase, TestPostgres};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool};

/// A dedicated server that logs every statement of the adapters with its values, and keeps every
/// change.
pub(super) struct Places {
    server: DedicatedPostgres,
    database: TestDatabase,
    /// The file of the write-ahead log that contains the whole test.
    segment: String,
}

impl Places {
    /// A migrated database; changes from now on are captured.
    pub(super) async fn prepare() -> Self {
        let server = TestPostgres::dedicated().await;
        let mut admin = PgConnection::connect_with(&server.options("postgres")).await.unwrap();
        sqlx::raw_sql("ALTER SYSTEM SET logging_collector = on").execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
        server.server().restart().await;

        let database = server.database().await;
        let pool = PgPool::connect_with(database.options()).await.unwrap();
        migrate::reference_up(&pool).await.unwrap();
        migrate::up(&pool).await.unwrap();
        sqlx::raw_sql(
            "SELECT pg_create_logical_replication_slot('canary', 'test_decoding'); SELECT pg_switch_wal()",
        )
        .execute(&pool)
        .await
        .unwrap();
        let segment = segment(&pool).await;
        pool.close().await;
        Self { server, database, segment }
    }

    /// The adapters' pool. The search itself must not be logged, or it would find itself.
    pub(super) fn adapters(&self) -> PgPool {
        let options = self.database.options().options([("log_statement", "all")]);
        PgPoolOptions::new().max_connections(5).connect_lazy_with(options)
    }

    pub(super) async fn read(&self) -> BTreeMap<String, String> {
        let pool = PgPool::connect_with(self.database.options()).await.unwrap();
        let mut contents = table_texts(&pool).await;
        let text = async |sql: &str| -> String {
            let text = sqlx::query_scalar::<_, Option<String>>(AssertSqlSafe(sql));
            text.fetch_one(&pool).await.unwrap().unwrap_or_default()
        };
        let decoded = "SELECT string_agg(data, E'\\n') \
                       FROM pg_logical_slot_peek_changes('canary', NULL, NULL)";
        contents.insert("decoded changes".to_owned(), text(decoded).await);
        let log = "SELECT string_agg(pg_read_file('log/' || name), E'\\n') FROM pg_ls_logdir()";
        contents.insert("server log".to_owned(), text(log).await);

        // The file contains flushed records only; a switch to a new file flushes.
        assert_eq!(segment(&pool).await, self.segment, "the test wrote more than one file");
        sqlx::raw_sql("SELECT pg_switch_wal()").execute(&pool).await.unwrap();
        let wal: Vec<u8> = sqlx::query_scalar("SELECT pg_read_binary_file('pg_wal/' || $1)")
            .bind(&self.segment)
            .fetch_one(&pool)
            .await
            .unwrap();
        contents.insert("write-ahead log".to_owned(), characters(&wal));
        pool.close().await;
        sqlx::raw_sql("SELECT pg_drop_replication_slot('canary')")
            .execute(
                &mut PgConnection::connect_with(&self.server.options("postgres")).await.unwrap(),
            )
            .await
            .unwrap();
        contents
    }
}

async fn segment(pool: &PgPool) -> String {
    sqlx::query_scalar("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
        .fetch_one(pool)
        .await
        .unwrap()
}

/// The places that contain one of these hexadecimal plaintexts, or a quarter of one: in any
/// spelling, as a `bytea` column prints it, or as the bytes that the digits encode.
pub(super) fn found<'a>(
    contents: &'a BTreeMap<String, String>,
    plaintexts: &[&str],
) -> Vec<&'a str> {
    let search = Search::new(plaintexts.iter().flat_map(|plaintext| forms(plaintext)));
    let held = contents.iter().filter(|(_, text)| search.find(text).is_some());
    held.map(|(place, _)| place.as_str()).collect()
}

fn forms(plaintext: &str) -> BTreeSet<String> {
    const CHARS: usize = 16;
    assert!(plaintext.len() >= 2 * CHARS && plaintext.len().is_multiple_of(CHARS), "{plaintext}");
    let mut forms = spellings(plaintext);
    for start in (0..plaintext.len()).step_by(CHARS) {
        let piece = &plaintext[start..][..CHARS];
        let digits = (0..CHARS / 2).map(|at| &piece[2 * at..][..2]);
        let bytes: Vec<_> = digits.map(|two| u8::from_str_radix(two, 16).unwrap()).collect();
        forms.extend([piece.to_owned(), in_hexadecimal(piece.as_bytes()), characters(&bytes)]);
    }
    forms
}

pub(super) fn characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}
