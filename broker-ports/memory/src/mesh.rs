//! Observe and act: a mesh in memory, with the agents that enrol into it.

mod state;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;

pub(super) use state::{DEFAULT_WINDOW, State};

use super::tokens::MemoryTokens;
use crate::Answer;
use broker_ports::{
    Clock, Consumer, NodeDeregistrar, NodeId, PeerCommander, PeerId, PeerResolver, Retired,
    TokenReader,
};

/// The mesh that the tokens of a [`MemoryTokens`] open: its Nodes and their Peers.
///
/// An agent [enrols](Self::enrol) with the plaintext that it was started with, and its Node then
/// [joins](Self::join) with a Peer. The broker sees the mesh through [`deregistrar`](Self::deregistrar).
/// Clones are handles on the same mesh.
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

/// Why an agent was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
}

/// Why a Node got no Peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// No such Node has enrolled.
    #[error("no such node has enrolled")]
    Unknown,
    /// It was deregistered, for good.
    #[error("the node was deregistered")]
    Deregistered,
}

impl MemoryMesh {
    /// The mesh that these tokens open.
    pub fn of(tokens: &MemoryTokens) -> Self {
        let (state, clock) = tokens.shared();
        Self { state, clock }
    }

    /// What an agent does first: consumes its token, and is a Node from then on.
    ///
    /// # Errors
    ///
    /// When the token is not live.
    pub fn enrol(&self, plaintext: &str) -> Result<NodeId, EnrolError> {
        self.lock().enrol(plaintext, self.clock.now())
    }

    /// What an agent does next: its Node gets a Peer. A Node that has one keeps it.
    ///
    /// # Errors
    ///
    /// When the Node is not allowed into the mesh.
    pub fn join(&self, node: NodeId) -> Result<PeerId, JoinError> {
        self.lock().join(node)
    }

    /// The Node's Peer goes away by itself, as on a reboot.
    pub fn leave(&self, node: NodeId) {
        self.lock().leave(node);
    }

    /// Who consumed a token.
    pub fn consumer(&self, token: BootstrapTokenId) -> Option<Consumer> {
        self.lock().consumer(token)
    }

    /// The Node's live Peer.
    pub fn peer(&self, node: NodeId) -> Option<PeerId> {
        self.lock().live_peer(node)
    }

    /// Cuts the broker off from the mesh and from its tokens, or brings both back: an outage. Until then
    /// every method of their ports is a `Transient` error, and nothing changes. Agents get through as before.
    pub fn set_reachable(&self, reachable: bool) {
        self.lock().set_reachable(reachable);
    }

    /// What the broker drains Nodes through: the mesh itself.
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
    async fn consumers(&self, tokens: &[BootstrapTokenId]) -> Answer<Vec<Option<Consumer>>> {
        let mut state = self.lock();
        let state = state.reached()?;
        Ok(tokens.iter().map(|token| state.consumer(*token)).collect())
    }
}

#[async_trait]
impl PeerResolver for MemoryMesh {
    async fn live_peer(&self, node: NodeId) -> Answer<Option<PeerId>> {
        Ok(self.lock().reached()?.live_peer(node))
    }
}

#[async_trait]
impl PeerCommander for MemoryMesh {
    async fn retire(&self, node: NodeId, peer: Option<PeerId>) -> Answer<Retired> {
        self.lock().reached()?.retire(node, peer)
    }
}

/// Each call is one look at the mesh: nothing can join between its halves.
#[async_trait]
impl NodeDeregistrar for MemoryMesh {
    async fn deregister(&self, token: BootstrapTokenId) -> Answer<()> {
        let mut state = self.lock();
        let state = state.reached()?;
        let Some(Consumer { node, .. }) = state.consumer(token) else { return Ok(()) };
        let peer = state.live_peer(node);
        state.retire(node, peer).map(|_retired| ())
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> Answer<bool> {
        let consumer = self.lock().reached()?.consumer(token);
        Ok(consumer.is_some_and(|it| !it.deregistered))
    }

    async fn nodes_registered(&self, tokens: &[BootstrapTokenId]) -> Answer<Vec<Answer<bool>>> {
        let mut state = self.lock();
        let state = state.reached()?;
        let registered =
            |token: &BootstrapTokenId| state.consumer(*token).is_some_and(|it| !it.deregistered);
        Ok(tokens.iter().map(|token| Ok(registered(token))).collect())
    }
}
