//! The identity of the cluster that this replica is connected to, for its claims.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker_domain::ClusterId;
use broker_ports::Cluster;

use crate::deadline::TimedPort;
use crate::error::Error;

/// The last known cluster identity, shared by all clones.
///
/// It only keeps a replica from claiming rows of another cluster. Each pass compares the row's cluster with the one
/// that it reads, so a stale identity costs at most a failed pass.
#[derive(Clone, Default)]
pub(crate) struct HomeCluster(Arc<Mutex<KnownIdentity>>);

#[derive(Default)]
struct KnownIdentity {
    cluster: Option<ClusterId>,
    /// Whether it was read since the last refresh.
    fresh: bool,
}

impl HomeCluster {
    /// The cluster's identity, read at most once per [`refresh`](Self::refresh); the last known one if the cluster does
    /// not answer.
    pub(crate) async fn cluster(&self, port: &TimedPort<dyn Cluster>) -> Result<ClusterId, Error> {
        let last_known = {
            let known = self.lock();
            if let Some(cluster) = known.cluster.as_ref().filter(|_| known.fresh) {
                return Ok(cluster.clone());
            }
            known.cluster.clone()
        };
        match (port.read(Cluster::identity).await, last_known) {
            (Ok(cluster), _) => {
                *self.lock() = KnownIdentity { cluster: Some(cluster.clone()), fresh: true };
                Ok(cluster)
            }
            (Err(_), Some(last_known)) => Ok(last_known),
            (Err(error), None) => Err(error),
        }
    }

    /// Reads the identity again before the next claim.
    pub(crate) fn refresh(&self) {
        self.lock().fresh = false;
    }

    fn lock(&self) -> MutexGuard<'_, KnownIdentity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
