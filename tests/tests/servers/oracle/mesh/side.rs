//! The two meshes, as a history meets them: what the broker asks, and what agents and time do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_memory::{ManualClock, MemoryMesh, MemoryTokens};
use broker_ports::{NodeDeregistrar, NodeId, TokenIssuer};
use broker_testkit::builders::second;
use broker_testkit::node_deregistrar::NodeDeregistrarUnderTest;
use broker_testkit::token_issuer::TokenIssuerUnderTest;
use secrecy::SecretString;

use crate::servers::pg::neighbours::world::World;

#[async_trait]
pub(super) trait Side: Send + Sync {
    fn issuer(&self) -> &dyn TokenIssuer;

    fn nodes(&self) -> &dyn NodeDeregistrar;

    /// The Node, or why there is none, in words.
    async fn enrol(&self, plaintext: &str) -> Result<NodeId, String>;

    /// Whether the Node got a Peer, or why not.
    async fn join(&self, node: NodeId) -> Result<(), String>;

    async fn leave(&self, node: NodeId);

    async fn advance(&self, by: Duration);
}

pub(super) struct Memory {
    clock: ManualClock,
    tokens: MemoryTokens,
    mesh: MemoryMesh,
}

impl Memory {
    pub(super) fn new() -> Self {
        let clock = ManualClock::at(second(0));
        let tokens = MemoryTokens::seeded(7, Arc::new(clock.clone()));
        let mesh = MemoryMesh::of(&tokens);
        Self { clock, tokens, mesh }
    }
}

#[async_trait]
impl Side for Memory {
    fn issuer(&self) -> &dyn TokenIssuer {
        &self.tokens
    }

    fn nodes(&self) -> &dyn NodeDeregistrar {
        &self.mesh
    }

    async fn enrol(&self, plaintext: &str) -> Result<NodeId, String> {
        self.mesh.enrol(plaintext).map_err(|refused| refused.to_string())
    }

    async fn join(&self, node: NodeId) -> Result<(), String> {
        self.mesh.join(node).map(drop).map_err(|refused| refused.to_string())
    }

    async fn leave(&self, node: NodeId) {
        self.mesh.leave(node);
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

#[async_trait]
impl Side for World {
    fn issuer(&self) -> &dyn TokenIssuer {
        TokenIssuerUnderTest::issuer(self)
    }

    fn nodes(&self) -> &dyn NodeDeregistrar {
        self.deregistrar()
    }

    async fn enrol(&self, plaintext: &str) -> Result<NodeId, String> {
        let plaintext = SecretString::from(plaintext);
        self.mesh.enrol(&plaintext).await.map_err(|refused| refused.to_string())
    }

    async fn join(&self, node: NodeId) -> Result<(), String> {
        self.mesh.join(node).await.map(drop).map_err(|refused| refused.to_string())
    }

    async fn leave(&self, node: NodeId) {
        self.mesh.leave(node).await.unwrap();
    }

    async fn advance(&self, by: Duration) {
        TokenIssuerUnderTest::advance(self, by).await.unwrap();
    }
}
