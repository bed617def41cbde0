//! Follows a next action to the letter, as a person would who reads nothing else.

use std::sync::atomic::Ordering;

use broker_app::explain::Remedy;
use broker_domain::{ClusterId, MeshRole, ProvisionedResourceId};
use broker_memory::{Behaviour, Part};
use broker_ports::{CloudView, CredentialView, NodeDeregistrar, Resume};
use broker_render::{BLUEPRINT_VERSION_LABEL, Provider};
use broker_testkit::builders::id;
use broker_tests::world::{LEASE, NODE, SIZED, operator, project};
use serde_json::json;

use super::scene::Scene;
use super::scenes::keeper;

/// Does what a remedy says. Answers the resource that is to move on: this one, or the replacement that the
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
            let service = &scene.world.service;
            service.release_brake(&operator(), cluster, *project).await.unwrap();
        }
        Remedy::ResumeEvents(poisoned) => {
            let service = &scene.world.service;
            service.resume_events(&operator(), *poisoned, Resume::Skip).await.unwrap().unwrap();
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
        Remedy::RestoreReference { .. } => restore_references(scene),
        Remedy::AskAgain { .. } | Remedy::GrantRight => scene.world.cluster.allow_everything(),
        Remedy::ReadyNamespace(_) => scene.world.place(true),
        Remedy::CreateNamespace(name) => scene.world.cluster.create_namespace(name),
        Remedy::ReplaceNamespace(name) => {
            scene.world.cluster.let_go(&keeper(), "example.org/keeper");
            scene.world.cluster.settle(3);
            scene.world.cluster.create_namespace(name);
        }
        Remedy::InstallKind { .. } | Remedy::AlignSchema => publish_again(scene),
        Remedy::ReachCluster => scene.world.cluster.bring_back(),
        Remedy::RenewCredentials => scene.world.cluster.log_in(),
        Remedy::ConnectTo(cluster) => {
            let cluster: &ClusterId = cluster;
            scene.world.cluster.swap_identity(cluster.clone());
        }
        Remedy::MendWebhook => scene.world.cluster.stop_denying("Machine"),
        // Whoever wrote does not any more; from there the broker's own apply settles it.
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
            scene.world.cluster.let_go(object, finalizer);
        }
        other => panic!("nobody knows how to follow {}", other.kind()),
    }
    id
}

/// Service and replica get what they should have had.
fn mend(scene: &mut Scene) {
    scene.mend_collaborators();
    publish_again(scene);
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

fn restore_references(scene: &Scene) {
    let neighbours = &scene.world.neighbours;
    let provider = Provider::new("hetzner").unwrap();
    neighbours.add_resource(project(), id(2));
    neighbours.add_cloud(CloudView::new(id(0xc0), provider, r#"{"region":"eu-1"}"#));
    neighbours.add_credential(CredentialView::new(id(4), id(0xc0), "kv", "team/hetzner"));
    neighbours.assign(project(), id(4));
    scene.world.place(true);
    publish_again(scene);
}

fn publish_again(scene: &Scene) {
    let sized = r#"{"parameters":[{"name":"size","type":"string","required":true},
                    {"name":"count","type":"integer","default":1}]}"#;
    let none = r#"{"parameters":[]}"#;
    scene.world.publish(NODE, "Machine", "machines", MeshRole::Node, none);
    scene.world.publish(SIZED, "Cluster", "clusters", MeshRole::Node, sized);
}
