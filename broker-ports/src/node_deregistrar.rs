//! Observe and act: the mesh, known through the token that a Node enrolled with.

mod ids;
mod seams;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;

pub use ids::{NodeId, PeerId};
pub use seams::{Consumer, PeerCommander, PeerResolver, Retired, TokenReader};
#[cfg(feature = "mocks")]
pub use seams::{MockPeerCommander, MockPeerResolver, MockTokenReader};

use crate::error::PortError;

/// Observes and drains the Node of a resource.
///
/// Keyed by the bootstrap token: that is the handle which the broker owns. A Node's own id belongs to the
/// mesh.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait NodeDeregistrar: Send + Sync {
    /// Drains the Node that consumed the token out of the mesh, and marks it so that it cannot come back.
    ///
    /// **Guarantees**: when this returns, no Peer of the Node is live and none can follow, and
    /// [`node_registered`](Self::node_registered) answers no. A token that nobody consumed, a Node without a
    /// Peer and one that was drained before are successes: twice is once.
    ///
    /// **Caller**: calls it before any substrate is deleted, and goes no further on any error.
    ///
    /// # Errors
    ///
    /// Any: nothing is concluded from one but that it may not have happened.
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError>;

    /// Whether the token was consumed and its Node has not been deregistered. A Peer that is not there yet
    /// does not change that.
    ///
    /// **Implementer**: as it is now, from no cache and no replica that may be behind. Asked after the tokens of a
    /// resource were closed, the answer decides whether its substrate may go.
    ///
    /// # Errors
    ///
    /// Any, when the answer is not known: it is never guessed.
    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// The same for many, one answer each, in their order. **Implementer**: one question to the mesh where it
    /// can be; a sweep asks for thousands. **Caller**: takes it as a hint of what needs attention, and asks for one
    /// Node before it acts.
    ///
    /// # Errors
    ///
    /// When no answer could be had at all; what is unknown of one token only is that token's own error, and the
    /// others keep their answers, as the default has it.
    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<bool, PortError>>, PortError> {
        let mut answers = Vec::with_capacity(tokens.len());
        for token in tokens {
            answers.push(self.node_registered(*token).await);
        }
        Ok(answers)
    }
}
