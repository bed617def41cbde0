//! A deregistrar over the three ports of a mesh. Its errors name the port that failed.

use std::sync::Arc;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{
    Consumer, FailureClass, NodeDeregistrar, PeerCommander, PeerResolver, PortError, Retired,
    TokenReader,
};

/// [`NodeDeregistrar`] over the three mesh ports.
pub struct ChainedNodeDeregistrar {
    tokens: Arc<dyn TokenReader>,
    peers: Arc<dyn PeerResolver>,
    commander: Arc<dyn PeerCommander>,
}

/// Lookups of the Peer: a new one may join between lookup and command.
const MAX_LOOKUPS: usize = 3;

impl ChainedNodeDeregistrar {
    /// Combines the three ports.
    pub fn new(
        tokens: Arc<dyn TokenReader>,
        peers: Arc<dyn PeerResolver>,
        commander: Arc<dyn PeerCommander>,
    ) -> Self {
        Self { tokens, peers, commander }
    }

    async fn consumers(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<Option<Consumer>, PortError>>, PortError> {
        let wrap = |error| wrap_port_error("token reader", error);
        let consumers = self.tokens.consumers(tokens).await.map_err(wrap)?;
        if consumers.len() != tokens.len() {
            return Err(PortError::rejected(format!(
                "the token reader returned {} results for {} tokens",
                consumers.len(),
                tokens.len()
            )));
        }
        Ok(consumers.into_iter().map(|consumer| consumer.map_err(wrap)).collect())
    }

    async fn consumer(&self, token: BootstrapTokenId) -> Result<Option<Consumer>, PortError> {
        let mut consumers = self.consumers(&[token]).await?;
        consumers.pop().transpose().map(Option::flatten)
    }
}

#[async_trait]
impl NodeDeregistrar for ChainedNodeDeregistrar {
    async fn deregister(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        let Some(Consumer { node, .. }) = self.consumer(token).await? else { return Ok(()) };
        for _ in 0..MAX_LOOKUPS {
            let peer = self
                .peers
                .live_peer(node)
                .await
                .map_err(|error| wrap_port_error("peer resolver", error))?;
            let retired = self
                .commander
                .retire(node, peer)
                .await
                .map_err(|error| wrap_port_error("peer commander", error))?;
            match retired {
                Retired::Done => return Ok(()),
                Retired::PeerAppeared => {}
            }
        }
        Err(PortError::transient(format!(
            "node {node} got a new peer {MAX_LOOKUPS} times in a row"
        )))
    }

    async fn node_registered(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(self.consumer(token).await?.is_some_and(|consumer| !consumer.deregistered))
    }

    async fn nodes_registered(
        &self,
        tokens: &[BootstrapTokenId],
    ) -> Result<Vec<Result<bool, PortError>>, PortError> {
        let consumers = self.consumers(tokens).await?;
        let registered = |consumer: Result<Option<Consumer>, PortError>| {
            Ok(consumer?.is_some_and(|consumer| !consumer.deregistered))
        };
        Ok(consumers.into_iter().map(registered).collect())
    }
}

fn wrap_port_error(port: &str, error: PortError) -> PortError {
    let message = format!("the {port} failed");
    let wrapped = match error.class() {
        FailureClass::Rejected => PortError::rejected(message),
        FailureClass::Transient => PortError::transient(message),
        FailureClass::Unknown => PortError::unknown(message),
    };
    let wrapped = match error.retry_after() {
        Some(wait) => wrapped.with_retry_after(wait),
        None => wrapped,
    };
    wrapped.with_source(error)
}

#[cfg(test)]
mod tests {
    use broker_domain::BootstrapTokenId;
    use broker_ports::mocks::{MockPeerCommander, MockPeerResolver, MockTokenReader};
    use broker_ports::{NodeId, PeerId};
    use uuid::Uuid;

    use super::*;

    fn node() -> NodeId {
        NodeId::new(Uuid::from_u128(1)).unwrap()
    }

    fn reader_of_consumed_token() -> MockTokenReader {
        let mut tokens = MockTokenReader::new();
        tokens.expect_consumers().returning(|_| Ok(vec![Ok(Some(Consumer::registered(node())))]));
        tokens
    }

    async fn deregister(
        tokens: MockTokenReader,
        peers: MockPeerResolver,
        commander: MockPeerCommander,
    ) -> Result<(), PortError> {
        let token = BootstrapTokenId::new(Uuid::from_u128(7)).unwrap();
        let (tokens, peers, commander) = (Arc::new(tokens), Arc::new(peers), Arc::new(commander));
        ChainedNodeDeregistrar::new(tokens, peers, commander).deregister(token).await
    }

    #[tokio::test]
    async fn error_names_the_failed_port_and_keeps_its_class() {
        let mut tokens = MockTokenReader::new();
        tokens.expect_consumers().returning(|_| Err(PortError::transient("cut")));
        let unused = (MockPeerResolver::new(), MockPeerCommander::new());
        let error = deregister(tokens, unused.0, unused.1).await.unwrap_err();
        assert_eq!(error.to_string(), "the token reader failed");
        assert_eq!(error.class(), FailureClass::Transient);

        let mut peers = MockPeerResolver::new();
        peers.expect_live_peer().returning(|_| Err(PortError::rejected("cut")));
        let error = deregister(reader_of_consumed_token(), peers, MockPeerCommander::new())
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "the peer resolver failed");
        assert_eq!(error.class(), FailureClass::Rejected);

        let (mut peers, mut commander) = (MockPeerResolver::new(), MockPeerCommander::new());
        peers.expect_live_peer().returning(|_| Ok(None));
        commander.expect_retire().returning(|_, _| Err(PortError::unknown("cut")));
        let error = deregister(reader_of_consumed_token(), peers, commander).await.unwrap_err();
        assert_eq!(error.to_string(), "the peer commander failed");
        assert_eq!(error.class(), FailureClass::Unknown);
    }

    #[tokio::test]
    async fn deregister_retries_two_new_peers_and_fails_on_three() {
        for (new_peers, succeeds) in [(2, true), (3, false)] {
            let (mut peers, mut commander) = (MockPeerResolver::new(), MockPeerCommander::new());
            let lookups = if succeeds { new_peers + 1 } else { new_peers };
            let peer = PeerId::new(Uuid::from_u128(2)).unwrap();
            peers.expect_live_peer().times(lookups).returning(move |_| Ok(Some(peer)));
            commander.expect_retire().times(new_peers).returning(|_, _| Ok(Retired::PeerAppeared));
            if succeeds {
                commander.expect_retire().times(1).returning(|_, _| Ok(Retired::Done));
            }
            assert_eq!(
                deregister(reader_of_consumed_token(), peers, commander).await.is_ok(),
                succeeds,
                "{new_peers}"
            );
        }
    }

    #[tokio::test]
    async fn token_reader_with_too_few_results_is_refused() {
        let mut tokens = MockTokenReader::new();
        tokens.expect_consumers().returning(|_| Ok(Vec::new()));
        let unused = (MockPeerResolver::new(), MockPeerCommander::new());
        let error = deregister(tokens, unused.0, unused.1).await.unwrap_err();
        assert_eq!(error.to_string(), "the token reader returned 0 results for 1 tokens");
    }
}
