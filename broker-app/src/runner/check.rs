//! The start checks: they report a misconfiguration that would otherwise show late or never.

use std::time::Duration;

use broker_domain::{ClusterId, ErrorKind, Phase};
use broker_ports::{Cluster, ListQuery, PageSize, PortError, PortName, TokenIssuer, TtlWindow};

use super::Runner;
use crate::config::ConfigError;
use crate::error::Error;

/// Why a replica cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token issuer does not allow the configured time to live.
    #[error("token_ttl is {ttl:?}; the token issuer allows {:?} to {:?}", .window.min, .window.max)]
    TokenTtl {
        /// The configured time to live.
        ttl: Duration,
        /// The allowed range.
        window: TtlWindow,
    },
    /// Store, cluster or token issuer failed, or the cluster is the wrong one.
    #[error(transparent)]
    Port(#[from] Error),
}

impl StartError {
    /// The kind. A retry without a change helps only if it is [`ErrorKind::Unavailable`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Config(_) | Self::TokenTtl { .. } => ErrorKind::Invalid,
            Self::Port(error) => error.kind(),
        }
    }
}

/// How many resources per phase the start check reads.
const SAMPLE: u16 = 100;

impl Runner {
    /// Checks that the cluster answers, that the store's resources are on this cluster, and that the token issuer allows
    /// the configured time to live.
    ///
    /// # Errors
    ///
    /// [`StartError`] with the first failed check.
    pub async fn check(&self) -> Result<(), StartError> {
        let ports = self.reconciler.ports();
        // A sweep of an empty store does not notice an unreachable cluster.
        let cluster = ports.cluster.read(Cluster::identity).await?;
        self.check_cluster(&cluster).await?;
        let window = ports.tokens.read(TokenIssuer::ttl_window).await?;
        let ttl = self.config().token_ttl;
        if !window.allows(ttl) {
            return Err(StartError::TokenTtl { ttl, window });
        }
        Ok(())
    }

    /// Refuses a cluster that has none of the store's resources, because every pass would fail.
    ///
    /// A sample is enough: resources of several clusters can share a store, and each pass checks its own cluster.
    async fn check_cluster(&self, cluster: &ClusterId) -> Result<(), Error> {
        let repository = &self.reconciler.ports().repository;
        let mut other_cluster: Option<ClusterId> = None;
        for phase in [Phase::Ready, Phase::Enrolling, Phase::Provisioning] {
            let query = ListQuery::new(PageSize::new(SAMPLE)?).in_phase(phase);
            let page = repository.read(|it| it.list(&query)).await?;
            for resource in &page.resources {
                match resource.substrate().cluster() {
                    Some(own) if own == cluster => return Ok(()),
                    Some(other) => other_cluster = Some(other.clone()),
                    None => {}
                }
            }
        }
        other_cluster.map_or(Ok(()), |other| {
            let message =
                format!("this is cluster {cluster}, but the resources of the store are on {other}");
            Err(Error::Port { port: PortName::Cluster, source: PortError::rejected(message) })
        })
    }
}
