//! Agent operations: consume a token, join, leave. The agents' control plane and the tests call them, never the broker.

use broker_ports::{NodeId, PeerId, PortError, TokenState};
use secrecy::{ExposeSecret, SecretString};
use sqlx::PgConnection;

use super::{NodeIdValues, NodeRow, PeerRow, PgMesh};
use crate::error::{ClassifyError, invalid_row};
use crate::sql::{Statement, columns, params};
use crate::token_issuer::{TokenRow, digest};

params! {
    struct DigestValues {
        sha256: Vec<u8>,
    }
}

/// Locks the ledger, like issue and close. The update re-evaluates its conditions on the token row after the lock
/// wait, so a token that changed meanwhile is not consumed. Makes the resource due at once, because no cluster event
/// reports its Node.
pub(crate) const ENROL_NODE: Statement<DigestValues, NodeRow> = Statement::new(
    "mesh.enrol",
    "WITH ledger AS (
        SELECT ledger.provisioned_resource_id
        FROM plexsphere.bootstrap_token_ledgers AS ledger
        JOIN plexsphere.bootstrap_tokens AS token USING (provisioned_resource_id)
        WHERE token.sha256 = $1
        FOR UPDATE OF ledger
    ), consumed AS (
        UPDATE plexsphere.bootstrap_tokens AS token
        SET consumed_at = clock_timestamp(), consumed_by_node_id = gen_random_uuid()
        FROM ledger
        WHERE token.provisioned_resource_id = ledger.provisioned_resource_id AND token.sha256 = $1
            AND token.consumed_at IS NULL AND token.invalidated_at IS NULL
            AND token.expires_at > clock_timestamp()
        RETURNING token.consumed_by_node_id, token.provisioned_resource_id
    ), due AS (
        UPDATE plexsphere.provisioned_resource_schedule AS s
        SET due_at = least(s.due_at, clock_timestamp()), wished = true
        FROM consumed
        WHERE s.provisioned_resource_id = consumed.provisioned_resource_id
        RETURNING pg_notify('plexsphere_provisioning_broker', s.provisioned_resource_id::text)
    )
    INSERT INTO plexsphere.nodes (id) SELECT consumed_by_node_id FROM consumed RETURNING id",
);

pub(crate) const TOKEN_STATE_BY_DIGEST: Statement<DigestValues, TokenRow> = Statement::new(
    "mesh.enrol.why_not",
    "SELECT consumed_at, invalidated_at, expires_at, expires_at <= clock_timestamp() AS expired
    FROM plexsphere.bootstrap_tokens
    WHERE sha256 = $1",
);

/// Locks the Node, so that a join and a deregistration are serialized. The update is a no-op that makes the statement
/// return an existing Peer.
pub(crate) const JOIN_MESH: Statement<NodeIdValues, PeerRow> = Statement::new(
    "mesh.join",
    "WITH node AS (
        SELECT id FROM plexsphere.nodes WHERE id = $1 AND deregistered_at IS NULL FOR UPDATE
    )
    INSERT INTO plexsphere.peers (node_id) SELECT id FROM node
    ON CONFLICT (node_id) WHERE left_at IS NULL DO UPDATE SET node_id = excluded.node_id
    RETURNING id",
);

columns! {
    struct KnownRow {
        known: bool,
    }
}

pub(crate) const NODE_EXISTS: Statement<NodeIdValues, KnownRow> = Statement::new(
    "mesh.join.why_not",
    "SELECT EXISTS (SELECT FROM plexsphere.nodes WHERE id = $1) AS known",
);

pub(crate) const LEAVE_MESH: Statement<NodeIdValues, ()> = Statement::new(
    "mesh.leave",
    "UPDATE plexsphere.peers SET left_at = clock_timestamp()
    WHERE node_id = $1 AND left_at IS NULL",
);

/// Why an agent was not enrolled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The token was never issued.
    #[error("the token was never issued")]
    Unknown,
    /// Another agent enrolled with the token.
    #[error("the token is already consumed")]
    Consumed,
    /// The time to live has passed.
    #[error("the token has expired")]
    Expired,
    /// A later issue or a close invalidated the token.
    #[error("the token was invalidated")]
    Invalidated,
    /// The request failed or its response was lost.
    #[error("the token store failed")]
    Store(#[source] PortError),
}

/// Why a Node got no Peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The Node has not enrolled.
    #[error("the node has not enrolled")]
    Unknown,
    /// The Node was deregistered. This is final.
    #[error("the node was deregistered")]
    Deregistered,
    /// The request failed or its response was lost.
    #[error("the mesh store failed")]
    Store(#[source] PortError),
}

impl PgMesh {
    /// Consumes a token and creates its Node. Makes the resource due at once, so that the broker need not wait for
    /// the next sweep.
    ///
    /// # Errors
    ///
    /// If the token is not live. After [`EnrolError::Store`] of class `Unknown` it may have been consumed; a retry
    /// then returns [`EnrolError::Consumed`].
    #[tracing::instrument(name = "db.node.enrol", skip_all)]
    pub async fn enrol(&self, plaintext: &SecretString) -> Result<NodeId, EnrolError> {
        let sha256 = digest(plaintext.expose_secret());
        let mut connection = self.connection().await.map_err(EnrolError::Store)?;
        let values = DigestValues { sha256: sha256.clone() };
        let node = ENROL_NODE.optional(&mut connection, values).await.map_commit_error();
        match node.map_err(EnrolError::Store)? {
            Some(NodeRow { id }) => {
                NodeId::new(id).map_err(|error| EnrolError::Store(invalid_row("nodes", id, error)))
            }
            None => Err(enrol_refusal(&mut connection, sha256).await),
        }
    }

    /// Creates the Peer of a Node. An existing Peer is kept.
    ///
    /// # Errors
    ///
    /// If the Node is not allowed into the mesh.
    #[tracing::instrument(name = "db.peer.join", skip_all, fields(%node))]
    pub async fn join(&self, node: NodeId) -> Result<PeerId, JoinError> {
        let mut connection = self.connection().await.map_err(JoinError::Store)?;
        let peer = JOIN_MESH
            .optional(&mut connection, NodeIdValues { node: node.as_uuid() })
            .await
            .map_commit_error();
        match peer.map_err(JoinError::Store)? {
            Some(row) => row.into_peer().map_err(JoinError::Store),
            None => Err(join_refusal(&mut connection, node).await),
        }
    }

    /// Removes the Peer of a Node, as on a reboot. A no-op without a Peer.
    ///
    /// # Errors
    ///
    /// `Transient`, `Unknown`.
    #[tracing::instrument(name = "db.peer.leave", skip_all, fields(%node))]
    pub async fn leave(&self, node: NodeId) -> Result<(), PortError> {
        let mut connection = self.connection().await?;
        LEAVE_MESH
            .all(&mut connection, NodeIdValues { node: node.as_uuid() })
            .await
            .map_commit_error()?;
        Ok(())
    }
}

/// Reads the reason separately: a token that is not consumable stays so.
async fn enrol_refusal(connection: &mut PgConnection, sha256: Vec<u8>) -> EnrolError {
    let row = TOKEN_STATE_BY_DIGEST
        .optional(connection, DigestValues { sha256 })
        .await
        .map_uncommitted_error();
    match row.map(|row| row.map(TokenState::from)) {
        Ok(Some(TokenState::Consumed { .. })) => EnrolError::Consumed,
        Ok(Some(TokenState::Expired { .. })) => EnrolError::Expired,
        Ok(Some(TokenState::Invalidated)) => EnrolError::Invalidated,
        // Live, because it was issued after the first read.
        Ok(_) => EnrolError::Unknown,
        Err(error) => EnrolError::Store(error),
    }
}

/// Reads the reason separately: a deregistration is final, and Nodes are never deleted.
async fn join_refusal(connection: &mut PgConnection, node: NodeId) -> JoinError {
    match NODE_EXISTS
        .one(connection, NodeIdValues { node: node.as_uuid() })
        .await
        .map_uncommitted_error()
    {
        Ok(KnownRow { known: true }) => JoinError::Deregistered,
        Ok(KnownRow { known: false }) => JoinError::Unknown,
        Err(error) => JoinError::Store(error),
    }
}
