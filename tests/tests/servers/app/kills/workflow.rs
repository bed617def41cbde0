//! The workflows during which a replica is killed, and how they continue.

use std::sync::Arc;

use broker_domain::{OnFailure, Phase, ProvisionedResourceId};
use broker_tests::real::{Behaviour, RealWorld};
use broker_tests::world::{NODE, operator};
use broker_tests::{K, until};

use kube::ResourceExt;
use kube::api::DynamicObject;

use super::death::{Asked, Death};
use crate::servers::app::between::Between;

/// A world with its proxies, reused for one death after the other.
pub(super) struct Lane {
    world: Arc<RealWorld>,
    between: Between,
}

impl Lane {
    pub(super) async fn new() -> Self {
        let world = RealWorld::new().await;
        world.crossplane.play_only(world.kinds.of(NODE).0);
        let between = Between::of(&world).await;
        Self { world: Arc::new(world), between }
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
        let objects = self.world.crossplane.everything().await;
        let own = |object: &&DynamicObject| {
            let name = object.name_any();
            let id = name.strip_prefix("pr-").and_then(|name| name.get(..36)).unwrap_or(&name);
            rows.iter().any(|row| row.starts_with(id))
        };
        let said = |object: &DynamicObject| {
            format!("{} {:?} {}", object.name_any(), object.annotations(), object.data["status"])
        };
        let objects: Vec<_> = objects.iter().filter(own).map(said).collect();
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

    /// Whether the workflow is done. A resource that is being replaced may be called Ready
    /// throughout, so its new Node counts.
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

    async fn until_done(self, world: &RealWorld, id: ProvisionedResourceId) {
        until(format!("{self:?} of {id} to be done"), || async {
            self.is_done(world, id).await.then_some(())
        })
        .await;
    }

    pub(super) async fn asks_for(self, lane: &Lane) -> Asked {
        let Lane { world, between } = lane;
        let id = self.begin(world).await;
        let host = between.host();
        let turning = world.keep_turning();
        self.until_done(world, id).await;
        let asked = Asked::of(between);
        host.stop().await;
        drop(turning);
        self.check(world, id).await;
        asked
    }

    /// Runs it with one death. Returns whether the replica died before it was done.
    pub(super) async fn survive(self, lane: &Lane, death: &Death) -> bool {
        let Lane { world, between } = lane;
        let id = self.begin(world).await;
        let mut first = death.of_a_host(between);
        let turning = world.keep_turning();
        let killed = until(format!("{self:?} of {id} to be done or {death}"), || {
            let ended = first.has_ended();
            async move {
                let done = self.is_done(world, id).await;
                (ended || done).then_some(ended)
            }
        })
        .await;
        drop(first);
        between.forget_rules();
        if killed {
            world.expire_leases().await;
            let second = between.host();
            self.until_done(world, id).await;
            second.stop().await;
        }
        drop(turning);
        self.check(world, id).await;
        killed
    }

    /// Checks every invariant, and that no work is left for later replicas.
    async fn check(self, world: &RealWorld, id: ProvisionedResourceId) {
        world.expire_leases().await;
        // A concurrent pass may have had something to store.
        let mut rounds = 0;
        while rounds == 0 || !self.is_done(world, id).await {
            assert!(rounds < K, "{self:?} of {id} is no longer done");
            world.round(id).await.unwrap();
            rounds += 1;
        }
        world.assert_sound(id).await;
        world.assert_still(&[id]).await;
        if world.get(id).await.phase() == Phase::Ready {
            world.service.pause(&operator(), id).await.unwrap();
        }
    }
}
