//! The state after a pass that was cut off between shell and arm.

use broker_render::Identity;

use super::{Installation, Life};
use crate::crossplane::blueprint::condition;
use crate::crossplane::port;
use crate::crossplane::requests::Requests;
use crate::failure::OrFail;
use crate::wait::until;

/// The epoch of the pass that was cut off: older than that of any replica.
const EPOCH: u64 = 0;

impl Installation {
    /// Leaves a shell and waits until Crossplane has seen it. No replica may run.
    pub async fn leave_shell(&self, life: &Life) {
        let published = self.published.get(&life.blueprint.slug).map(String::as_str);
        let identity = Identity {
            resource: life.id,
            project: self.project,
            blueprint_version: published.unwrap_or_default().parse().or_fail("a version's id"),
        };
        let requests =
            Requests::about(identity, &life.blueprint, life.blueprint.least_parameters());
        requests.shell(&port(&self.broker), EPOCH).await;
        until("Crossplane to see the shell", || async {
            self.is_marked_paused(life).await.then_some(())
        })
        .await;
    }

    /// Whether Crossplane's last condition of a composite resource says that it is paused.
    pub async fn is_marked_paused(&self, life: &Life) -> bool {
        let xr = self.composite(life).await;
        let synced = xr.as_ref().and_then(|xr| condition(xr, "Synced"));
        synced.is_some_and(|synced| synced["reason"] == "ReconcilePaused")
    }
}
