//! The state after a pass that ended between shell and arm.

use broker_render::Identity;

use super::{DeclaredResource, Installation};
use crate::crossplane::blueprint::condition;
use crate::crossplane::cluster_port;
use crate::crossplane::requests::Requests;
use crate::failure::OrFail;
use crate::wait::until;

/// The epoch of that pass: lower than the epoch of any replica's pass.
const EPOCH: u64 = 0;

impl Installation {
    /// Creates a shell and waits until Crossplane reports it as paused. No replica may run.
    pub async fn create_shell(&self, resource: &DeclaredResource) {
        let published = self.published.get(&resource.blueprint.slug).map(String::as_str);
        let identity = Identity {
            resource: resource.id,
            project: self.project,
            blueprint_version: published
                .unwrap_or_default()
                .parse()
                .or_fail("the blueprint is not imported"),
        };
        let requests = Requests::for_resource(
            identity,
            &resource.blueprint,
            resource.blueprint.minimal_parameters(),
        );
        requests.apply_shell(&cluster_port(&self.broker), EPOCH).await;
        until("Crossplane to see the shell", || async {
            self.is_reported_paused(resource).await.then_some(())
        })
        .await;
    }

    /// Whether Crossplane's last condition reports the composite resource as paused.
    pub async fn is_reported_paused(&self, resource: &DeclaredResource) -> bool {
        let xr = self.composite(resource).await;
        let synced = xr.as_ref().and_then(|xr| condition(xr, "Synced"));
        synced.is_some_and(|synced| synced["reason"] == "ReconcilePaused")
    }
}
