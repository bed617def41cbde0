//! The cluster of this replica, for its claims.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker_domain::ClusterId;
use broker_ports::Cluster;

use crate::deadline::Timed;
use crate::error::Error;

/// The last known cluster identity. Clones share it.
///
/// It only keeps a replica from claiming rows of another cluster. Each pass compares the row's cluster with its own
/// reading, so a stale identity costs a failed pass and decides nothing.
#[derive(Clone, Default)]
pub(crate) struct Home(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    cluster: Option<ClusterId>,
    /// Set until the next refresh.
    fresh: bool,
}

impl Home {
    /// The cluster's identity, read at most once per [`refresh`](Self::refresh). If the cluster does not answer, the
    /// last known one.
    pub(crate) async fn cluster(&self, port: &Timed<dyn Cluster>) -> Result<ClusterId, Error> {
        let before = {
            let known = self.lock();
            if let Some(cluster) = known.cluster.as_ref().filter(|_| known.fresh) {
                return Ok(cluster.clone());
            }
            known.cluster.clone()
        };
        match (port.read(Cluster::identity).await, before) {
            (Ok(cluster), _) => {
                *self.lock() = Known { cluster: Some(cluster.clone()), fresh: true };
                Ok(cluster)
            }
            (Err(_), Some(before)) => Ok(before),
            (Err(error), None) => Err(error),
        }
    }

    /// Reads the identity again before the next claim.
    pub(crate) fn refresh(&self) {
        self.lock().fresh = false;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
