//! Observe and act: a mesh in memory, with its agents.

mod state;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;

pub(super) use state::{DEFAULT_WINDOW, State};

use super::tokens::MemoryTokens;
use crate::PortResult;
use broker_ports::{
    Clock, Consumer, NodeDeregistrar, NodeId, PeerCommander, PeerId, PeerResolver, Retired,
    TokenReader,
};

/// The mesh of a [`MemoryTokens`]: its Nodes and their Peers.
///
/// An agent [enrols](Self::enrol) with its plaintext, and its Node then [joins](Self::join) with a Peer. The broker
/// uses [`deregistrar`](Self::deregistrar). Clones are handles on the same mesh.
///
/// ```
/// use std::sync::Arc;
///
/// use broker_memory::{ManualClock, MemoryMesh, MemoryTokens};
/// use time::OffsetDateTime;
///
/// let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
/// let mesh = MemoryMesh::of(&MemoryTokens::seeded(7, Arc::new(clock)));
/// assert_eq!(mesh.enrol("a guess").unwrap_err().to_string(), "no such token was ever issued");
/// ```
#[derive(Clone)]
pub struct MemoryMesh {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

/// Why an agent could not enrol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnrolError {
    /// The plaintext belongs to no token.
    #[error("no such token was ever issued")]
    Unknown,
    /// Another agent enrolled with the token.
    #[error("the token was already consumed")]
    Consumed,
    /// The token expired.
    #[error("the token has expired")]
    Expired,
    /// A later issue or a close invalidated the token.
    #[error("the token was invalidated")]
    Invalidated,
}

/// Why a Node got no Peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No such Node has enrolled.
    #[error("no such node has enrolled")]
    Unknown,
    /// The Node was deregistered, permanently.
    #[error("the node was deregistered")]
    Deregistered,
}

impl MemoryMesh {
    /// The mesh of these tokens.
    pub fn of(tokens: &MemoryTokens) -> Self {
        let (state, clock) = tokens.shared();
        Self { state, clock }
    }

    /// First step of an agent: consumes its token and becomes a Node.
    ///
    /// # Errors
    ///
    /// When the token is not live.
    pub fn enrol(&self, plaintext: &str) -> Result<NodeId, EnrolError> {
        self.lock().enrol(plaintext, self.clock.now())
    }

    /// Second step of an agent: its Node gets a Peer. A Node with a Peer keeps it.
    ///
    /// # Errors
    ///
    /// When the mesh does not admit the Node.
    pub fn join(&self, node: NodeId) -> Result<PeerId, JoinError> {
        self.lock().join(node)
    }

    /// Removes the Node's Peer, as a reboot does.
    pub fn leave(&self, node: NodeId) {
        self.lock().leave(node);
    }

    /// The Node that consumed a token.
    pub fn consumer(&self, token: BootstrapTokenId) -> Option<Consumer> {
        self.lock().consumer(token)
    }

    /// The Node's live Peer.
    pub fn peer(&self, node: NodeId) -> Option<PeerId> {
        self.lock().live_peer(node)
    }

    /// Simulates an outage between the broker and its mesh and token issuer. While unreachable, every method of their
    /// ports is a `Transient` error and changes nothing. Agents are not affected.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().set_reachable(reachable);
    }

    /// A handle on the mesh, as the deregistrar port.
    #[must_use]
    pub fn deregistrar(&self) -> Self {
        self.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryMesh").finish_non_exhaustive()
    }
}

#[async_trait]
impl TokenReader for MemoryMesh {
    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> PortResult<Vec<PortResult<Option<Consumer>>>> {
        let mut state = self.lock();
        let state = state.check_reachable()?;
        Ok(tokens.iter().map(|token| state.consumer_of_known(*token)).collect())
    }
}

#[async_trait]
impl PeerResolver for MemoryMesh {
    async fn live_peer(&self, node: NodeId) -> PortResult<Option<PeerId>> {
        Ok(self.lock().check_reachable()?.live_peer(node))
    }
}

#[async_trait]
impl PeerCommander for MemoryMesh {
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> PortResult<Retired> {
        self.lock().check_reachable()?.retire(node, peer)
    }
}

/// Each call holds the lock, so no Node can join halfway through it.
#[async_trait]
impl NodeDeregistrar for MemoryMesh {
    async fn deregister(&self, token: BootstrapTokenId) -> PortResult<()> {
        let mut state = self.lock();
        let state = state.check_reachable()?;
        let Some(Consumer { node, .. }) = state.consumer_of_known(token)? else { return Ok(()) };
        let peer = state.live_peer(node);
        state.retire(node, peer).map(|_retired| ())
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> PortResult<bool> {
        self.lock().check_reachable()?.registered(token)
    }

    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> PortResult<Vec<PortResult<bool>>> {
        let mut state = self.lock();
        let state = state.check_reachable()?;
        Ok(tokens.iter().map(|token| state.registered(*token)).collect())
    }
}
