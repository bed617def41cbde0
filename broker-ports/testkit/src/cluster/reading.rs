//! Cases for readings: absence only if the API server reported it.

use broker_ports::Presence;

use super::kinds::part;
use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        the_cluster_id_is_the_kube_system_uid,
        an_absent_object_is_absent,
        an_absent_namespace_is_distinguished,
        a_forbidden_read_is_an_error,
        a_partial_reading_is_an_error,
        a_reading_is_never_stale,
        an_object_without_our_label_is_read,
        recorded_objects_are_read_by_name,
        labelled_objects_are_found,
    })
}

async fn the_cluster_id_is_the_kube_system_uid(scene: &Scene<'_>) -> Outcome {
    let uid = scene.world.kube_system_uid().await?;
    require(scene.cluster.identity().await?.as_str() == uid, "the identity is another uid")?;
    let reading = scene.read(&scene.machine()?).await?;
    require(reading.cluster.as_str() == uid, "a reading names another cluster")
}

async fn an_absent_object_is_absent(scene: &Scene<'_>) -> Outcome {
    for blueprint in [Blueprint::Machine, Blueprint::Estate] {
        let reading = scene.read(&scene.resource(blueprint)?).await?;
        require(matches!(reading.xr, XrReading::Absent), "an absent object is not read as absent")?;
        require(reading.provider_config.is_none(), "an absent ProviderConfig is read")?;
        require(reading.labelled.is_empty(), "foreign composed objects are read")?;
    }
    Ok(())
}

async fn an_absent_namespace_is_distinguished(scene: &Scene<'_>) -> Outcome {
    let never = scene.machine()?.in_project(ProjectId::new(scene.world.fresh_id())?);
    let xr = scene.read(&never).await?.xr;
    require(matches!(xr, XrReading::NamespaceAbsent), "an absent namespace is not distinguished")?;
    let (subject, _) = scene.existing_objects().await?;
    scene.world.remove_namespace(namespace(scene.project).as_str()).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::NamespaceAbsent)).await
}

async fn a_forbidden_read_is_an_error(scene: &Scene<'_>) -> Outcome {
    let (standing, missing) = (scene.machine()?, scene.machine()?);
    scene.shell(&standing).await?;
    let unprivileged = scene.world.limited_to(&[]).await?;
    for subject in [standing, missing] {
        require_rejected(unprivileged.read(&subject.target()?).await, "a read that is forbidden")?;
    }
    require_rejected(unprivileged.identity().await, "a forbidden read of kube-system")
}

async fn a_partial_reading_is_an_error(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let every = [Blueprint::Machine.kind(), part(), config(), core_namespace()];
    let all = scene.world.limited_to(&every).await?;
    all.read(&subject.target()?).await?;
    for left_out in [part(), config(), Blueprint::Machine.kind()] {
        let rest: Vec<_> = every.iter().filter(|kind| **kind != left_out).cloned().collect();
        let limited = scene.world.limited_to(&rest).await?;
        let what = format!("a reading without a right on {}", left_out.plural);
        require_rejected(limited.read(&subject.target()?).await, &what)?;
    }
    Ok(())
}

async fn a_reading_is_never_stale(scene: &Scene<'_>) -> Outcome {
    let (subject, later) = (scene.machine()?, scene.machine()?);
    let first = scene.shell(&subject).await?;
    // An adapter that caches readings has this one now.
    scene.live(&subject).await?;
    scene.world.freeze_caches().await?;
    let second = done(scene.apply(subject.shell(2)?, first.unchanged()).await?)?;
    let live = scene.live(&subject).await?;
    require(live.object.version() == &second, "a read shows an older version")?;
    scene.shell(&later).await?;
    scene.live(&later).await?;
    scene.world.delete_in_background(&later.reference()?).await?;
    scene.until_gone(&later.reference()?).await?;
    let xr = scene.read(&later).await?.xr;
    require(matches!(xr, XrReading::Absent), "a read returns a deleted object")
}

async fn an_object_without_our_label_is_read(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    scene.world.patch("kubectl", &subject.reference()?, &strip).await?;
    scene.world.patch("kubectl", &subject.config_reference()?, &strip).await?;
    scene.live(&subject).await?;
    let reading = scene.read(&subject).await?;
    require(reading.provider_config.is_some(), "a ProviderConfig without our label is not read")
}

async fn recorded_objects_are_read_by_name(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let standing = subject.part("somewhere-else")?;
    let gone = subject.part("gone")?;
    let home = namespace(scene.project);
    let of_no_kind = ("never-served.plexsphere.io/v1", "Nothing");
    let of_no_kind =
        ObjectReference::new(of_no_kind.0, of_no_kind.1, "recorded", Some(home.as_str()))?;
    // It has no label that leads to it.
    let object = json!({
        "apiVersion": standing.api_version(), "kind": standing.kind(),
        "metadata": {"name": standing.name(), "namespace": standing.namespace()}, "spec": {},
    });
    scene.world.create(&standing, &object).await?;
    let mut target = subject.target()?;
    target.recorded = [standing.clone(), gone.clone(), of_no_kind.clone()].into();
    let reading = scene.cluster.read(&target).await?;
    let gone = [gone, of_no_kind].map(|it| (it, Presence::Gone));
    let expected = gone.into_iter().chain([(standing, Presence::Present)]).collect();
    require(reading.recorded == expected, "recorded objects are not read by their names")
}

async fn labelled_objects_are_found(scene: &Scene<'_>) -> Outcome {
    let (subject, neighbour) = (scene.machine()?, scene.machine()?);
    let part = subject.part("unrecorded")?;
    scene.create_part(&subject, &part, json!([])).await?;
    scene.create_part(&neighbour, &neighbour.part("of-a-neighbour")?, json!([])).await?;
    let reading = scene.read(&subject).await?;
    require(matches!(reading.xr, XrReading::Absent), "an absent composite resource is read")?;
    require(reading.labelled == [part].into(), "the labelled objects differ from those found")
}
