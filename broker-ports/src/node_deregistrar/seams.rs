//! The three seams of a mesh: from a token to its Node, from a Node to its Peer, and the command to leave.

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;

use super::ids::{NodeId, PeerId};
use crate::error::PortError;

/// Who consumed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consumer {
    /// The Node.
    pub node: NodeId,
    /// It was deregistered.
    pub deregistered: bool,
}

impl Consumer {
    /// A Node that is part of the mesh.
    pub const fn registered(node: NodeId) -> Self {
        Self { node, deregistered: false }
    }

    /// A Node that was deregistered.
    pub const fn deregistered(node: NodeId) -> Self {
        Self { node, deregistered: true }
    }
}

/// The first seam: from a token to the Node that consumed it.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait TokenReader: Send + Sync {
    /// Who consumed each token, in their order; `None` for one that nobody consumed.
    ///
    /// # Errors
    ///
    /// When no answer could be had.
    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Option<Consumer>>, PortError>;
}

/// The second seam: from a Node to its live Peer.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait PeerResolver: Send + Sync {
    /// The Node's live Peer; `None` if it has none, yet or any more.
    ///
    /// # Errors
    ///
    /// When no answer could be had.
    async fn live_peer(&self, node: NodeId) -> Result<Option<PeerId>, PortError>;
}

/// The third seam: what makes a Node leave.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait PeerCommander: Send + Sync {
    /// Drains the Peer, if one is named, and then marks the Node deregistered. Twice is once.
    ///
    /// **Guarantees**: the mark is set only when no Peer of the Node is live, and once it is set none can
    /// follow. If the Node has another live Peer than the one that was named, nothing is marked and the
    /// answer is [`Retired::PeerAppeared`].
    ///
    /// # Errors
    ///
    /// When the Peer does not drain, or the answer was lost.
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Result<Retired, PortError>;
}

/// What became of a Node that should leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    /// It left.
    Done,
    /// It has a live Peer that was not named: look again.
    PeerAppeared,
}
