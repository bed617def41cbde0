//! Persist on Postgres: replaces a resource by a new one, in one transaction.

use broker_ports::{Created, PortError, Replaced, Replacement, WriteKind, Written};
use sqlx::PgConnection;

use super::create::create;
use super::shared_config::register;
use super::write::write;
use crate::audit::record;
use crate::error::{ClassifyError, LostResponse};
use crate::store::PgStore;
use crate::transaction;

impl PgStore {
    pub(super) async fn insert_replacement(
        &self,
        replacement: &Replacement,
    ) -> Result<Replaced, PortError> {
        let mut transaction = transaction::begin(&self.pool).await.map_uncommitted_error()?;
        let replaced = replace(&mut transaction, replacement).await;
        if matches!(replaced, Ok(Replaced::Created(Created::Stored))) {
            transaction.commit().await.map_commit_error()?;
        } else {
            transaction.roll_back().await;
        }
        replaced
    }
}

/// The statements of creation and deletion request. The caller ends the transaction.
///
/// Creates first: of two calls with one request id, the second then waits for the first and returns its resource. In
/// the other order the second call would find the old row stale.
async fn replace(
    connection: &mut PgConnection,
    replacement: &Replacement,
) -> Result<Replaced, PortError> {
    let created = create(connection, replacement.admitted(), LostResponse::Harmless).await?;
    if created != Created::Stored {
        return Ok(Replaced::Created(created));
    }
    if let Some(deletion) = replacement.deletion() {
        match write(connection, WriteKind::DeletionIntent, &deletion, LostResponse::Harmless)
            .await?
        {
            Written::Committed => {}
            Written::Stale | Written::LeaseLost => return Ok(Replaced::Stale),
        }
    }
    // After the old row, as the write of Deleted locks it before the shared row; the reverse order could deadlock.
    register(connection, replacement.admitted(), LostResponse::Harmless).await?;
    record(connection, &replacement.audit()).await.map_uncommitted_error()?;
    Ok(Replaced::Created(created))
}
