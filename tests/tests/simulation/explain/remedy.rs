//! Executes the next action of an explanation literally, as an operator would.

use std::sync::atomic::Ordering;

use broker_app::explain::Remedy;
use broker_domain::{ClusterId, ProvisionedResourceId};
use broker_memory::{Behaviour, Part};
use broker_ports::{BrakeRelease, CloudView, CredentialState, NodeDeregistrar, Redrive, Schedule};
use broker_render::{BLUEPRINT_VERSION_LABEL, Provider};
use broker_testkit::builders::{handle, id};
use broker_tests::world::{LEASE, operator, project};
use serde_json::json;

use super::fixture::Fixture;
use super::problems::{HELD, namespace_blocker};

/// Executes a remedy. Returns the resource that proceeds: that of the fixture, or its replacement.
pub(super) async fn execute(fixture: &mut Fixture, remedy: &Remedy) -> ProvisionedResourceId {
    let id = fixture.id;
    match remedy {
        Remedy::Wait => {
            fixture.world.clock.advance(LEASE);
            fixture.world.cluster.start(Part::Crossplane);
        }
        Remedy::Resume(paused) => fixture.world.service.resume(&operator(), *paused).await.unwrap(),
        Remedy::ReleaseBrake(cluster, project) => {
            let context = operator();
            let released = fixture.world.service.release_brake(&context, cluster, *project).await;
            if released.is_err() {
                // The release reads the cluster, which may be unavailable.
                let attribution = context.attribution().clone();
                let release = BrakeRelease::new(cluster.clone(), *project, Vec::new(), attribution);
                fixture.world.store.release_brake(&release).await.unwrap();
            }
        }
        Remedy::RedriveEvents(poisoned) => {
            let service = &fixture.world.service;
            service.redrive_events(&operator(), *poisoned, Redrive::Skip).await.unwrap().unwrap();
        }
        Remedy::LeaveDryRun | Remedy::MendPass | Remedy::MendDraining => {
            repair_collaborators(fixture);
        }
        Remedy::DrainPeer => {
            let token = fixture.resource().await.bootstrap_token_id().unwrap();
            fixture.world.mesh.deregistrar().deregister(token).await.unwrap();
            repair_collaborators(fixture);
        }
        Remedy::StartReplicas => drop(fixture.replica.reconcile(id).await),
        Remedy::UndoChange { object, .. } => {
            let version = fixture.world.get(id).await.blueprint_version_id().to_string();
            let undone = json!({"metadata": {"labels": {BLUEPRINT_VERSION_LABEL: version}}});
            fixture.world.cluster.patch_as("kubectl", object, &undone);
        }
        Remedy::Replace(old) => return replace(fixture, *old).await,
        Remedy::CleanUp(objects) => {
            for object in objects {
                fixture.world.cluster.delete_in_background(object);
            }
            let xr = fixture.xr().await;
            fixture.world.cluster.delete_in_background(&xr);
            fixture.world.cluster.settle(20);
        }
        Remedy::RestoreStore => fixture.world.store.set_reachable(true),
        Remedy::RestoreCollaborator { .. } => fixture.world.platform.set_reachable(true),
        Remedy::RestoreReference { what } => restore(fixture, what),
        Remedy::AskAgain { .. } | Remedy::GrantRight => fixture.world.cluster.allow_everything(),
        Remedy::ReadyNamespace(_) => fixture.world.place(true),
        Remedy::CreateNamespace(name) => fixture.world.cluster.create_namespace(name),
        Remedy::ReplaceNamespace(name) => {
            fixture.world.cluster.remove_finalizer(&namespace_blocker(), "example.org/blocker");
            fixture.world.cluster.settle(3);
            fixture.world.cluster.create_namespace(name);
        }
        Remedy::InstallKind { .. } | Remedy::AlignSchema => fixture.world.publish_blueprints(),
        Remedy::ReachCluster => fixture.world.cluster.bring_back(),
        Remedy::RenewCredentials => fixture.world.cluster.log_in(),
        Remedy::ConnectTo(cluster) => {
            let cluster: &ClusterId = cluster;
            fixture.world.cluster.swap_identity(cluster.clone());
        }
        Remedy::MendWebhook => fixture.world.cluster.stop_denying("Machine"),
        // The rival stops; the next apply of the broker repairs the object.
        Remedy::StopRivals { .. } => repair_composition(fixture),
        Remedy::DeleteComposite(object) => {
            fixture.world.cluster.delete_in_background(object);
            repair_composition(fixture);
        }
        Remedy::PinComposition { object, composition } => {
            let reference = serde_json::json!({"name": composition.as_str()});
            let change = serde_json::json!({"spec": {"crossplane": {"compositionRef": reference}}});
            fixture.world.cluster.patch_as("kubectl", object, &change);
            repair_composition(fixture);
        }
        Remedy::Unpause(object) => fixture.world.cluster.unpause(object),
        Remedy::MendComposition
        | Remedy::MendComposed(_)
        | Remedy::RestoreSecret
        | Remedy::RaiseQuota
        | Remedy::MendProviderConfig(_)
        | Remedy::FinishDeletion(_) => {
            if let Remedy::FinishDeletion(object) = remedy {
                fixture.world.cluster.remove_finalizer(object, HELD);
            }
            repair_composition(fixture);
            fixture.world.cluster.start(Part::Crossplane);
            fixture.world.cluster.start(Part::Provider);
        }
        Remedy::StartProvider { .. } => fixture.world.cluster.start(Part::Provider),
        Remedy::LookAtAgent => fixture.world.agents_boot.store(true, Ordering::Relaxed),
        Remedy::ReachMesh => fixture.world.mesh.set_reachable(true),
        Remedy::RemoveUsage(object) => fixture.world.cluster.lift_veto(object),
        Remedy::RemoveFinalizer { object, finalizer } => {
            fixture.world.cluster.remove_finalizer(object, finalizer);
        }
        other => panic!("no steps for the action {}", other.kind()),
    }
    id
}

fn repair_collaborators(fixture: &mut Fixture) {
    fixture.reset_configuration();
    fixture.world.publish_blueprints();
}

fn repair_composition(fixture: &Fixture) {
    fixture.world.cluster.behave_for(fixture.id, Behaviour::ready_after(0));
}

async fn replace(fixture: &mut Fixture, old: ProvisionedResourceId) -> ProvisionedResourceId {
    fixture.world.agents_boot.store(true, Ordering::Relaxed);
    let replacement = fixture.world.service.replace(&operator(), old, None).await.unwrap();
    fixture.run_rounds(12).await;
    fixture.id = replacement.id();
    replacement.id()
}

fn restore(fixture: &Fixture, what: &str) {
    let platform = &fixture.world.platform;
    match what.split_once(' ') {
        Some(("blueprint", _)) => fixture.world.publish_blueprints(),
        Some(("credential", _)) => {
            platform.set_credential_state(id(4), CredentialState::Active);
            platform.assign(project(), id(4));
        }
        Some(("resource", _)) => platform.add_resource(project(), id(2), handle("web-1")),
        Some(("the", cloud)) if cloud.starts_with("cloud") => {
            let provider = Provider::new("hetzner").unwrap();
            platform.add_cloud(CloudView::new(id(0xc0), provider, r#"{"region":"eu-1"}"#));
        }
        Some(("the", assignment)) if assignment.starts_with("assignment") => {
            fixture.world.place(true);
        }
        Some(_) | None => panic!("no remedy restores {what}"),
    }
}
