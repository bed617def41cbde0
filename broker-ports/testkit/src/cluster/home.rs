//! Cases for writes outside of the Project: the adapter rejects them before it sends a request.

use super::deleting::UNUSED_UID;
use super::prelude::*;
use super::refusing::refusal;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        an_apply_for_another_project_is_rejected,
        a_deletion_of_a_foreign_object_is_rejected,
        a_namespace_is_never_created,
    })
}

/// A resource of another Project, whose namespace exists.
async fn neighbour(scene: &Scene<'_>) -> Checked<Subject> {
    let project = ProjectId::new(scene.world.fresh_id())?;
    scene.world.create_namespace(namespace(project).as_str()).await?;
    Ok(scene.machine()?.in_project(project))
}

async fn an_apply_for_another_project_is_rejected(scene: &Scene<'_>) -> Outcome {
    let neighbour = neighbour(scene).await?;
    for manifest in [neighbour.shell(1)?, neighbour.provider_config()?] {
        let target = manifest.reference().clone();
        let request = ApplyRequest::open(scene.project, manifest, Precondition::Absent);
        let answer = scene.cluster.dry_run(&request).await;
        require_rejected(answer, "a dry run in the namespace of another Project")?;
        let answer = scene.cluster.apply(&request).await;
        require_rejected(answer, "an apply into the namespace of another Project")?;
        require(scene.world.object(&target).await?.is_none(), "an apply left its Project")?;
    }
    Ok(())
}

async fn a_deletion_of_a_foreign_object_is_rejected(scene: &Scene<'_>) -> Outcome {
    let neighbour = neighbour(scene).await?;
    let project = neighbour.identity.project;
    let request = ApplyRequest::open(project, neighbour.shell(1)?, Precondition::Absent);
    done(scene.cluster.apply(&request).await?)?;
    let kind = Blueprint::Estate.kind();
    let name = format!("foreign-{}", scene.world.fresh_id());
    let foreign = ObjectReference::new(kind.api_version.as_str(), kind.kind.as_str(), name, None)?;
    let object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": foreign.name()}, "spec": {},
    });
    scene.world.create(&foreign, &object).await?;
    for (target, what) in [
        (neighbour.reference()?, "a deletion in the namespace of another Project"),
        (scene.composed(&scene.machine()?).await?, "the deletion of a composed object"),
        (foreign.clone(), "a deletion of an object that is not named like ours"),
    ] {
        let version = ObjectVersion::of(&scene.object(&target).await?)?;
        require_rejected(scene.delete(&target, &version.uid).await, what)?;
        require(!scene.is_being_deleted(&target).await?, "a refused deletion happened")?;
    }
    // It has no namespace whose removal would clean it up.
    scene.world.delete_in_background(&foreign).await?;
    let home = namespace(scene.project);
    let target = ObjectReference::new("v1", "Namespace", home.as_str(), None)?;
    require_rejected(scene.delete(&target, UNUSED_UID).await, "the deletion of a namespace")?;
    require(scene.world.namespace_exists(home.as_str()).await?, "the namespace was deleted")
}

async fn a_namespace_is_never_created(scene: &Scene<'_>) -> Outcome {
    let project = ProjectId::new(scene.world.fresh_id())?;
    let subject = scene.machine()?.in_project(project);
    for manifest in [subject.shell(1)?, subject.provider_config()?] {
        let request = ApplyRequest::open(project, manifest, Precondition::Absent);
        let error = refusal(scene.cluster.apply(&request).await.map(drop))?;
        let named = error.contains("namespace");
        require(named, "a refusal does not say that the namespace is missing")?;
    }
    let exists = scene.world.namespace_exists(namespace(project).as_str()).await?;
    require(!exists, "an apply created a namespace")
}
