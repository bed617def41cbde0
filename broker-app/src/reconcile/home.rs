//! Which cluster this replica works on, as its claims say it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker_domain::ClusterId;
use broker_ports::Cluster;

use crate::deadline::Timed;
use crate::error::Error;

/// The cluster as it was last known. Clones share it.
///
/// It only keeps a replica from rows of another cluster. Each pass compares the row's cluster with that of its own
/// reading, so an outdated answer costs a failed pass and decides nothing.
#[derive(Clone, Default)]
pub(crate) struct Home(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    cluster: Option<ClusterId>,
    /// The cluster need not be asked again.
    fresh: bool,
}

impl Home {
    /// The cluster, which is asked if it was not since the last [`refresh`](Self::refresh). If it does not answer, it
    /// is still the one that it was.
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

    /// Has the cluster asked again before the next claim.
    pub(crate) fn refresh(&self) {
        self.lock().fresh = false;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
