//! Cases for readings: an object is read as absent only if the API server reported its absence.

use broker_ports::Presence;

use super::kinds::composed_kind;
use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
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

async fn the_cluster_id_is_the_kube_system_uid(fixture: &Fixture<'_>) -> Outcome {
    let uid = fixture.world.kube_system_uid().await?;
    require(fixture.cluster.identity().await?.as_str() == uid, "the identity is another uid")?;
    let reading = fixture.read(&fixture.machine()?).await?;
    require(reading.cluster.as_str() == uid, "a reading names another cluster")
}

async fn an_absent_object_is_absent(fixture: &Fixture<'_>) -> Outcome {
    for blueprint in [Blueprint::Machine, Blueprint::ClusterScoped] {
        let reading = fixture.read(&fixture.resource(blueprint)?).await?;
        require(matches!(reading.xr, XrReading::Absent), "an absent object is not read as absent")?;
        require(reading.provider_config.is_none(), "an absent ProviderConfig is read")?;
        require(reading.labelled.is_empty(), "foreign composed objects are read")?;
    }
    Ok(())
}

async fn an_absent_namespace_is_distinguished(fixture: &Fixture<'_>) -> Outcome {
    let unplaced = fixture.machine()?.in_project(ProjectId::new(fixture.world.fresh_id())?);
    let xr = fixture.read(&unplaced).await?.xr;
    require(matches!(xr, XrReading::NamespaceAbsent), "an absent namespace is not distinguished")?;
    let (subject, _) = fixture.machine_with_shell().await?;
    fixture.world.remove_namespace(namespace(fixture.project).as_str()).await?;
    fixture.until_read(&subject, |xr| matches!(xr, XrReading::NamespaceAbsent)).await
}

async fn a_forbidden_read_is_an_error(fixture: &Fixture<'_>) -> Outcome {
    let (existing, missing) = (fixture.machine()?, fixture.machine()?);
    fixture.apply_shell(&existing).await?;
    let unprivileged = fixture.world.limited_to(&[]).await?;
    for subject in [existing, missing] {
        require_rejected(unprivileged.read(&subject.target()?).await, "a read that is forbidden")?;
    }
    require_rejected(unprivileged.identity().await, "a forbidden read of kube-system")
}

async fn a_partial_reading_is_an_error(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let kinds =
        [Blueprint::Machine.kind(), composed_kind(), provider_config_kind(), namespace_kind()];
    let all = fixture.world.limited_to(&kinds).await?;
    all.read(&subject.target()?).await?;
    for omitted in [composed_kind(), provider_config_kind(), Blueprint::Machine.kind()] {
        let rest: Vec<_> = kinds.iter().filter(|kind| **kind != omitted).cloned().collect();
        let limited = fixture.world.limited_to(&rest).await?;
        let what = format!("a reading without a right on {}", omitted.plural);
        require_rejected(limited.read(&subject.target()?).await, &what)?;
    }
    Ok(())
}

async fn a_reading_is_never_stale(fixture: &Fixture<'_>) -> Outcome {
    let (subject, later) = (fixture.machine()?, fixture.machine()?);
    let first = fixture.apply_shell(&subject).await?;
    // Fills the cache of an adapter that caches readings.
    fixture.live(&subject).await?;
    fixture.world.freeze_caches().await?;
    let second = applied_version(fixture.apply(subject.shell(2)?, first.unchanged()).await?)?;
    let live = fixture.live(&subject).await?;
    require(live.object.version() == &second, "a read shows an older version")?;
    fixture.apply_shell(&later).await?;
    fixture.live(&later).await?;
    fixture.world.delete_in_background(&later.reference()?).await?;
    fixture.until_removed(&later.reference()?).await?;
    let xr = fixture.read(&later).await?.xr;
    require(matches!(xr, XrReading::Absent), "a read returns a deleted object")
}

async fn an_object_without_our_label_is_read(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    applied_version(fixture.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    let without_label = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    fixture.world.patch("kubectl", &subject.reference()?, &without_label).await?;
    fixture.world.patch("kubectl", &subject.config_reference()?, &without_label).await?;
    fixture.live(&subject).await?;
    let reading = fixture.read(&subject).await?;
    require(reading.provider_config.is_some(), "a ProviderConfig without our label is not read")
}

async fn recorded_objects_are_read_by_name(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let existing = subject.composed_object("somewhere-else")?;
    let gone = subject.composed_object("gone")?;
    let namespace = namespace(fixture.project);
    let of_unserved_kind = ("never-served.plexsphere.io/v1", "Nothing");
    let of_unserved_kind = ObjectReference::new(
        of_unserved_kind.0,
        of_unserved_kind.1,
        "recorded",
        Some(namespace.as_str()),
    )?;
    // Without a label, the object is found by name only.
    let object = json!({
        "apiVersion": existing.api_version(), "kind": existing.kind(),
        "metadata": {"name": existing.name(), "namespace": existing.namespace()}, "spec": {},
    });
    fixture.world.create(&existing, &object).await?;
    let mut target = subject.target()?;
    target.recorded = [existing.clone(), gone.clone(), of_unserved_kind.clone()].into();
    let reading = fixture.cluster.read(&target).await?;
    let gone = [gone, of_unserved_kind].map(|reference| (reference, Presence::Gone));
    let expected = gone.into_iter().chain([(existing, Presence::Present)]).collect();
    require(reading.recorded == expected, "recorded objects are not read by their names")
}

async fn labelled_objects_are_found(fixture: &Fixture<'_>) -> Outcome {
    let (subject, other) = (fixture.machine()?, fixture.machine()?);
    let part = subject.composed_object("unrecorded")?;
    fixture.create_composed(&subject, &part, json!([])).await?;
    fixture.create_composed(&other, &other.composed_object("other-unrecorded")?, json!([])).await?;
    let reading = fixture.read(&subject).await?;
    require(matches!(reading.xr, XrReading::Absent), "an absent composite resource is read")?;
    require(reading.labelled == [part].into(), "the labelled object is not read, or not alone")
}
