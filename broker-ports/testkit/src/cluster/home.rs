//! Writes stay at home: whatever is not ours is refused before anybody is asked.

use broker_domain::{ObjectReference, ProjectId};
use broker_render::{Precondition, namespace};
use serde_json::json;

use super::ClusterUnderTest;
use super::kinds::Blueprint;
use super::scene::{Outcome, Scene, at};
use super::subject::Subject;
use crate::Violation;
use crate::cases::{require, require_rejected};
use broker_ports::{ApplyRequest, ObjectVersion};

/// A resource of another Project, whose namespace stands.
async fn neighbour(scene: &Scene<'_>) -> Result<Subject, Violation> {
    let project = ProjectId::new(scene.world.fresh_id())?;
    scene.world.create_namespace(namespace(project).as_str()).await?;
    Ok(scene.machine()?.in_project(project))
}

pub(super) async fn an_apply_for_another_project_is_refused(
    world: &dyn ClusterUnderTest,
) -> Outcome {
    let scene = Scene::new(world).await?;
    let neighbour = neighbour(&scene).await?;
    for manifest in [neighbour.shell(1)?, neighbour.provider_config()?] {
        let target = manifest.reference().clone();
        let answer = scene.apply(manifest, Precondition::Absent).await;
        require_rejected(answer, "an apply into the namespace of another Project")?;
        require(world.object(&target).await?.is_none(), "an apply left its Project")?;
    }
    Ok(())
}

pub(super) async fn a_dry_run_for_another_project_is_refused(
    world: &dyn ClusterUnderTest,
) -> Outcome {
    let scene = Scene::new(world).await?;
    let manifest = neighbour(&scene).await?.shell(1)?;
    let request = ApplyRequest::open(scene.project, manifest, Precondition::Absent);
    let answer = scene.cluster.dry_run(&request).await;
    require_rejected(answer, "a dry run in the namespace of another Project")
}

pub(super) async fn a_deletion_in_another_namespace_is_refused(
    world: &dyn ClusterUnderTest,
) -> Outcome {
    let scene = Scene::new(world).await?;
    let neighbour = neighbour(&scene).await?;
    let project = neighbour.identity.project;
    let request = ApplyRequest::open(project, neighbour.shell(1)?, Precondition::Absent);
    let _ = scene.cluster.apply(&request).await?;
    let target = neighbour.reference()?;
    let version = ObjectVersion::of(&scene.object(&target).await?)?;
    let answer = scene.delete(&target, &version.uid).await;
    require_rejected(answer, "a deletion in the namespace of another Project")?;
    stands(&scene, &target).await
}

pub(super) async fn a_deletion_of_a_foreign_name_is_refused(
    world: &dyn ClusterUnderTest,
) -> Outcome {
    let scene = Scene::new(world).await?;
    let kind = Blueprint::Estate.kind();
    let name = format!("somebodys-{}", world.fresh_id());
    let target = ObjectReference::new(kind.api_version.as_str(), kind.kind.as_str(), name, None)?;
    let object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": target.name()}, "spec": {},
    });
    world.create(&target, &object).await?;
    let version = ObjectVersion::of(&scene.object(&target).await?)?;
    let answer = scene.delete(&target, &version.uid).await;
    require_rejected(answer, "a deletion of an object that is not named like ours")?;
    stands(&scene, &target).await?;
    // Nobody removes a namespace around it.
    Ok(world.delete_in_background(&target).await?)
}

pub(super) async fn a_composed_object_is_never_deleted(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    let version = ObjectVersion::of(&scene.object(&part).await?)?;
    let answer = scene.delete(&part, &version.uid).await;
    require_rejected(answer, "the deletion of a composed object")?;
    stands(&scene, &part).await
}

pub(super) async fn a_namespace_is_never_created(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let project = ProjectId::new(world.fresh_id())?;
    let subject = scene.machine()?.in_project(project);
    for manifest in [subject.shell(1)?, subject.provider_config()?] {
        let request = ApplyRequest::open(project, manifest, Precondition::Absent);
        let answer = scene.cluster.apply(&request).await;
        require_rejected(answer, "an apply into an absent namespace")?;
    }
    let exists = world.namespace_exists(namespace(project).as_str()).await?;
    require(!exists, "an apply created a namespace")
}

pub(super) async fn a_namespace_is_never_deleted(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let home = namespace(scene.project);
    let target = ObjectReference::new("v1", "Namespace", home.as_str(), None)?;
    let answer = scene.delete(&target, "00000000-0000-4000-8000-000000000000").await;
    require_rejected(answer, "the deletion of a namespace")?;
    let subject = scene.machine()?;
    let version = scene.shell(&subject).await?;
    let _ = scene.delete(&subject.reference()?, &version.uid).await?;
    scene.until_gone(&subject.reference()?).await?;
    require(world.namespace_exists(home.as_str()).await?, "a deletion took the namespace along")
}

/// The object stands and is not being deleted.
async fn stands(scene: &Scene<'_>, target: &ObjectReference) -> Outcome {
    let object = scene.object(target).await?;
    let deleting = at(&object, &["metadata", "deletionTimestamp"]).is_some();
    require(!deleting, "a refused deletion happened")
}
