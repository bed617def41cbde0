//! Observe and act: the three seams of a mesh: token to Node, Node to Peer, and removal of a Node.

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;

use super::ids::{NodeId, PeerId};
use crate::error::PortError;

/// The Node that consumed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consumer {
    /// The Node.
    pub node: NodeId,
    /// Whether it was deregistered.
    pub deregistered: bool,
}

impl Consumer {
    /// A Node in the mesh.
    pub const fn registered(node: NodeId) -> Self {
        Self { node, deregistered: false }
    }

    /// A deregistered Node.
    pub const fn deregistered(node: NodeId) -> Self {
        Self { node, deregistered: true }
    }
}

/// The first seam: from a token to the Node that consumed it.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait TokenReader: Send + Sync {
    /// The consumer of each token, in their order; `None` for an unconsumed token. A token that the mesh does not know is
    /// that token's error, as in [`NodeDeregistrar`](crate::NodeDeregistrar).
    ///
    /// # Errors
    ///
    /// When the mesh does not respond.
    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<Option<Consumer>, PortError>>, PortError>;
}

/// The second seam: from a Node to its live Peer.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait PeerResolver: Send + Sync {
    /// The Node's live Peer; `None` if it has none now.
    ///
    /// # Errors
    ///
    /// When the mesh does not respond.
    async fn live_peer(&self, node: NodeId) -> Result<Option<PeerId>, PortError>;
}

/// The third seam: removes a Node from the mesh.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait PeerCommander: Send + Sync {
    /// Drains the given Peer and then marks the Node deregistered. Idempotent.
    ///
    /// **Guarantees**: sets the mark only while no Peer of the Node is live; afterwards none can appear. If the Node
    /// has a live Peer other than `peer`, it marks nothing and returns [`Retired::PeerAppeared`].
    ///
    /// # Errors
    ///
    /// When the Peer does not drain, or the response was lost.
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Result<Retired, PortError>;
}

/// The result of a retirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Retired {
    /// The Peer is drained and the Node is marked deregistered.
    Done,
    /// The Node has another live Peer: resolve it and retry.
    PeerAppeared,
}
