//! The checks before a start: what a replica would otherwise find out late, or never say.

use std::time::Duration;

use broker_domain::{ClusterId, Phase};
use broker_ports::{Cluster, ListQuery, PageSize, PortError, PortName, TokenIssuer, TtlWindow};

use super::Runner;
use crate::config::ConfigError;
use crate::error::Error;

/// Why a replica cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The token issuer does not allow the configured time to live.
    #[error("token_ttl is {ttl:?}; the token issuer allows {:?} to {:?}", .window.min, .window.max)]
    TokenTtl {
        /// What is configured.
        ttl: Duration,
        /// What is allowed.
        window: TtlWindow,
    },
    /// Store, cluster or token issuer failed, or the cluster is the wrong one.
    #[error(transparent)]
    Port(#[from] Error),
}

/// How many resources of each phase are asked which cluster they stand on.
const SAMPLE: u16 = 100;

impl Runner {
    /// Checks that the cluster answers, that the store's resources stand on this cluster, and that the token issuer
    /// allows the configured time to live.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub async fn check(&self) -> Result<(), StartError> {
        let ports = self.reconciler.ports();
        // The sweep of an empty store sends nothing to the cluster, so a replica without its cluster would look healthy.
        let cluster = ports.cluster.read(Cluster::identity).await?;
        self.check_home(&cluster).await?;
        let window = ports.tokens.read(TokenIssuer::ttl_window).await?;
        let ttl = self.config().token_ttl;
        if !window.allows(ttl) {
            return Err(StartError::TokenTtl { ttl, window });
        }
        Ok(())
    }

    /// Refuses a cluster on which none of the store's resources stands: every pass would fail.
    ///
    /// A sample is enough. Resources of several clusters can share a store, and each pass checks its own.
    async fn check_home(&self, cluster: &ClusterId) -> Result<(), Error> {
        let repository = &self.reconciler.ports().repository;
        let mut elsewhere: Option<ClusterId> = None;
        for phase in [Phase::Ready, Phase::Enrolling, Phase::Provisioning] {
            let query = ListQuery::new(PageSize::new(SAMPLE)?).in_phase(phase);
            let page = repository.read(|it| it.list(&query)).await?;
            for resource in &page.resources {
                match resource.substrate().cluster() {
                    Some(own) if own == cluster => return Ok(()),
                    Some(other) => elsewhere = Some(other.clone()),
                    None => {}
                }
            }
        }
        elsewhere.map_or(Ok(()), |other| {
            let message = format!(
                "this is cluster {cluster}, and the resources of the store stand on {other}"
            );
            Err(Error::Port { port: PortName::Cluster, source: PortError::rejected(message) })
        })
    }
}
