//! Persist on Postgres: wake-ups through NOTIFY. Statements and triggers that make a resource due send its id; it
//! arrives on commit.

use broker_domain::ProvisionedResourceId;
use broker_ports::{PortError, Wakeups};
use futures_util::stream;
use sqlx::postgres::PgListener;

use crate::error::ClassifyError;
use crate::store::PgStore;

/// The channel name, also in the triggers.
const CHANNEL: &str = "plexsphere_provisioning_broker";

impl PgStore {
    /// Holds one pool connection while the stream lives. The listener replaces a lost connection; notifications
    /// in between are lost. Without a replacement the stream ends.
    pub(super) async fn listen(&self) -> Result<Wakeups, PortError> {
        let mut listener = PgListener::connect_with(&self.pool).await.map_uncommitted_error()?;
        listener.listen(CHANNEL).await.map_uncommitted_error()?;
        Ok(Box::pin(stream::unfold(listener, |mut listener| async move {
            loop {
                let notification = match listener.recv().await {
                    Ok(notification) => notification,
                    Err(error) => {
                        tracing::warn!(%error, "wake-ups ended; the runner finds due resources by polling");
                        return None;
                    }
                };
                // Any session may notify the channel; payloads that are not an id are ignored.
                if let Ok(id) = notification.payload().parse::<ProvisionedResourceId>() {
                    return Some((id, listener));
                }
            }
        })))
    }
}
