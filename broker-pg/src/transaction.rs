//! Transactions that lock first and look afterwards.

use broker_ports::PortError;
use sqlx::{PgPool, Postgres, Transaction};

use crate::error::Classified;

/// Begins one in which every statement sees what was committed before it, whatever the host made the default:
/// one that had to wait for a lock must not decide on what was true before.
pub(crate) async fn begin(pool: &PgPool) -> Result<Transaction<'static, Postgres>, PortError> {
    pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await.harmless()
}
