//! Scenes in which something that a resource refers to is the matter.

use broker_domain::Phase;
use broker_memory::BlueprintDocuments;
use broker_render::InjectionStrategy;
use broker_testkit::builders::id;
use broker_tests::world::{NODE, SIZED, World, declaration, project};

use super::super::scene::Scene;
use super::cluster::narrow_xrd;
use super::{calm, ready};

pub(super) async fn blueprint_missing() -> Scene {
    let (world, resource) = ready().await;
    world.neighbours.unpublish(id(NODE));
    Scene::new(world, &resource)
}

pub(super) async fn blueprint_unreadable() -> Scene {
    let (world, resource) = ready().await;
    let documents = BlueprintDocuments {
        xrd: b"kind: Nonsense".to_vec(),
        composition: BlueprintDocuments::composition_named("machines"),
        parameter_schema: br#"{"parameters":[]}"#.to_vec(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: broker_domain::MeshRole::Node,
        composed_kinds: Vec::new(),
    };
    world.neighbours.publish(id(NODE), documents);
    Scene::new(world, &resource)
}

pub(super) async fn credential_missing() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.neighbours.withdraw(project(), id(4));
    scene
}

pub(super) async fn cloud_missing() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.neighbours.remove_cloud(id(0xc0));
    scene
}

pub(super) async fn resource_missing() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.neighbours.remove_resource(id(2));
    scene
}

pub(super) async fn assignment_missing() -> Scene {
    let scene = calm(Phase::Pending).await;
    scene.world.neighbours.displace(project());
    scene
}

/// The blueprint that it was declared from does not take its parameters any more.
pub(super) async fn cannot_render() -> Scene {
    let world = World::new();
    let values = r#"{"size":"small"}"#;
    let declared = world.declare(&declaration(SIZED).with_parameters(values)).await.unwrap();
    let documents = BlueprintDocuments {
        xrd: narrow_xrd().to_string().into_bytes(),
        composition: BlueprintDocuments::composition_named("machines"),
        parameter_schema: br#"{"parameters":[{"name":"size","type":"string"}]}"#.to_vec(),
        injection_strategy: InjectionStrategy::CloudInitUserData,
        mesh_role: broker_domain::MeshRole::Node,
        composed_kinds: Vec::new(),
    };
    world.neighbours.publish(id(SIZED), documents);
    Scene::new(world, &declared)
}
