//! Observe and act: the mesh, addressed by the bootstrap token that a Node enrolled with.

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
/// The key is the bootstrap token, because the broker owns it. The Node's own id belongs to the mesh.
///
/// **Invariant**: it knows every token of the broker's [`TokenIssuer`](crate::TokenIssuer), so the two belong together:
/// an embedder that replaces one usually replaces both. An unknown token is an error of every method. It never means
/// that no Node enrolled, because then the broker would delete substrate under a live Node.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait NodeDeregistrar: Send + Sync {
    /// Drains the Node that consumed the token out of the mesh, and marks it so that it cannot return. Idempotent.
    ///
    /// **Guarantees**: afterwards no Peer of the Node is live, none can appear, and
    /// [`node_registered`](Self::node_registered) returns `false`. An unconsumed token that the issuer issued, a Node
    /// without a Peer and a drained Node are successes.
    ///
    /// **Caller**: calls it before it deletes any substrate, and stops the teardown on any error.
    ///
    /// # Errors
    ///
    /// Any class; `Rejected` for an unknown token. The caller concludes only that it may not have happened, and retries.
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError>;

    /// Whether the token was consumed and its Node is not deregistered. A Node whose Peer has not appeared yet is
    /// registered.
    ///
    /// **Implementer**: reads the current state, never a cache or a lagging replica. After the tokens of a resource are
    /// closed, the result decides whether its substrate may be deleted.
    ///
    /// # Errors
    ///
    /// Any class, when the state is not known; `Rejected` for an unknown token. The adapter never guesses.
    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError>;

    /// Checks many tokens: one result each, in their order. **Implementer**: sends one request if the mesh supports it,
    /// because a sweep checks thousands. **Caller**: uses the result for triage, and checks one Node with
    /// [`node_registered`](Self::node_registered) before it acts.
    ///
    /// # Errors
    ///
    /// When no result is available at all. A failure for one token is that token's own error; the other results stay
    /// valid. The default does this.
    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<bool, PortError>>, PortError> {
        let mut results = Vec::with_capacity(tokens.len());
        for token in tokens {
            results.push(self.node_registered(*token).await);
        }
        Ok(results)
    }
}
