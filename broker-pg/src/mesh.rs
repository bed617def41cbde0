//! Observe and act: the mesh in the platform's tables, through three ports.

mod agents;
mod chained;

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{
    Consumer, NodeId, PeerCommander, PeerId, PeerResolver, PortError, Retired, TokenReader,
};
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};
use uuid::Uuid;

pub(crate) use agents::{ENROL_NODE, JOIN_MESH, LEAVE_MESH, NODE_EXISTS, TOKEN_STATE_BY_DIGEST};
pub use agents::{EnrolError, JoinError};
pub use chained::ChainedNodeDeregistrar;

use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::transaction;

params! {
    struct ReadConsumersValues {
        tokens: Vec<Uuid>,
    }
}

columns! {
    struct ConsumerRow {
        known: bool,
        node: Option<Uuid>,
        deregistered: bool,
    }
}

pub(crate) const READ_CONSUMERS: Statement<ReadConsumersValues, ConsumerRow> = Statement::new(
    "token_reader.consumers",
    "SELECT token.id IS NOT NULL AS known,
        node.id AS node, node.deregistered_at IS NOT NULL AS deregistered
    FROM unnest($1::uuid[]) WITH ORDINALITY AS question (token, position)
    LEFT JOIN plexsphere.bootstrap_tokens AS token ON token.id = question.token
    LEFT JOIN plexsphere.nodes AS node ON node.id = token.consumed_by_node_id
    ORDER BY question.position",
);

params! {
    struct NodeIdValues {
        node: Uuid,
    }
}

columns! {
    struct PeerRow {
        id: Uuid,
    }
}

pub(crate) const FIND_LIVE_PEER: Statement<NodeIdValues, PeerRow> = Statement::new(
    "peer_resolver.live_peer",
    "SELECT id FROM plexsphere.peers WHERE node_id = $1 AND left_at IS NULL",
);

columns! {
    struct NodeRow {
        id: Uuid,
    }
}

/// Serializes with a joining Peer, which also locks its Node.
pub(crate) const LOCK_NODE: Statement<NodeIdValues, NodeRow> = Statement::new(
    "peer_commander.retire.lock",
    "SELECT id FROM plexsphere.nodes WHERE id = $1 FOR UPDATE",
);

params! {
    struct RetireNodeValues {
        node: Uuid,
        peer: Option<Uuid>,
    }
}

columns! {
    struct OtherPeerRow {
        another: bool,
    }
}

/// Requires the Node lock. A separate statement: it must see a Peer that joined while the lock was awaited.
pub(crate) const RETIRE_NODE: Statement<RetireNodeValues, OtherPeerRow> = Statement::new(
    "peer_commander.retire",
    "WITH found AS (
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
    SELECT another FROM found",
);

/// The mesh: its Nodes and their Peers.
///
/// The broker drains Nodes through [`deregistrar`](Self::deregistrar). The agents' operations serve the control plane
/// that admits them: [`enrol`](Self::enrol), [`join`](Self::join), [`leave`](Self::leave).
#[derive(Debug, Clone)]
pub struct PgMesh {
    pool: PgPool,
}

impl PgMesh {
    /// The mesh whose tables are in the schema `plexsphere` of this database.
    pub const fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// The port through which the broker drains Nodes.
    pub fn deregistrar(&self) -> ChainedNodeDeregistrar {
        let ports = Arc::new(self.clone());
        ChainedNodeDeregistrar::new(Arc::clone(&ports) as _, Arc::clone(&ports) as _, ports)
    }

    /// A failure means that no statement was sent.
    async fn connection(&self) -> Result<PoolConnection<Postgres>, PortError> {
        self.pool.acquire().await.map_uncommitted_error()
    }
}

impl ConsumerRow {
    fn into_consumer(self, token: BootstrapTokenId) -> Result<Option<Consumer>, PortError> {
        let Self { known, node, deregistered } = self;
        if !known {
            let message = format!("no row of plexsphere.bootstrap_tokens has the id {token}");
            return Err(PortError::rejected(message));
        }
        let Some(id) = node else { return Ok(None) };
        let node = NodeId::new(id).map_err(|error| invalid_row("nodes", id, error))?;
        Ok(Some(if deregistered {
            Consumer::deregistered(node)
        } else {
            Consumer::registered(node)
        }))
    }
}

impl PeerRow {
    fn into_peer(self) -> Result<PeerId, PortError> {
        let Self { id } = self;
        PeerId::new(id).map_err(|error| invalid_row("peers", id, error))
    }
}

#[async_trait]
impl TokenReader for PgMesh {
    #[tracing::instrument(name = "db.node.consumers", skip_all, fields(tokens = tokens.len()))]
    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<Option<Consumer>, PortError>>, PortError> {
        let mut connection = self.connection().await?;
        let values =
            ReadConsumersValues { tokens: tokens.iter().map(BootstrapTokenId::as_uuid).collect() };
        let rows = READ_CONSUMERS.all(&mut connection, values).await.map_uncommitted_error()?;
        Ok(rows.into_iter().zip(tokens).map(|(row, token)| row.into_consumer(*token)).collect())
    }
}

#[async_trait]
impl PeerResolver for PgMesh {
    #[tracing::instrument(name = "db.peer.live", skip_all, fields(%node))]
    async fn live_peer(&self, node: NodeId) -> Result<Option<PeerId>, PortError> {
        let mut connection = self.connection().await?;
        let row = FIND_LIVE_PEER
            .optional(&mut connection, NodeIdValues { node: node.as_uuid() })
            .await
            .map_uncommitted_error()?;
        row.map(PeerRow::into_peer).transpose()
    }
}

#[async_trait]
impl PeerCommander for PgMesh {
    #[tracing::instrument(name = "db.node.retire", skip_all, fields(%node))]
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Result<Retired, PortError> {
        let mut transaction = transaction::begin(&self.pool).await.map_uncommitted_error()?;
        let node_row =
            LOCK_NODE.optional(&mut transaction, NodeIdValues { node: node.as_uuid() }).await;
        if node_row.map_uncommitted_error()?.is_none() {
            transaction.roll_back().await;
            return Err(PortError::rejected(format!("node {node} does not exist")));
        }
        let values =
            RetireNodeValues { node: node.as_uuid(), peer: peer.map(|peer| peer.as_uuid()) };
        let OtherPeerRow { another } =
            RETIRE_NODE.one(&mut transaction, values).await.map_uncommitted_error()?;
        transaction.commit().await.map_commit_error()?;
        Ok(if another { Retired::PeerAppeared } else { Retired::Done })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nil_id_in_a_row_is_not_a_refusal() {
        let token = BootstrapTokenId::new(Uuid::from_u128(7)).unwrap();
        let consumer = ConsumerRow { known: true, node: Some(Uuid::nil()), deregistered: false };
        let peer = PeerRow { id: Uuid::nil() };
        for (table, error) in [
            ("plexsphere.nodes", consumer.into_consumer(token).unwrap_err()),
            ("plexsphere.peers", peer.into_peer().unwrap_err()),
        ] {
            assert!(!error.is_refusal() && error.domain().is_some(), "{error:?}");
            assert!(error.to_string().starts_with(table), "{error}");
        }
    }
}
