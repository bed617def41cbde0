//! Stage 3, observe, and 5, act: the mesh in the neighbours' tables, through the three seams.

mod agents;

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{
    ChainedNodeDeregistrar, Consumer, NodeId, PeerCommander, PeerId, PeerResolver, PortError,
    Retired, TokenReader,
};
use sqlx::PgPool;
use uuid::Uuid;

pub use agents::{EnrolError, JoinError};

use crate::error::Classified;
use crate::transaction;

/// One row per question, in the order of the questions.
const READ_CONSUMERS: &str = "\
SELECT node.id, node.deregistered_at IS NOT NULL
FROM unnest($1::uuid[]) WITH ORDINALITY AS question (token, position)
LEFT JOIN plexsphere.bootstrap_tokens AS token ON token.id = question.token
LEFT JOIN plexsphere.nodes AS node ON node.id = token.consumed_by_node_id
ORDER BY question.position";

const LIVE_PEER: &str = "\
SELECT id FROM plexsphere.peers WHERE node_id = $1 AND left_at IS NULL";

/// A Peer that joins locks its Node, too.
const LOCK_NODE: &str = "SELECT id FROM plexsphere.nodes WHERE id = $1 FOR UPDATE";

/// Only for whoever holds the Node, and as a statement of its own: it must see a Peer that joined while the
/// lock was waited for.
const RETIRE_NODE: &str = "\
WITH found AS (
    SELECT EXISTS (
        SELECT FROM plexsphere.peers
        WHERE node_id = $1 AND left_at IS NULL AND id IS DISTINCT FROM $2
    ) AS another
), drained AS (
    UPDATE plexsphere.peers SET left_at = clock_timestamp()
    FROM found
    WHERE NOT found.another AND node_id = $1 AND left_at IS NULL
), marked AS (
    UPDATE plexsphere.nodes SET deregistered_at = coalesce(deregistered_at, clock_timestamp())
    FROM found
    WHERE NOT found.another AND id = $1
)
SELECT another FROM found";

/// The mesh: its Nodes and their Peers.
///
/// The broker drains Nodes through [`deregistrar`](Self::deregistrar). What agents do is here, too, for the
/// control plane that lets them in: [`enrol`](Self::enrol), [`join`](Self::join), [`leave`](Self::leave).
#[derive(Debug, Clone)]
pub struct PgMesh {
    pool: PgPool,
}

impl PgMesh {
    /// The mesh whose tables stand in the schema `plexsphere` of this database.
    pub const fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// What the broker drains Nodes through.
    pub fn deregistrar(&self) -> ChainedNodeDeregistrar {
        let seams = Arc::new(self.clone());
        ChainedNodeDeregistrar::new(Arc::clone(&seams) as _, Arc::clone(&seams) as _, seams)
    }
}

#[async_trait]
impl TokenReader for PgMesh {
    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Option<Consumer>>, PortError> {
        let ids: Vec<Uuid> = tokens.iter().map(BootstrapTokenId::as_uuid).collect();
        let rows: Vec<(Option<Uuid>, bool)> =
            sqlx::query_as(READ_CONSUMERS).bind(ids).fetch_all(&self.pool).await.harmless()?;
        let consumer = |(node, deregistered): (Option<Uuid>, bool)| {
            Some(Consumer { node: NodeId(node?), deregistered })
        };
        Ok(rows.into_iter().map(consumer).collect())
    }
}

#[async_trait]
impl PeerResolver for PgMesh {
    async fn live_peer(&self, node: NodeId) -> Result<Option<PeerId>, PortError> {
        let peer: Option<Uuid> = sqlx::query_scalar(LIVE_PEER)
            .bind(node.0)
            .fetch_optional(&self.pool)
            .await
            .harmless()?;
        Ok(peer.map(PeerId))
    }
}

#[async_trait]
impl PeerCommander for PgMesh {
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Result<Retired, PortError> {
        let mut transaction = transaction::begin(&self.pool).await?;
        let locked: Option<Uuid> = sqlx::query_scalar(LOCK_NODE)
            .bind(node.0)
            .fetch_optional(&mut *transaction)
            .await
            .harmless()?;
        if locked.is_none() {
            return Err(PortError::rejected(format!("there is no node {node}")));
        }
        let another: bool = sqlx::query_scalar(RETIRE_NODE)
            .bind(node.0)
            .bind(peer.map(|PeerId(peer)| peer))
            .fetch_one(&mut *transaction)
            .await
            .harmless()?;
        transaction.commit().await.committing()?;
        Ok(if another { Retired::PeerAppeared } else { Retired::Done })
    }
}
