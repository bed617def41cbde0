//! Direct reads: absence only where the API server said so.

use broker_domain::ProjectId;
use broker_render::{MANAGED_BY_LABEL, Precondition, namespace};
use serde_json::{Value, json};

use super::ClusterUnderTest;
use super::kinds::{Blueprint, config, core_namespace, part};
use super::scene::{FINALIZER, Outcome, Scene, done};
use super::subject::Subject;
use crate::cases::{require, require_rejected};
use broker_ports::{ConditionStatus, Standing, XrReading};

pub(super) async fn the_cluster_is_its_kube_system(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let uid = world.kube_system_uid().await?;
    require(scene.cluster.identity().await?.as_str() == uid, "the identity is another uid")?;
    let reading = scene.read(&scene.machine()?).await?;
    require(reading.cluster.as_str() == uid, "a reading names another cluster")
}

pub(super) async fn an_absent_object_is_absent(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    for blueprint in [Blueprint::Machine, Blueprint::Estate] {
        let reading = scene.read(&scene.resource(blueprint)?).await?;
        require(matches!(reading.xr, XrReading::Absent), "an absent object is not read as absent")?;
        require(reading.provider_config.is_none(), "an absent ProviderConfig is read")?;
        require(reading.labelled.is_empty(), "composed objects of nobody are read")?;
    }
    Ok(())
}

pub(super) async fn an_absent_namespace_is_told_apart(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let never = scene.machine()?.in_project(ProjectId::new(world.fresh_id())?);
    let xr = scene.read(&never).await?.xr;
    require(matches!(xr, XrReading::NamespaceAbsent), "an absent namespace is not told apart")?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    world.remove_namespace(namespace(scene.project).as_str()).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::NamespaceAbsent)).await
}

pub(super) async fn an_absent_kind_is_told_apart(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.resource(Blueprint::Fleeting)?;
    scene.shell(&subject).await?;
    world.remove_kind(&Blueprint::Fleeting.kind()).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::KindAbsent)).await
}

pub(super) async fn a_forbidden_read_is_an_error(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let (standing, missing) = (scene.machine()?, scene.machine()?);
    scene.shell(&standing).await?;
    let nobody = world.limited_to(&[]).await?;
    for subject in [standing, missing] {
        require_rejected(nobody.read(&subject.target()?).await, "a read that is forbidden")?;
    }
    require_rejected(nobody.identity().await, "a look at kube-system that is forbidden")
}

pub(super) async fn half_a_reading_is_an_error(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let every = [Blueprint::Machine.kind(), part(), config(), core_namespace()];
    let all = world.limited_to(&every).await?;
    all.read(&subject.target()?).await?;
    for left_out in [part(), config(), Blueprint::Machine.kind()] {
        let rest: Vec<_> = every.iter().filter(|kind| **kind != left_out).cloned().collect();
        let limited = world.limited_to(&rest).await?;
        let what = format!("a reading without a right on {}", left_out.plural);
        require_rejected(limited.read(&subject.target()?).await, &what)?;
    }
    Ok(())
}

pub(super) async fn a_reading_is_never_stale(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let (subject, later) = (scene.machine()?, scene.machine()?);
    let first = scene.shell(&subject).await?;
    // Whoever keeps what was read has it now.
    scene.live(&subject).await?;
    world.freeze_caches().await?;
    let second = done(scene.apply(subject.shell(2)?, first.unchanged()).await?)?;
    let live = scene.live(&subject).await?;
    require(live.object.version() == &second, "a read shows an older version")?;
    scene.shell(&later).await?;
    scene.live(&later).await?;
    world.delete_in_background(&later.reference()?).await?;
    scene.until_gone(&later.reference()?).await?;
    let xr = scene.read(&later).await?.xr;
    require(matches!(xr, XrReading::Absent), "a read shows what is gone")
}

pub(super) async fn an_object_without_our_label_is_read(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    world.patch("kubectl", &subject.reference()?, &strip).await?;
    world.patch("kubectl", &subject.config_reference()?, &strip).await?;
    scene.live(&subject).await?;
    let reading = scene.read(&subject).await?;
    require(reading.provider_config.is_some(), "a ProviderConfig without our label is not read")
}

pub(super) async fn conditions_are_read_as_they_stand(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let status = scene.live(&subject).await?.status;
    let nothing = status.ready.is_none() && status.provisioning_failed.is_none();
    require(nothing, "conditions are read that nobody set")?;
    let rows = [
        ("True", ConditionStatus::True, Some("no such size".to_owned())),
        ("False", ConditionStatus::False, None),
        ("Unknown", ConditionStatus::Unknown, None),
    ];
    for (text, expected, failed) in rows {
        set_conditions(&scene, &subject, text, 1).await?;
        let status = scene.live(&subject).await?.status;
        require(status.ready == Some(expected), "Ready is read as something else")?;
        require(status.provisioning_failed == failed, "only True is a failure, in its words")?;
    }
    Ok(())
}

async fn set_conditions(
    scene: &Scene<'_>,
    subject: &Subject,
    status: &str,
    generation: i64,
) -> Outcome {
    let since = "2026-01-02T03:04:05Z";
    let conditions = json!([
        {"type": "Ready", "status": status, "reason": "Said", "lastTransitionTime": since,
         "observedGeneration": generation},
        {"type": "ProvisioningFailed", "status": status, "reason": "Said",
         "lastTransitionTime": since, "message": "no such size"},
    ]);
    let patch = json!({"status": {"conditions": conditions}});
    Ok(scene.world.patch_status(&subject.reference()?, &patch).await?)
}

pub(super) async fn a_stale_generation_shows(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let generation = scene.live(&subject).await?.status.generation;
    set_conditions(&scene, &subject, "True", generation).await?;
    let patch = json!({"spec": {"parameters": {"note": "theirs"}}});
    world.patch("somebody", &subject.reference()?, &patch).await?;
    let status = scene.live(&subject).await?.status;
    require(status.ready_generation == Some(generation), "the condition's generation is lost")?;
    require(status.generation > generation, "a changed spec is no new generation")
}

pub(super) async fn references_are_read(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let before = scene.live(&subject).await?;
    require(before.references.is_empty(), "references are read that nobody made")?;
    let composed = scene.machine()?;
    let part = scene.composed(&composed).await?;
    let live = scene.live(&composed).await?;
    require(live.references == [part].into(), "the composed object is not referred to")?;
    let digest = broker_render::references_digest(&live.references);
    require(live.references_digest == digest, "the digest is over something else")
}

pub(super) async fn recorded_objects_are_read_by_name(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    let standing = subject.part("somewhere-else")?;
    let gone = subject.part("gone")?;
    // It carries no label that could lead to it.
    let object = json!({
        "apiVersion": standing.api_version(), "kind": standing.kind(),
        "metadata": {"name": standing.name(), "namespace": standing.namespace()}, "spec": {},
    });
    world.create(&standing, &object).await?;
    let mut target = subject.target()?;
    target.recorded = [standing.clone(), gone.clone()].into();
    let reading = scene.cluster.read(&target).await?;
    let expected = [(standing, Standing::Present), (gone, Standing::Gone)].into();
    require(reading.recorded == expected, "recorded objects are not read by their names")
}

pub(super) async fn recorded_objects_of_an_absent_kind_are_gone(
    world: &dyn ClusterUnderTest,
) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    let home = namespace(scene.project);
    let recorded = broker_domain::ObjectReference::new(
        "never-served.plexsphere.io/v1",
        "Nothing",
        "recorded",
        Some(home.as_str()),
    )?;
    let mut target = subject.target()?;
    target.recorded = [recorded.clone()].into();
    let reading = scene.cluster.read(&target).await?;
    let gone = reading.recorded == [(recorded, Standing::Gone)].into();
    require(gone, "an object of a kind that does not exist is not gone")
}

pub(super) async fn labelled_objects_are_found(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let (subject, neighbour) = (scene.machine()?, scene.machine()?);
    let part = subject.part("unrecorded")?;
    scene.create_part(&subject, &part, json!([])).await?;
    scene.create_part(&neighbour, &neighbour.part("of-a-neighbour")?, json!([])).await?;
    let reading = scene.read(&subject).await?;
    require(matches!(reading.xr, XrReading::Absent), "an absent composite resource is read")?;
    require(reading.labelled == [part].into(), "what carries the label is not just what is found")
}

pub(super) async fn an_object_that_is_being_deleted_says_so(
    world: &dyn ClusterUnderTest,
) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let reference = subject.reference()?;
    require(!scene.live(&subject).await?.status.deleting, "what stands is read as going")?;
    let hold = json!({"metadata": {"finalizers": [FINALIZER]}});
    world.patch("holder", &reference, &hold).await?;
    world.delete_in_background(&reference).await?;
    require(scene.live(&subject).await?.status.deleting, "what goes is read as staying")?;
    scene.let_go(&reference).await
}
