//! Cases for writes outside of the Project: the adapter rejects them before it sends a request.

use super::deleting::UNUSED_UID;
use super::prelude::*;
use super::refusing::rejection_text;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        an_apply_for_another_project_is_rejected,
        a_deletion_of_a_foreign_object_is_rejected,
        a_namespace_is_never_created,
    })
}

/// A resource of another Project, whose namespace exists.
async fn resource_of_other_project(fixture: &Fixture<'_>) -> Checked<Subject> {
    let project = ProjectId::new(fixture.world.fresh_id())?;
    fixture.world.create_namespace(namespace(project).as_str()).await?;
    Ok(fixture.machine()?.in_project(project))
}

async fn an_apply_for_another_project_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    let other = resource_of_other_project(fixture).await?;
    for manifest in [other.shell(1)?, other.provider_config()?] {
        let target = manifest.reference().clone();
        let request = ApplyRequest::open(fixture.project, manifest, Precondition::Absent);
        let result = fixture.cluster.dry_run(&request).await;
        require_rejected(result, "a dry run in the namespace of another Project")?;
        let result = fixture.cluster.apply(&request).await;
        require_rejected(result, "an apply into the namespace of another Project")?;
        require(fixture.world.object(&target).await?.is_none(), "it exists in another Project")?;
    }
    Ok(())
}

async fn a_deletion_of_a_foreign_object_is_rejected(fixture: &Fixture<'_>) -> Outcome {
    let other = resource_of_other_project(fixture).await?;
    let project = other.identity.project;
    let request = ApplyRequest::open(project, other.shell(1)?, Precondition::Absent);
    applied_version(fixture.cluster.apply(&request).await?)?;
    let kind = Blueprint::ClusterScoped.kind();
    let name = format!("foreign-{}", fixture.world.fresh_id());
    let foreign = ObjectReference::new(kind.api_version.as_str(), kind.kind.as_str(), name, None)?;
    let object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": foreign.name()}, "spec": {},
    });
    fixture.world.create(&foreign, &object).await?;
    for (target, what) in [
        (other.reference()?, "a deletion in the namespace of another Project"),
        (fixture.apply_composed(&fixture.machine()?).await?, "the deletion of a composed object"),
        (foreign.clone(), "the deletion of an object whose name is not a resource name"),
    ] {
        let version = ObjectVersion::of(&fixture.object(&target).await?)?;
        require_rejected(fixture.delete(&target, &version.uid).await, what)?;
        require(!fixture.is_being_deleted(&target).await?, "a refused deletion happened")?;
    }
    // A cluster-scoped object is not cleaned up with a namespace.
    fixture.world.delete_in_background(&foreign).await?;
    let namespace = namespace(fixture.project);
    let target = ObjectReference::new("v1", "Namespace", namespace.as_str(), None)?;
    require_rejected(fixture.delete(&target, UNUSED_UID).await, "the deletion of a namespace")?;
    require(fixture.world.namespace_exists(namespace.as_str()).await?, "the namespace was deleted")
}

async fn a_namespace_is_never_created(fixture: &Fixture<'_>) -> Outcome {
    let project = ProjectId::new(fixture.world.fresh_id())?;
    let subject = fixture.machine()?.in_project(project);
    for manifest in [subject.shell(1)?, subject.provider_config()?] {
        let request = ApplyRequest::open(project, manifest, Precondition::Absent);
        let error = rejection_text(fixture.cluster.apply(&request).await.map(drop))?;
        let names_namespace = error.contains("namespace");
        require(names_namespace, "a refusal does not say that the namespace is missing")?;
    }
    let exists = fixture.world.namespace_exists(namespace(project).as_str()).await?;
    require(!exists, "an apply created a namespace")
}
