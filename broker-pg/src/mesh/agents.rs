//! What agents do: consume their token, join, leave. The broker never calls these; the control plane that
//! agents talk to does, and the tests that play it.

use broker_ports::{NodeId, PeerId, PortError, TokenState};
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

use super::PgMesh;
use crate::error::Classified;
use crate::token_issuer::{TokenRow, digest, state_of};

/// Locks the ledger, like issue and close. A token that changed while the lock was waited for is looked at
/// anew before it is updated, for it is the row that the update is about.
const ENROL_NODE: &str = "\
WITH ledger AS (
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
    RETURNING token.consumed_by_node_id
)
INSERT INTO plexsphere.nodes (id) SELECT consumed_by_node_id FROM consumed RETURNING id";

const TOKEN_STATE_BY_DIGEST: &str = "\
SELECT consumed_at, invalidated_at, expires_at, expires_at <= clock_timestamp()
FROM plexsphere.bootstrap_tokens
WHERE sha256 = $1";

/// Locks the Node, so that a Peer and the Node's mark come one after the other. The update changes nothing; it
/// makes the statement return the Peer that is already there.
const JOIN_MESH: &str = "\
WITH node AS (
    SELECT id FROM plexsphere.nodes WHERE id = $1 AND deregistered_at IS NULL FOR UPDATE
)
INSERT INTO plexsphere.peers (node_id) SELECT id FROM node
ON CONFLICT (node_id) WHERE left_at IS NULL DO UPDATE SET node_id = excluded.node_id
RETURNING id";

const NODE_EXISTS: &str = "\
SELECT EXISTS (SELECT FROM plexsphere.nodes WHERE id = $1)";

const LEAVE_MESH: &str = "\
UPDATE plexsphere.peers SET left_at = clock_timestamp() WHERE node_id = $1 AND left_at IS NULL";

/// Why an agent was not let in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The plaintext is none of ours.
    #[error("no such token was ever issued")]
    Unknown,
    /// Somebody enrolled with it before.
    #[error("the token was consumed before")]
    Consumed,
    /// Its time is over.
    #[error("the token has expired")]
    Expired,
    /// A later issue or a close made it worthless.
    #[error("the token was invalidated")]
    Invalidated,
    /// Nobody could be asked, or the answer was lost.
    #[error("the tokens cannot be reached")]
    Store(#[source] PortError),
}

/// Why a Node got no Peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No such Node has enrolled.
    #[error("no such node has enrolled")]
    Unknown,
    /// It was deregistered, for good.
    #[error("the node was deregistered")]
    Deregistered,
    /// Nobody could be asked, or the answer was lost.
    #[error("the mesh cannot be reached")]
    Store(#[source] PortError),
}

impl PgMesh {
    /// What an agent does first: consumes its token, and is a Node from then on.
    ///
    /// # Errors
    ///
    /// When the token is not live. After [`EnrolError::Store`] of class `Unknown` it may have been consumed; the
    /// agent that asks again is then told so.
    pub async fn enrol(&self, plaintext: &SecretString) -> Result<NodeId, EnrolError> {
        let digest = digest(plaintext.expose_secret());
        let node: Option<Uuid> = sqlx::query_scalar(ENROL_NODE)
            .bind(digest.as_slice())
            .fetch_optional(&self.pool)
            .await
            .committing()
            .map_err(EnrolError::Store)?;
        match node {
            Some(node) => Ok(NodeId(node)),
            None => Err(self.why_not_enrolled(&digest).await),
        }
    }

    /// What an agent does next: its Node gets a Peer. A Node that has one keeps it.
    ///
    /// # Errors
    ///
    /// When the Node is not allowed into the mesh.
    pub async fn join(&self, node: NodeId) -> Result<PeerId, JoinError> {
        let peer: Option<Uuid> = sqlx::query_scalar(JOIN_MESH)
            .bind(node.0)
            .fetch_optional(&self.pool)
            .await
            .committing()
            .map_err(JoinError::Store)?;
        match peer {
            Some(peer) => Ok(PeerId(peer)),
            None => Err(self.why_not_joined(node).await),
        }
    }

    /// The Node's Peer goes away by itself, as on a reboot. A Node without a Peer stays as it is.
    ///
    /// # Errors
    ///
    /// `Transient`, `Unknown`.
    pub async fn leave(&self, node: NodeId) -> Result<(), PortError> {
        let leave = sqlx::query(LEAVE_MESH).bind(node.0).execute(&self.pool).await;
        leave.map(drop).committing()
    }

    /// A token that cannot be consumed never can be again, so a second look gives the reason of the first.
    async fn why_not_enrolled(&self, digest: &[u8]) -> EnrolError {
        let row: Result<Option<TokenRow>, _> = sqlx::query_as(TOKEN_STATE_BY_DIGEST)
            .bind(digest)
            .fetch_optional(&self.pool)
            .await
            .harmless();
        match row.map(|row| row.map(state_of)) {
            Ok(Some(TokenState::Consumed { .. })) => EnrolError::Consumed,
            Ok(Some(TokenState::Expired { .. })) => EnrolError::Expired,
            Ok(Some(TokenState::Invalidated)) => EnrolError::Invalidated,
            // One that is live now was not there at the first look.
            Ok(None | Some(TokenState::Live { .. })) => EnrolError::Unknown,
            Err(error) => EnrolError::Store(error),
        }
    }

    /// A mark is never taken back, and no Node goes away, so a second look gives the reason of the first.
    async fn why_not_joined(&self, node: NodeId) -> JoinError {
        let known: Result<bool, _> =
            sqlx::query_scalar(NODE_EXISTS).bind(node.0).fetch_one(&self.pool).await.harmless();
        match known {
            Ok(true) => JoinError::Deregistered,
            Ok(false) => JoinError::Unknown,
            Err(error) => JoinError::Store(error),
        }
    }
}
