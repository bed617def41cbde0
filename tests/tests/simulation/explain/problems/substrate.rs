//! Problems of Crossplane, a provider, the mesh or an operator with kubectl, in convergence and
//! teardown.
#![expect(clippy::wildcard_enum_match_arm, reason = "each function handles its own verdicts")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker_app::explain::Verdict;
use broker_domain::{BootstrapTokenId, Phase};
use broker_memory::{Behaviour, Part};
use broker_ports::{NodeDeregistrar, PortError};
use broker_render::BLUEPRINT_VERSION_LABEL;
use broker_tests::world::operator;
use serde_json::json;

use super::super::fixture::Fixture;

/// More than the time budget of any phase.
const TOO_LONG: Duration = Duration::from_mins(31);

pub(super) async fn create(fixture: &mut Fixture, verdict: Verdict) {
    let (world, cluster) = (&fixture.world, &fixture.world.cluster);
    let (id, xr) = (fixture.id, fixture.xr().await);
    let behave = |behaviour| {
        cluster.behave_for(id, behaviour);
        cluster.settle(3);
    };
    match verdict {
        Verdict::Ready
        | Verdict::Declared
        | Verdict::Provisioning
        | Verdict::Enrolling
        | Verdict::Draining
        | Verdict::RollingBack
        | Verdict::Failed => {}
        Verdict::CompositeMissing => {
            cluster.delete_in_background(&xr);
            cluster.settle(20);
        }
        Verdict::PausedOnCluster => cluster.pause(&xr),
        Verdict::FunctionFailing => behave(Behaviour::unsynced("function-x: undefined size")),
        Verdict::ComposedNotReady => behave(Behaviour::stuck("image \"x\" not found")),
        Verdict::ProviderSecretMissing => {
            behave(Behaviour::stuck("cannot get credentials: Secret \"c\" not found"));
        }
        Verdict::QuotaExceeded => {
            behave(Behaviour::stuck("create failed: quota exceeded for servers"));
        }
        Verdict::CompositeNotReady => {
            // The composed object is ready, and Crossplane no longer reconciles.
            cluster.tick();
            cluster.stop(Part::Crossplane);
            cluster.settle(12);
            world.clock.advance(TOO_LONG);
        }
        Verdict::ProviderSilent => {
            cluster.stop(Part::Provider);
            world.until(id, Phase::Provisioning).await;
            cluster.settle(5);
            world.clock.advance(Duration::from_mins(3));
        }
        Verdict::ProviderConfigMissing => {
            let resource = fixture.resource().await;
            cluster.delete_in_background(resource.substrate().provider_config().unwrap());
            cluster.settle(3);
        }
        Verdict::Drifted => {
            let change = json!({"metadata": {"labels": {BLUEPRINT_VERSION_LABEL: "another"}}});
            cluster.patch_as("kubectl", &xr, &change);
        }
        Verdict::Degraded => {
            behave(Behaviour::unsynced("function-x is gone"));
        }
        Verdict::CompositeBeingDeleted => {
            cluster.stop(Part::Crossplane);
            cluster.delete_in_background(&xr);
        }
        Verdict::NodeLost => {
            let token = fixture.resource().await.bootstrap_token_id().unwrap();
            world.mesh.deregistrar().deregister(token).await.unwrap();
        }
        other => Box::pin(create_in_teardown(fixture, other)).await,
    }
}

/// Creates a problem of a teardown, or ends the teardown.
async fn create_in_teardown(fixture: &mut Fixture, verdict: Verdict) {
    let (world, cluster) = (&fixture.world, &fixture.world.cluster);
    let (id, xr) = (fixture.id, fixture.xr().await);
    let reach_deprovisioning = async || {
        world.until(id, Phase::Deprovisioning).await;
        world.round(id).await.unwrap();
    };
    match verdict {
        Verdict::Deprovisioning => {
            cluster.behave_for(id, Behaviour::ready_after(0).finalizing_after(6));
            cluster.tick();
            reach_deprovisioning().await;
        }
        Verdict::Deleted => drop(world.until(id, Phase::Deleted).await),
        Verdict::Abandoned => {
            let given_up = world.service.abandon(&operator(), id, "the cloud is gone").await;
            assert_eq!(given_up.unwrap().phase(), Phase::Deleted);
        }
        Verdict::PeerWillNotDrain => {
            fixture.replica =
                world.replica_with("replica-1", |ports| ports.nodes = Arc::new(NeverDrainingMesh));
            fixture.reconfigure_service(|ports, _| ports.nodes = Arc::new(NeverDrainingMesh));
            fixture.run_rounds(2).await;
            fixture.world.clock.advance(TOO_LONG);
        }
        Verdict::Usage => {
            let message = "This resource is in-use by 1 usage(s), including the Usage \"db\"";
            cluster.veto(&xr, message);
        }
        Verdict::ForeignFinalizer => {
            cluster.add_finalizer(&xr, "example.org/backup");
            reach_deprovisioning().await;
        }
        Verdict::ComposedRemains => {
            cluster.stop(Part::Provider);
            reach_deprovisioning().await;
            cluster.settle(5);
            world.clock.advance(TOO_LONG);
        }
        Verdict::CompositeRemains => {
            cluster.stop(Part::Crossplane);
            reach_deprovisioning().await;
            cluster.settle(8);
            world.clock.advance(TOO_LONG);
        }
        other => panic!("{other} has no fixture"),
    }
}

/// A mesh that reports a successful drain without draining.
struct NeverDrainingMesh;

#[async_trait]
impl NodeDeregistrar for NeverDrainingMesh {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        Ok(())
    }

    async fn node_registered(&self, _: BootstrapTokenId) -> Result<bool, PortError> {
        Ok(true)
    }
}
