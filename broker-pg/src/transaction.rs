//! Transactions that are safe to drop at any time.
//!
//! The driver's own transaction is not cancellation-safe. If it is dropped during its `BEGIN`, its connection returns
//! to the pool without a rollback. The next user's statements are then never committed, although they succeed.
//! [`Transaction`] closes its connection if it is dropped before commit or rollback.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};

pub(crate) struct Transaction {
    connection: PoolConnection<Postgres>,
    ended: bool,
}

/// Starts a transaction at `READ COMMITTED`, whatever the host's default is, because a statement must see current rows
/// after a lock wait.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction, sqlx::Error> {
    let mut transaction = Transaction { connection: pool.acquire().await?, ended: false };
    transaction.execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
    Ok(transaction)
}

impl Transaction {
    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        self.execute("COMMIT").await?;
        self.ended = true;
        Ok(())
    }

    /// Rolls back and keeps the connection, for an expected refusal. If the rollback fails, the connection is closed.
    pub(crate) async fn roll_back(mut self) {
        self.ended = self.execute("ROLLBACK").await.is_ok();
    }

    async fn execute(&mut self, command: &'static str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(command).execute(&mut *self.connection).await.map(drop)
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
