//! The workflows during which a replica is killed, and how they continue.

use std::sync::Arc;

use broker_domain::{OnFailure, Phase, ProvisionedResourceId};
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::world::{NODE, operator};
use broker_tests::{K, until};

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::kill_point::{KillPoint, RecordedRequests};
use crate::servers::app::server_proxies::ServerProxies;

/// A world with its proxies, reused for one kill after the other.
pub(super) struct ReusableWorld {
    world: Arc<RealWorld>,
    proxies: ServerProxies,
}

impl ReusableWorld {
    pub(super) async fn new() -> Self {
        let world = RealWorld::new().await;
        world.crossplane.handle_only(world.kinds.of(NODE).0);
        let proxies = ServerProxies::start(&world).await;
        Self { world: Arc::new(world), proxies }
    }

    /// A description of rows and objects, for the analysis of a stuck workflow.
    pub(super) async fn state(&self) -> String {
        let rows: Vec<String> = sqlx::query_scalar(
            "SELECT concat_ws(' ', r.id, r.status, 'version', r.version, 'token', r.token_ordinal,
                r.bootstrap_token_id, row_to_json(s))
            FROM plexsphere.provisioned_resources AS r
            JOIN plexsphere.provisioned_resource_schedule AS s ON s.provisioned_resource_id = r.id
            WHERE NOT s.paused AND r.status <> 'Deleted'",
        )
        .fetch_all(self.world.pool())
        .await
        .unwrap();
        let objects = self.world.crossplane.all_objects().await;
        let own = |object: &&DynamicObject| {
            let name = object.name_any();
            let id = name.strip_prefix("pr-").and_then(|name| name.get(..36)).unwrap_or(&name);
            rows.iter().any(|row| row.starts_with(id))
        };
        let describe = |object: &DynamicObject| {
            format!("{} {:?} {}", object.name_any(), object.annotations(), object.data["status"])
        };
        let objects: Vec<_> = objects.iter().filter(own).map(describe).collect();
        format!("{rows:?}; {objects:?}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workflow {
    Create,
    Rollback,
    Delete,
    Replace,
}

impl Workflow {
    /// A resource just before the workflow begins.
    async fn begin(self, world: &RealWorld) -> ProvisionedResourceId {
        world.forget_requests();
        match self {
            Self::Create => world.declare(&world.declaration(NODE)).await.unwrap().id(),
            Self::Rollback => {
                let declaration = world.declaration(NODE).on_failure(OnFailure::Rollback);
                let declared = world.declare(&declaration).await.unwrap();
                let fails = Behaviour::Failing("quota exceeded".to_owned());
                world.crossplane.behave_for(declared.id(), fails);
                declared.id()
            }
            Self::Delete => {
                let ready = world.declare_until(Phase::Ready, &world.declaration(NODE)).await;
                world.service.deprovision(&operator(), ready.id()).await.unwrap();
                ready.id()
            }
            Self::Replace => {
                let ready = world.declare_until(Phase::Ready, &world.declaration(NODE)).await;
                world.crossplane.delete_by_hand(ready.id()).await;
                ready.id()
            }
        }
    }

    /// Whether the workflow is done. During `Replace` the phase may stay Ready, so the Node of the second token decides.
    async fn is_done(self, world: &RealWorld, id: ProvisionedResourceId) -> bool {
        let resource = world.get(id).await;
        match (self, resource.bootstrap_token_id()) {
            (Self::Create, _) => resource.phase() == Phase::Ready,
            (Self::Rollback | Self::Delete, _) => resource.phase() == Phase::Deleted,
            (Self::Replace, Some(token)) => {
                resource.phase() == Phase::Ready
                    && resource.token_ordinal().get() == 2
                    && world.ports.nodes.node_registered(token).await.unwrap()
            }
            (Self::Replace, None) => false,
        }
    }

    async fn wait_until_done(self, world: &RealWorld, id: ProvisionedResourceId) {
        until(format!("{self:?} of {id} to be done"), || async {
            self.is_done(world, id).await.then_some(())
        })
        .await;
    }

    pub(super) async fn record_requests(self, reusable: &ReusableWorld) -> RecordedRequests {
        let ReusableWorld { world, proxies } = reusable;
        let id = self.begin(world).await;
        let host = proxies.start_host();
        let simulation = world.keep_simulating();
        self.wait_until_done(world, id).await;
        let requests = RecordedRequests::recorded(proxies);
        host.stop().await;
        drop(simulation);
        self.check(world, id).await;
        requests
    }

    /// Runs the workflow with one kill. Returns whether the replica was killed before the workflow was done.
    pub(super) async fn run_with_kill(
        self,
        reusable: &ReusableWorld,
        kill_point: &KillPoint,
    ) -> bool {
        let ReusableWorld { world, proxies } = reusable;
        let id = self.begin(world).await;
        let mut first = kill_point.start_host(proxies);
        let simulation = world.keep_simulating();
        let killed = until(format!("{self:?} of {id} to be done or {kill_point}"), || {
            let ended = first.has_ended();
            async move {
                let done = self.is_done(world, id).await;
                (ended || done).then_some(ended)
            }
        })
        .await;
        drop(first);
        proxies.clear_rules();
        if killed {
            world.expire_leases().await;
            let second = proxies.start_host();
            self.wait_until_done(world, id).await;
            second.stop().await;
        }
        drop(simulation);
        self.check(world, id).await;
        killed
    }

    /// Checks every invariant, and that no work is left for later replicas.
    async fn check(self, world: &RealWorld, id: ProvisionedResourceId) {
        world.expire_leases().await;
        // A killed pass may have left something to store.
        let mut rounds = 0;
        while rounds == 0 || !self.is_done(world, id).await {
            assert!(rounds < K, "{self:?} of {id} is no longer done");
            world.round(id).await.unwrap();
            rounds += 1;
        }
        world.assert_invariants(id).await;
        world.assert_no_work(&[id]).await;
        if world.get(id).await.phase() == Phase::Ready {
            world.service.pause(&operator(), id).await.unwrap();
        }
    }
}
