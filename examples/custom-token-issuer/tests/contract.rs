//! Issuer and mesh pass the contract suites of their ports, and a broker works with both or with none of them.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_embed::domain::{BootstrapTokenId, ProvisionedResourceId, TokenOrdinal};
use broker_embed::memory::{ManualClock, MemoryPlatform};
use broker_embed::ports::{
    BootstrapToken, Issue, IssueRequest, IssuedToken, LeaseEpoch, NodeDeregistrar, PortError,
};
use broker_embed::{ApiUrl, Broker, RequestContext, TokenIssuer, one_line};
use broker_testkit::node_deregistrar::{self, MeshAgents, NodeDeregistrarUnderTest};
use broker_testkit::token_issuer::{self, TokenIssuerUnderTest};
use custom_token_issuer::own::OwnTokens;
use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

/// The issuer and its clock. Each case runs in a new world.
struct World {
    clock: ManualClock,
    tokens: OwnTokens,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::at(OffsetDateTime::UNIX_EPOCH);
        Self { tokens: OwnTokens::new(Arc::new(clock.clone())), clock }
    }

    async fn issue(&self) -> Result<IssuedToken, PortError> {
        let (epoch, hour) = (LeaseEpoch::new(1), Duration::from_secs(3600));
        let resource = self.resource().await?;
        let request = IssueRequest::new(resource, TokenOrdinal::FIRST, epoch, hour);
        match self.tokens.issue(&request).await? {
            Issue::Issued(token) => Ok(token),
            Issue::Consumed { id } => Err(PortError::rejected(format!("{id} is consumed"))),
        }
    }
}

#[async_trait]
impl TokenIssuerUnderTest for World {
    fn issuer(&self) -> &dyn TokenIssuer {
        &self.tokens
    }

    async fn resource(&self) -> Result<ProvisionedResourceId, PortError> {
        Ok(ProvisionedResourceId::new(Uuid::from_u128(rand::random()))?)
    }

    async fn consume(&self, plaintext: &BootstrapToken) -> Result<bool, PortError> {
        self.tokens.consume(plaintext.secret().expose_secret())
    }

    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        self.clock.advance(by);
        Ok(())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.tokens.cut_off();
        Ok(())
    }
}

/// In this mesh each registered Node is a Peer.
#[async_trait]
impl MeshAgents for World {
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError> {
        Ok(self.issue().await?.id)
    }

    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError> {
        let token = self.issue().await?;
        assert!(self.consume(&token.plaintext).await?);
        Ok(token.id)
    }

    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        self.tokens.node_registered(token).await
    }

    async fn leave(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        Ok(())
    }

    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        self.tokens.node_registered(token).await
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        TokenIssuerUnderTest::cut_off(self).await
    }
}

impl NodeDeregistrarUnderTest for World {
    fn deregistrar(&self) -> &dyn NodeDeregistrar {
        &self.tokens
    }
}

#[tokio::test]
async fn own_issuer_and_mesh_pass_the_contract_suites() {
    token_issuer::suite().run(async || World::new()).await.assert_passed();
    node_deregistrar::suite().run(async || World::new()).await.assert_passed();
}

#[tokio::test]
async fn mesh_that_does_not_know_the_tokens_fails_the_pass() {
    let platform = MemoryPlatform::new();
    let parts = Broker::builder(ApiUrl::new("https://mesh.example.org").unwrap())
        .ports(platform.ports())
        .token_issuer(|_| OwnTokens::new(platform.ports().clock))
        .parts()
        .unwrap();
    let ann = RequestContext::operator("user:ann", "req-1").unwrap();
    let machine = parts.service.provision(&ann, &platform.declaration()).await.unwrap().id();
    let mut passes = 0;
    let error = loop {
        platform.turn();
        match parts.reconciler.reconcile(machine).await {
            Ok(_) if passes < 9 => passes += 1,
            result => break result.unwrap_err(),
        }
    };
    let error = one_line(&error);
    assert!(error.contains("the mesh knows no bootstrap token"), "{error}");
}

#[test]
fn program_reaches_ready_and_deleted_with_one_token() {
    let program = env!("CARGO_BIN_EXE_custom-token-issuer");
    let output = Command::new(program).output().expect("the program");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Ready and Deleted with 1 token\n");
}
