//! One scene for each verdict.

#[path = "scenes/broker.rs"]
mod broker;
#[path = "scenes/cluster.rs"]
mod cluster;
#[path = "scenes/references.rs"]
mod references;
#[path = "scenes/substrate.rs"]
mod substrate;
#[path = "scenes/teardown.rs"]
mod teardown;
#[path = "scenes/tokens.rs"]
mod tokens;

use std::pin::Pin;

use broker_app::explain::Verdict;
use broker_domain::{OnFailure, Phase, ProvisionedResource};
use broker_memory::Behaviour;
use broker_tests::world::{NODE, World, declaration, operator};

pub(super) use broker::{poison, pull_brake};
pub(super) use cluster::{keeper, narrow_xrd, rewrite};

use super::scene::Scene;

/// The scene in which a verdict is right.
pub(super) async fn of(verdict: Verdict) -> Scene {
    // Each by itself on the heap: together they would not fit on a test's stack.
    let scene: Pin<Box<dyn Future<Output = Scene>>> = match verdict {
        Verdict::Ready => Box::pin(calm(Phase::Ready)),
        Verdict::Declared => Box::pin(calm(Phase::Pending)),
        Verdict::Provisioning => Box::pin(composing(Behaviour::ready_after(4))),
        Verdict::Enrolling => Box::pin(calm(Phase::Enrolling)),
        Verdict::Draining => Box::pin(leaving()),
        Verdict::Deprovisioning => Box::pin(teardown::slow()),
        Verdict::RollingBack => Box::pin(failed(OnFailure::Rollback)),
        Verdict::Failed => Box::pin(failed(OnFailure::Retain)),
        Verdict::Deleted => Box::pin(teardown::deleted()),
        Verdict::Abandoned => Box::pin(teardown::abandoned()),
        Verdict::CompositeMissing => Box::pin(substrate::composite_missing()),

        Verdict::RetryPending => Box::pin(broker::retry_pending()),
        Verdict::PassUnderWay => Box::pin(broker::leased()),
        Verdict::LeaseLeftBehind => Box::pin(broker::lease_left_behind()),
        Verdict::PausedHere => Box::pin(broker::paused_here()),
        Verdict::DryRun => Box::pin(broker::dry_run()),
        Verdict::Brake => Box::pin(broker::brake()),
        Verdict::NoReplica => Box::pin(broker::no_replica()),
        Verdict::PassFailing => Box::pin(broker::pass_failing()),
        Verdict::OutboxPoisoned => Box::pin(broker::outbox_poisoned()),
        Verdict::StoreUnreachable => Box::pin(broker::store_unreachable()),
        Verdict::CollaboratorUnreachable => Box::pin(broker::collaborator_unreachable()),
        Verdict::Unknown => Box::pin(broker::unknown()),

        Verdict::BlueprintMissing => Box::pin(references::blueprint_missing()),
        Verdict::BlueprintUnreadable => Box::pin(references::blueprint_unreadable()),
        Verdict::CredentialMissing => Box::pin(references::credential_missing()),
        Verdict::CloudMissing => Box::pin(references::cloud_missing()),
        Verdict::ResourceMissing => Box::pin(references::resource_missing()),
        Verdict::AssignmentMissing => Box::pin(references::assignment_missing()),
        Verdict::CannotRender => Box::pin(references::cannot_render()),

        Verdict::NamespaceNotReady => Box::pin(cluster::namespace_not_ready()),
        Verdict::NamespaceAbsent => Box::pin(cluster::namespace_absent()),
        Verdict::NamespaceTerminating => Box::pin(cluster::namespace_terminating()),
        Verdict::KindMissing => Box::pin(cluster::kind_missing()),
        Verdict::ClusterUnreachable => Box::pin(cluster::unreachable()),
        Verdict::ClusterUnauthenticated => Box::pin(cluster::unauthenticated()),
        Verdict::WrongCluster => Box::pin(cluster::wrong()),
        Verdict::Forbidden => Box::pin(cluster::forbidden()),
        Verdict::SchemaRefused => Box::pin(cluster::schema_refused()),
        Verdict::WebhookRefused => Box::pin(cluster::webhook_refused()),
        Verdict::OwnershipConflict => Box::pin(cluster::ownership_conflict()),
        Verdict::ArmingForeign => Box::pin(cluster::arming_foreign()),
        Verdict::CompositionForeign => Box::pin(cluster::composition_foreign()),

        Verdict::PausedOnCluster => Box::pin(substrate::paused()),
        Verdict::FunctionFailing => {
            Box::pin(composing(Behaviour::unsynced("function-x: undefined size")))
        }
        Verdict::ComposedNotReady => Box::pin(composing(Behaviour::stuck("image \"x\" not found"))),
        Verdict::CompositeNotReady => Box::pin(substrate::composite_not_ready()),
        Verdict::ProviderSilent => Box::pin(substrate::provider_silent()),
        Verdict::ProviderConfigMissing => Box::pin(substrate::provider_config_missing()),
        Verdict::ProviderSecretMissing => {
            Box::pin(composing(Behaviour::stuck("cannot get credentials: Secret \"c\" not found")))
        }
        Verdict::QuotaExceeded => {
            Box::pin(composing(Behaviour::stuck("create failed: quota exceeded for servers")))
        }
        Verdict::Drifted => Box::pin(substrate::drifted()),
        Verdict::Degraded => Box::pin(substrate::degraded()),
        Verdict::CompositeBeingDeleted => Box::pin(substrate::being_deleted()),

        Verdict::NodeNeverCalled => Box::pin(tokens::never_called()),
        Verdict::TokenExpired => Box::pin(tokens::expired()),
        Verdict::TokenInvalid => Box::pin(tokens::invalid()),
        Verdict::NodeLost => Box::pin(tokens::node_lost()),

        Verdict::MeshUnreachable => Box::pin(teardown::mesh_unreachable()),
        Verdict::DeregistrationFailed => Box::pin(teardown::deregistration_failed()),
        Verdict::PeerWillNotDrain => Box::pin(teardown::peer_will_not_drain()),
        Verdict::Usage => Box::pin(teardown::usage()),
        Verdict::ForeignFinalizer => Box::pin(teardown::foreign_finalizer()),
        Verdict::ComposedRemains => Box::pin(teardown::composed_remains()),
        Verdict::CompositeRemains => Box::pin(teardown::composite_remains()),
        other => panic!("{other} has no scene"),
    };
    scene.await
}

async fn calm(phase: Phase) -> Scene {
    let world = World::new();
    let resource = world.brought_to(phase, &declaration(NODE)).await;
    Scene::new(world, &resource)
}

/// In Provisioning, with Crossplane and the provider behaving like this.
pub(super) async fn composing(behaviour: Behaviour) -> Scene {
    let world = World::new();
    let declared = world.declare(&declaration(NODE)).await.unwrap();
    world.cluster.behave_for(declared.id(), behaviour);
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    world.cluster.tick();
    Scene::new(world, &resource)
}

async fn failed(on_failure: OnFailure) -> Scene {
    let world = World::new();
    let declared = world.declare(&declaration(NODE).on_failure(on_failure)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::failing_after(1, "no such machine type"));
    let resource = world.until(declared.id(), Phase::Failed).await;
    Scene::new(world, &resource)
}

/// Ready, and its deletion was just asked for.
async fn leaving() -> Scene {
    let (world, resource) = ready().await;
    world.service.deprovision(&operator(), resource.id()).await.unwrap();
    Scene::new(world, &resource)
}

async fn ready() -> (World, ProvisionedResource) {
    let world = World::new();
    let resource = world.brought_to(Phase::Ready, &declaration(NODE)).await;
    (world, resource)
}
