//! The contracts of [`NodeDeregistrar`], and of the three seams that the shipped one chains.

mod cases;
mod outage;
mod seams;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{NodeDeregistrar, PeerCommander, PeerResolver, TokenReader};
use uuid::Uuid;

use crate::prelude::*;

/// What happens out there, without the broker's doing. Any error ends the case as a violation.
#[async_trait]
pub trait MeshAgents: Send + Sync {
    /// A token was issued that nobody consumes, another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError>;

    /// A token was issued and an agent consumed it; its Node has no Peer yet. Another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError>;

    /// The Node of the token tries to bring up a Peer: whether it was let.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// The Node's Peer goes away by itself, as on a reboot.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError>;

    /// Whether the Node of the token has a live Peer, by the mesh's own books.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// Cuts deregistrar and seams off for the rest of the case from whatever they talk to: closes their pool,
    /// stops their server.
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

    /// What makes a Node leave.
    fn commander(&self) -> &dyn PeerCommander;
}

/// Every promise of [`NodeDeregistrar`].
pub fn suite<W: NodeDeregistrarUnderTest + 'static>() -> Suite<W> {
    Suite::new(cases::cases().into_iter().chain(outage::cases()))
}

/// Every promise of [`TokenReader`], [`PeerResolver`] and [`PeerCommander`].
pub fn seams_suite<W: SeamsUnderTest + 'static>() -> Suite<W> {
    Suite::new(seams::cases().into_iter().chain(outage::seams_cases()))
}

/// A token that nobody ever issued.
fn unknown_token() -> Checked<BootstrapTokenId> {
    Ok(BootstrapTokenId::new(Uuid::from_u128(0x00dd))?)
}
