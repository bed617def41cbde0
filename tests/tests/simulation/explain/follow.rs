//! Follows a next action literally, as an operator would who reads nothing else.

use std::sync::atomic::Ordering;

use broker_app::explain::Remedy;
use broker_domain::{ClusterId, ProvisionedResourceId};
use broker_memory::{Behaviour, Part};
use broker_ports::{BrakeRelease, CloudView, NodeDeregistrar, Redrive, Schedule};
use broker_render::{BLUEPRINT_VERSION_LABEL, Provider};
use broker_testkit::builders::id;
use broker_tests::world::{LEASE, operator, project};
use serde_json::json;

use super::scene::Scene;
use super::scenes::keeper;

/// Executes a remedy. Returns the resource that proceeds: this one, or the replacement that the
/// remedy names.
pub(super) async fn follow(scene: &mut Scene, remedy: &Remedy) -> ProvisionedResourceId {
    let id = scene.id;
    match remedy {
        Remedy::Wait => {
            scene.world.clock.advance(LEASE);
            scene.world.cluster.start(Part::Crossplane);
        }
        Remedy::Resume(paused) => scene.world.service.resume(&operator(), *paused).await.unwrap(),
        Remedy::ReleaseBrake(cluster, project) => {
            let context = operator();
            let released = scene.world.service.release_brake(&context, cluster, *project).await;
            if released.is_err() {
                // The service reads the cluster first, which is unavailable.
                let by = context.attribution().clone();
                let release = BrakeRelease::new(cluster.clone(), *project, Vec::new(), by);
                scene.world.store.release_brake(&release).await.unwrap();
            }
        }
        Remedy::RedriveEvents(poisoned) => {
            let service = &scene.world.service;
            service.redrive_events(&operator(), *poisoned, Redrive::Skip).await.unwrap().unwrap();
        }
        Remedy::LeaveDryRun | Remedy::MendPass | Remedy::MendDraining => mend(scene),
        Remedy::DrainPeer => {
            let token = scene.resource().await.bootstrap_token_id().unwrap();
            scene.world.mesh.deregistrar().deregister(token).await.unwrap();
            mend(scene);
        }
        Remedy::StartReplicas => drop(scene.replica.reconcile(id).await),
        Remedy::UndoChange { object, .. } => {
            let version = scene.world.get(id).await.blueprint_version_id().to_string();
            let undone = json!({"metadata": {"labels": {BLUEPRINT_VERSION_LABEL: version}}});
            scene.world.cluster.patch_as("kubectl", object, &undone);
        }
        Remedy::Replace(old) => return replace(scene, *old).await,
        Remedy::CleanUp(objects) => {
            for object in objects {
                scene.world.cluster.delete_in_background(object);
            }
            let xr = scene.xr().await;
            scene.world.cluster.delete_in_background(&xr);
            scene.world.cluster.settle(20);
        }
        Remedy::RestoreStore => scene.world.store.set_reachable(true),
        Remedy::RestoreCollaborator { .. } => scene.world.neighbours.set_reachable(true),
        Remedy::RestoreReference { what } => restore(scene, what),
        Remedy::AskAgain { .. } | Remedy::GrantRight => scene.world.cluster.allow_everything(),
        Remedy::ReadyNamespace(_) => scene.world.place(true),
        Remedy::CreateNamespace(name) => scene.world.cluster.create_namespace(name),
        Remedy::ReplaceNamespace(name) => {
            scene.world.cluster.remove_finalizer(&keeper(), "example.org/keeper");
            scene.world.cluster.settle(3);
            scene.world.cluster.create_namespace(name);
        }
        Remedy::InstallKind { .. } | Remedy::AlignSchema => scene.world.publish_blueprints(),
        Remedy::ReachCluster => scene.world.cluster.bring_back(),
        Remedy::RenewCredentials => scene.world.cluster.log_in(),
        Remedy::ConnectTo(cluster) => {
            let cluster: &ClusterId = cluster;
            scene.world.cluster.swap_identity(cluster.clone());
        }
        Remedy::MendWebhook => scene.world.cluster.stop_denying("Machine"),
        // The rival has stopped; the broker's own apply repairs the rest.
        Remedy::StopRivals { .. } => behave_well(scene),
        Remedy::DeleteComposite(object) => {
            scene.world.cluster.delete_in_background(object);
            behave_well(scene);
        }
        Remedy::PinComposition { object, composition } => {
            let reference = serde_json::json!({"name": composition.as_str()});
            let change = serde_json::json!({"spec": {"crossplane": {"compositionRef": reference}}});
            scene.world.cluster.patch_as("kubectl", object, &change);
            behave_well(scene);
        }
        Remedy::Unpause(object) => scene.world.cluster.unpause(object),
        Remedy::MendComposition
        | Remedy::MendComposed(_)
        | Remedy::RestoreSecret
        | Remedy::RaiseQuota
        | Remedy::MendProviderConfig(_)
        | Remedy::FinishDeletion(_) => {
            behave_well(scene);
            scene.world.cluster.start(Part::Crossplane);
            scene.world.cluster.start(Part::Provider);
        }
        Remedy::StartProvider { .. } => scene.world.cluster.start(Part::Provider),
        Remedy::LookAtAgent => scene.world.agents_boot.store(true, Ordering::Relaxed),
        Remedy::ReachMesh => scene.world.mesh.set_reachable(true),
        Remedy::RemoveUsage(object) => scene.world.cluster.lift_veto(object),
        Remedy::RemoveFinalizer { object, finalizer } => {
            scene.world.cluster.remove_finalizer(object, finalizer);
        }
        other => panic!("no steps for the action {}", other.kind()),
    }
    id
}

fn mend(scene: &mut Scene) {
    scene.mend_collaborators();
    scene.world.publish_blueprints();
}

fn behave_well(scene: &Scene) {
    scene.world.cluster.behave_for(scene.id, Behaviour::ready_after(0));
}

async fn replace(scene: &mut Scene, old: ProvisionedResourceId) -> ProvisionedResourceId {
    scene.world.agents_boot.store(true, Ordering::Relaxed);
    let replacement = scene.world.service.replace(&operator(), old, None).await.unwrap();
    scene.rounds(12).await;
    scene.id = replacement.id();
    replacement.id()
}

fn restore(scene: &Scene, what: &str) {
    let neighbours = &scene.world.neighbours;
    match what.split_once(' ') {
        Some(("blueprint", _)) => scene.world.publish_blueprints(),
        Some(("credential", _)) => neighbours.assign(project(), id(4)),
        Some(("resource", _)) => neighbours.add_resource(project(), id(2)),
        Some(("the", cloud)) if cloud.starts_with("cloud") => {
            let provider = Provider::new("hetzner").unwrap();
            neighbours.add_cloud(CloudView::new(id(0xc0), provider, r#"{"region":"eu-1"}"#));
        }
        Some(("the", assignment)) if assignment.starts_with("assignment") => {
            scene.world.place(true);
        }
        Some(_) | None => panic!("no remedy restores {what}"),
    }
}
