//! Persist on Postgres: hints by NOTIFY. They are sent by the statements and triggers that make something due
//! at once, arrive when those are committed, and carry an id and nothing else.

use broker_domain::ProvisionedResourceId;
use broker_ports::{PortError, Wakeups};
use futures_util::stream;
use sqlx::postgres::PgListener;

use crate::error::Classified;
use crate::store::PgStore;

/// The channel's name, which the triggers know, too.
const CHANNEL: &str = "plexsphere_provisioning_broker";

impl PgStore {
    /// Takes a connection of the pool for as long as the stream lives. A connection that is lost is replaced
    /// by another one; what was sent in between is lost, as hints may be. If none can be had, the stream ends.
    pub(super) async fn listen(&self) -> Result<Wakeups, PortError> {
        let mut listener = PgListener::connect_with(&self.pool).await.harmless()?;
        listener.listen(CHANNEL).await.harmless()?;
        Ok(Box::pin(stream::unfold(listener, |mut listener| async move {
            loop {
                let notification = match listener.recv().await {
                    Ok(notification) => notification,
                    Err(error) => {
                        tracing::warn!(%error, "wake-ups end; what is due is found by looking");
                        return None;
                    }
                };
                // Anybody may notify; what is not an id is nobody's hint.
                if let Ok(id) = notification.payload().parse::<ProvisionedResourceId>() {
                    return Some((id, listener));
                }
            }
        })))
    }
}
