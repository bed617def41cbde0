//! The shipped deregistrar: three seams in a row, and an error that says which one failed.

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;

use super::NodeDeregistrar;
use super::ids::{NodeId, PeerId};
use crate::error::{FailureClass, PortError};

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

/// [`NodeDeregistrar`] over the three seams.
pub struct ChainedNodeDeregistrar {
    tokens: Arc<dyn TokenReader>,
    peers: Arc<dyn PeerResolver>,
    commander: Arc<dyn PeerCommander>,
}

/// A Peer that appears between the question and the command is looked up again this often.
const MOST_LOOKS: usize = 3;

impl ChainedNodeDeregistrar {
    /// Chains the seams.
    pub fn new(
        tokens: Arc<dyn TokenReader>,
        peers: Arc<dyn PeerResolver>,
        commander: Arc<dyn PeerCommander>,
    ) -> Self {
        Self { tokens, peers, commander }
    }

    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Option<Consumer>>, PortError> {
        let consumers =
            self.tokens.consumers(tokens).await.map_err(|error| at_seam("token reader", error))?;
        if consumers.len() != tokens.len() {
            return Err(PortError::rejected(format!(
                "the token reader gave {} answers to {} questions",
                consumers.len(),
                tokens.len()
            )));
        }
        Ok(consumers)
    }
}

#[async_trait]
impl NodeDeregistrar for ChainedNodeDeregistrar {
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        let Some(Consumer { node, .. }) =
            self.consumers(&[token]).await?.into_iter().flatten().next()
        else {
            return Ok(());
        };
        for _ in 0..MOST_LOOKS {
            let peer = self
                .peers
                .live_peer(node)
                .await
                .map_err(|error| at_seam("peer resolver", error))?;
            let retired = self
                .commander
                .retire(node, peer)
                .await
                .map_err(|error| at_seam("peer commander", error))?;
            match retired {
                Retired::Done => return Ok(()),
                Retired::PeerAppeared => {}
            }
        }
        Err(PortError::transient(format!("node {node} got a new peer {MOST_LOOKS} times in a row")))
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        let consumers = self.consumers(&[token]).await?;
        Ok(consumers.into_iter().flatten().any(|consumer| !consumer.deregistered))
    }

    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<bool, PortError>>, PortError> {
        let consumers = self.consumers(tokens).await?;
        let registered = |consumer: Option<Consumer>| Ok(consumer.is_some_and(|c| !c.deregistered));
        Ok(consumers.into_iter().map(registered).collect())
    }
}

/// The same failure, with the name of the seam before it.
fn at_seam(seam: &str, error: PortError) -> PortError {
    let message = format!("the {seam} failed");
    let named = match error.class() {
        FailureClass::Rejected => PortError::rejected(message),
        FailureClass::Transient => PortError::transient(message),
        FailureClass::Unknown => PortError::unknown(message),
    };
    let named = match error.retry_after() {
        Some(wait) => named.with_retry_after(wait),
        None => named,
    };
    named.with_source(error)
}
