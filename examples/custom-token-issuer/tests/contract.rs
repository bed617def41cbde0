//! The issuer passes the contract suite of its port, and the program counts the tokens of another issuer.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_embed::TokenIssuer;
use broker_embed::domain::ProvisionedResourceId;
use broker_embed::memory::ManualClock;
use broker_embed::ports::{BootstrapToken, PortError};
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

#[tokio::test]
async fn own_issuer_passes_the_contract_suite() {
    token_issuer::suite().run(async || World::new()).await.assert_passed();
}

#[test]
fn program_counts_one_token() {
    let program = env!("CARGO_BIN_EXE_custom-token-issuer");
    let output = Command::new(program).output().expect("the program");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Ready with 1 token\n");
}
