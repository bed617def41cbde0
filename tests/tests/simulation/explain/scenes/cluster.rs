//! Scenes in which the cluster as such is the matter.

use std::sync::Arc;

use broker_domain::{ClusterId, ObjectReference, Phase};
use broker_memory::{Behaviour, Verb};
use broker_render::{Xrd, namespace};
use broker_tests::world::{SIZED, World, declaration, project};
use serde_json::{Value, json};

use super::super::scene::Scene;
use super::{calm, composing, ready};

pub(super) async fn namespace_not_ready() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.place(false);
    scene
}

pub(super) async fn namespace_absent() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.cluster.terminate_namespace(namespace(project()).as_str());
    scene
}

/// Somebody's object keeps the namespace from going.
pub(super) async fn namespace_terminating() -> Scene {
    let scene = calm(Phase::Pending).await;
    let home = namespace(project());
    let keeper = keeper();
    scene.world.cluster.create_as("kubectl", &keeper, &json!({"spec": {}}));
    scene.world.cluster.hold(&keeper, "example.org/keeper");
    scene.world.cluster.terminate_namespace(home.as_str());
    scene
}

pub(in super::super) fn keeper() -> ObjectReference {
    let home = namespace(project());
    let (api_version, kind) = ("nop.crossplane.io/v1alpha1", "NopResource");
    ObjectReference::new(api_version, kind, "keeper", Some(home.as_str())).unwrap()
}

pub(super) async fn kind_missing() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.cluster.remove_kind("example.org/v1", "Machine");
    scene
}

pub(super) async fn unreachable() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.take_down();
    Scene::new(world, &resource)
}

pub(super) async fn unauthenticated() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.log_out();
    Scene::new(world, &resource)
}

pub(super) async fn wrong() -> Scene {
    let (world, resource) = ready().await;
    world.cluster.swap_identity(ClusterId::new("another-uid").unwrap());
    Scene::new(world, &resource)
}

pub(super) async fn forbidden() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.cluster.forbid(Verb::Patch, "Machine");
    scene.replica.reconcile(scene.id).await.unwrap_err();
    scene
}

/// The XRD on the cluster is another one than the one that was published.
pub(super) async fn schema_refused() -> Scene {
    let world = World::new();
    let narrow = Xrd::parse(narrow_xrd().to_string().as_bytes()).unwrap();
    world.cluster.install_xrd(&Arc::new(narrow));
    let values = r#"{"size":"small"}"#;
    let declared = world.declare(&declaration(SIZED).with_parameters(values)).await.unwrap();
    let scene = Scene::new(world, &declared);
    scene.replica.reconcile(scene.id).await.unwrap_err();
    scene
}

/// An XRD that takes one size only.
pub(in super::super) fn narrow_xrd() -> Value {
    let text = json!({"type": "string"});
    let spec = json!({"userData": text, "parameters": {"type": "object", "properties": {
        "size": {"type": "string", "enum": ["large"]}, "count": {"type": "integer"},
    }}});
    let spec = json!({"spec": {"type": "object", "properties": spec}});
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "clusters.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"kind": "Cluster", "plural": "clusters"},
            "versions": [{
                "name": "v1", "served": true, "referenceable": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": spec}},
            }],
        },
    })
}

pub(super) async fn webhook_refused() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.cluster.deny("Machine", "no machines on Fridays");
    scene.replica.reconcile(scene.id).await.unwrap_err();
    scene
}

/// Somebody changed a value that the broker sends.
pub(super) async fn ownership_conflict() -> Scene {
    let world = World::new();
    let values = r#"{"size":"small"}"#;
    let declared = world.declare(&declaration(SIZED).with_parameters(values)).await.unwrap();
    world.cluster.behave_for(declared.id(), Behaviour::never_ready());
    let resource = world.until(declared.id(), Phase::Provisioning).await;
    rewrite(&world, &world.xr(&resource));
    Scene::new(world, &resource)
}

pub(in super::super) fn rewrite(world: &World, xr: &ObjectReference) {
    world.cluster.patch_as("kubectl", xr, &json!({"spec": {"parameters": {"size": "huge"}}}));
}

/// The row is older than what stands: its store was restored from a backup.
pub(super) async fn arming_foreign() -> Scene {
    let scene = composing(Behaviour::never_ready()).await;
    let other = "00000000-0000-0000-0000-00000000beef";
    let changes = json!({"metadata": {"annotations": {"plexsphere.io/armed": other}}});
    let xr = scene.xr().await;
    scene.world.cluster.patch_as("somebody", &xr, &changes);
    scene
}

/// Someone let it use another Composition, and the broker leaves it at that.
pub(super) async fn composition_foreign() -> Scene {
    let scene = composing(Behaviour::never_ready()).await;
    let changes = json!({"spec": {"crossplane": {"compositionRef": {"name": "another"}}}});
    let xr = scene.xr().await;
    scene.world.cluster.patch_as("kubectl", &xr, &changes);
    scene
}
