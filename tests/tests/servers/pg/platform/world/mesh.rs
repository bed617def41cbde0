//! Changes in the mesh that the broker does not cause: agents come and go, and time passes.

use std::time::Duration;

use async_trait::async_trait;
use broker_domain::{BootstrapTokenId, ProvisionedResourceId};
use broker_pg::{EnrolError, JoinError};
use broker_ports::{
    BootstrapToken, NodeDeregistrar, NodeId, PeerCommander, PeerResolver, PortError, TokenIssuer,
    TokenReader,
};
use broker_testkit::node_deregistrar::{MeshAgents, NodeDeregistrarUnderTest, SeamsUnderTest};
use broker_testkit::token_issuer::TokenIssuerUnderTest;

use super::{World, as_port_error};

impl World {
    pub(in super::super) async fn node_of(
        &self,
        token: BootstrapTokenId,
    ) -> Result<NodeId, PortError> {
        let select = "SELECT consumed_by_node_id FROM plexsphere.bootstrap_tokens WHERE id = $1";
        let select = sqlx::query_scalar(select).bind(token.as_uuid());
        Ok(NodeId::new(self.insert(select).await?)?)
    }
}

#[async_trait]
impl TokenIssuerUnderTest for World {
    fn issuer(&self) -> &dyn TokenIssuer {
        &self.tokens
    }

    async fn resource(&self) -> Result<ProvisionedResourceId, PortError> {
        Ok(Self::new_resource())
    }

    async fn consume(&self, plaintext: &BootstrapToken) -> Result<bool, PortError> {
        match self.mesh.enrol(plaintext.secret()).await {
            Ok(_) => Ok(true),
            Err(EnrolError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// The database's clock cannot be set, so the stored times are moved back.
    async fn advance(&self, by: Duration) -> Result<(), PortError> {
        let shift = "UPDATE plexsphere.bootstrap_tokens
            SET issued_at = issued_at - make_interval(secs => $1),
                expires_at = expires_at - make_interval(secs => $1),
                consumed_at = consumed_at - make_interval(secs => $1),
                invalidated_at = invalidated_at - make_interval(secs => $1)";
        self.execute(sqlx::query(shift).bind(by.as_secs_f64())).await.map(drop)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}

#[async_trait]
impl MeshAgents for World {
    async fn issued_token(&self) -> Result<BootstrapTokenId, PortError> {
        Ok(self.issue(Self::new_resource()).await?.id)
    }

    async fn enrolled_token(&self) -> Result<BootstrapTokenId, PortError> {
        let token = self.issue(Self::new_resource()).await?;
        match self.mesh.enrol(token.plaintext.secret()).await {
            Ok(_) => Ok(token.id),
            Err(refused) => {
                Err(PortError::rejected("a live token was refused").with_source(refused))
            }
        }
    }

    async fn join(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        match self.mesh.join(self.node_of(token).await?).await {
            Ok(_) => Ok(true),
            Err(JoinError::Store(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    async fn leave(&self, token: BootstrapTokenId) -> Result<(), PortError> {
        self.mesh.leave(self.node_of(token).await?).await
    }

    async fn has_peer(&self, token: BootstrapTokenId) -> Result<bool, PortError> {
        let select = "SELECT EXISTS (SELECT FROM plexsphere.peers \
                      WHERE node_id = $1 AND left_at IS NULL)";
        let node = self.node_of(token).await?;
        sqlx::query_scalar(select)
            .bind(node.as_uuid())
            .fetch_one(self.pool())
            .await
            .map_err(as_port_error)
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        self.close_pool().await
    }
}

impl NodeDeregistrarUnderTest for World {
    fn deregistrar(&self) -> &dyn NodeDeregistrar {
        &self.deregistrar
    }
}

impl SeamsUnderTest for World {
    fn tokens(&self) -> &dyn TokenReader {
        &self.mesh
    }

    fn peers(&self) -> &dyn PeerResolver {
        &self.mesh
    }

    fn commander(&self) -> &dyn PeerCommander {
        &self.mesh
    }
}
