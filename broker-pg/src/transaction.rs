//! Transactions that lock first and look afterwards, and that may be dropped at any moment.
//!
//! The driver's own transaction is not made for that: one that is dropped while its `BEGIN` is on the way goes back
//! into the pool without a rollback, and whatever the next one does on that connection is never committed, though it
//! was told so. Ours takes its connection with it when it is dropped before its end.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};

/// An open transaction.
pub(crate) struct Transaction {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

/// Begins one in which every statement sees what was committed before it, whatever the host made the default:
/// one that had to wait for a lock must not decide on what was true before.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction, sqlx::Error> {
    let mut transaction = Transaction { connection: pool.acquire().await?, ended: false };
    transaction.says("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    Ok(transaction)
}

impl Transaction {
    /// Makes it true.
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.says("COMMIT").await?;
        self.ended = true;
        Ok(())
    }

    /// Takes it back, and keeps the connection: for a refusal that is no accident. One that cannot be taken back
    /// by a word goes with its connection.
    pub(crate) async fn roll_back(mut self) {
        self.ended = self.says("ROLLBACK").await.is_ok();
    }

    async fn says(&mut self, word: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(word).execute(&mut *self.connection).await.map(drop)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for Transaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}
