//! The contract of [`TokenIssuer`].
//!
//! Most cases are races: a worker that lost its lease may still send requests, and an agent may consume its token at
//! any time.

mod concurrency;
mod outage;
mod protocol;
mod rules;

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use broker_ports::{
    BootstrapToken, Issue, IssueRequest, IssuedToken, LeaseEpoch, TokenIssuer, TokenState,
};

use crate::prelude::*;

/// An issuer with the hooks that the suite needs.
#[async_trait]
pub trait TokenIssuerUnderTest: Send + Sync {
    /// The issuer.
    fn issuer(&self) -> &dyn TokenIssuer;

    /// A resource without a token; a new one on each call.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn resource(&self) -> Result<ProvisionedResourceId, PortError>;

    /// An agent enrols with a plaintext, which consumes the token. Returns whether it was admitted.
    ///
    /// # Errors
    ///
    /// Any error is a violation; a token that is not live is not an error.
    async fn consume(&self, plaintext: &BootstrapToken) -> Result<bool, PortError>;

    /// Advances the issuer's time without waiting: with an injected clock or by moving stored times.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn advance(&self, by: Duration) -> Result<(), PortError>;

    /// Makes the issuer's backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// Any error is a violation.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// The contract of [`TokenIssuer`].
pub fn suite<W: TokenIssuerUnderTest + 'static>() -> Suite<W> {
    let cases = [protocol::cases(), rules::cases(), concurrency::cases(), outage::cases()];
    Suite::new(cases.into_iter().flatten())
}

/// One resource, with the requests of workers and agents for its tokens.
struct IssuerFixture<'a> {
    world: &'a dyn TokenIssuerUnderTest,
    resource: ProvisionedResourceId,
    ttl: Duration,
}

impl<'a> IssuerFixture<'a> {
    async fn new(world: &'a dyn TokenIssuerUnderTest) -> Checked<Self> {
        let ttl = world.issuer().ttl_window().await?.max;
        Ok(Self { world, resource: world.resource().await?, ttl })
    }

    fn issuer(&self) -> &'a dyn TokenIssuer {
        self.world.issuer()
    }

    fn request(&self, ordinal: u32, epoch: u64) -> Checked<IssueRequest> {
        let (ordinal, epoch) = (TokenOrdinal::new(ordinal)?, LeaseEpoch::new(epoch));
        Ok(IssueRequest::new(self.resource, ordinal, epoch, self.ttl))
    }

    async fn request_token(&self, ordinal: u32, epoch: u64) -> Checked<Result<Issue, PortError>> {
        Ok(self.issuer().issue(&self.request(ordinal, epoch)?).await)
    }

    async fn issue(&self, ordinal: u32, epoch: u64) -> Checked<IssuedToken> {
        match self.request_token(ordinal, epoch).await?? {
            Issue::Issued(token) => Ok(token),
            Issue::Consumed { id } => Err(Violation::new(format!(
                "ordinal {ordinal} under epoch {epoch} returned consumed token {id}"
            ))),
        }
    }

    async fn require_consumed_response(
        &self,
        ordinal: u32,
        epoch: u64,
    ) -> Checked<BootstrapTokenId> {
        match self.request_token(ordinal, epoch).await?? {
            Issue::Consumed { id } => Ok(id),
            Issue::Issued(token) => Err(Violation::new(format!(
                "ordinal {ordinal} was consumed, and token {} was issued again",
                token.id
            ))),
        }
    }

    async fn require_rejected_issue(&self, ordinal: u32, epoch: u64) -> Outcome {
        let what = format!("an issue of ordinal {ordinal} under epoch {epoch}");
        require_rejected(self.request_token(ordinal, epoch).await?, &what)
    }

    async fn consume(&self, token: &IssuedToken) -> Checked<bool> {
        Ok(self.world.consume(&token.plaintext).await?)
    }

    async fn enrol(&self, token: &IssuedToken) -> Outcome {
        require(self.consume(token).await?, "an agent could not enrol with a live token")
    }

    async fn state(&self, id: BootstrapTokenId) -> Checked<TokenState> {
        let state = self.issuer().state(id).await?;
        state.ok_or_else(|| Violation::new(format!("token {id} was issued and has no state")))
    }

    async fn require_live(&self, token: &IssuedToken) -> Outcome {
        let state = self.state(token.id).await?;
        require(matches!(state, TokenState::Live { .. }), &format!("{} is {state:?}", token.id))
    }

    async fn require_consumed(&self, id: BootstrapTokenId) -> Outcome {
        let state = self.state(id).await?;
        require(matches!(state, TokenState::Consumed { .. }), &format!("{id} is {state:?}"))
    }

    /// Checks that the token is invalidated and no agent can enrol with it.
    async fn require_invalidated(&self, token: &IssuedToken) -> Outcome {
        let state = self.state(token.id).await?;
        require(state == TokenState::Invalidated, &format!("{} is {state:?}", token.id))?;
        require(!self.consume(token).await?, "an invalidated token was consumed")
    }
}
