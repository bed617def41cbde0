//! The contracts of [`NodeDeregistrar`], and of the three seams from which the shipped deregistrar is built.

mod cases;
mod outage;
mod seams;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{NodeDeregistrar, PeerCommander, PeerResolver, TokenReader};
use uuid::Uuid;

use crate::prelude::*;

/// Hooks that act as agents and mesh. Any error is a violation.
#[async_trait]
pub trait MeshAgents: Send + Sync {
    /// Issues a token that is never consumed; a new one on each call.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError>;

    /// Issues a token that an agent consumes; its Node has no Peer yet. A new one on each call.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError>;

    /// The token's Node requests a Peer. Returns whether the mesh admitted it.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// Removes the Node's Peer, as a reboot does.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError>;

    /// Whether the token's Node has a live Peer, according to the mesh.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// Makes the backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// A deregistrar and its mesh.
pub trait NodeDeregistrarUnderTest: MeshAgents {
    /// The deregistrar.
    fn deregistrar(&self) -> &dyn NodeDeregistrar;
}

/// The three seams and their mesh.
pub trait SeamsUnderTest: MeshAgents {
    /// From a token to the Node that consumed it.
    fn tokens(&self) -> &dyn TokenReader;

    /// From a Node to its live Peer.
    fn peers(&self) -> &dyn PeerResolver;

    /// Removes a Node from the mesh.
    fn commander(&self) -> &dyn PeerCommander;
}

/// The contract of [`NodeDeregistrar`].
pub fn suite<W: NodeDeregistrarUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::cases().into_iter().chain(outage::cases()))
}

/// The contract of [`TokenReader`], [`PeerResolver`] and [`PeerCommander`].
pub fn seams_suite<W: SeamsUnderTest + 'static>() -> Suite<W> {
    Suite::new(seams::cases().into_iter().chain(outage::seams_cases()))
}

/// A token that was never issued.
fn unknown_token() -> Checked<BootstrapTokenId> {
    Ok(BootstrapTokenId::new(Uuid::from_u128(0x00dd))?)
}
