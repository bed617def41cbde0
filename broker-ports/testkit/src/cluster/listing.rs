//! Cases for observations of many resources, paged listings, and hints.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_ports::{Hints, OwnedObject, OwnedRole, ResourceIds};
use broker_render::FIELD_MANAGER;
use futures_util::StreamExt as _;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        observations_keep_the_order_of_targets,
        an_observation_matches_the_reading,
        a_forbidden_kind_fails_only_its_own_items,
        paged_listing_visits_every_owned_object,
        a_listing_skips_nothing_while_objects_are_deleted,
        a_labelled_object_is_listed_whatever_its_name,
        an_object_without_our_label_is_not_listed,
        a_forbidden_listing_is_an_error,
        a_change_gives_a_hint,
    })
}

/// The timeout for a hint. Hints may be late; a watch that is silent this long is broken.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn observations_keep_the_order_of_targets(scene: &Scene<'_>) -> Outcome {
    let (first, missing, second) = (scene.machine()?, scene.machine()?, scene.machine()?);
    let versions = [scene.shell(&second).await?, scene.shell(&first).await?];
    let targets = [second.xr_target(), missing.xr_target(), first.xr_target()];
    let mut rounds = scene.rounds("an existing object is never observed");
    loop {
        let seen = scene.cluster.observe_many(&targets).await?;
        let [second, Ok(CachedXr::Absent), first] = &seen[..] else {
            return Err(Violation::new(
                "a missing object is observed, or there are not three results",
            ));
        };
        if let [
            Ok(CachedXr::Present { version: second, .. }),
            Ok(CachedXr::Present { version: first, .. }),
        ] = [second, first]
        {
            let ordered = second.uid == versions[0].uid && first.uid == versions[1].uid;
            return require(ordered, "the results are in another order");
        }
        rounds.wait().await?;
    }
}

async fn an_observation_matches_the_reading(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let part = scene.composed(&subject).await?;
    let referred = scene.live(&subject).await?.references;
    require(referred == [part].into(), "the composed object is not referred to")?;
    let mut rounds = scene.rounds("an existing object is never observed in its state");
    loop {
        let live = scene.live(&subject).await?;
        let seen = scene.cluster.observe_many(&[subject.xr_target()]).await?;
        if let [Ok(CachedXr::Present { version, status, armed, owned, references, spec, .. })] =
            &seen[..]
            && version == live.object.version()
        {
            require(*status == live.status, "an observation and a read differ in the status")?;
            let token = Arming::Armed(Armed::Token(subject.token_id));
            require(*armed == token, "an observation has another arming")?;
            require(*references == live.references_digest, "they differ in the references")?;
            let applied = *spec == SpecState::AsApplied;
            require(applied, "a new apply is observed as drifted")?;
            let digest = subject.armed()?.digest();
            return require(*owned == digest, "the digest is over something else");
        }
        rounds.wait().await?;
    }
}

async fn a_forbidden_kind_fails_only_its_own_items(scene: &Scene<'_>) -> Outcome {
    let (machine, estate) = (scene.machine()?, scene.resource(Blueprint::Estate)?);
    scene.shell(&machine).await?;
    let limited = scene.world.limited_to(&[Blueprint::Machine.kind()]).await?;
    let targets = [estate.xr_target(), machine.xr_target()];
    let mut rounds = scene.rounds("a forbidden kind spoils the others");
    loop {
        let mut seen = limited.observe_many(&targets).await?.into_iter();
        if let Some(forbidden) = seen.next() {
            require_rejected(forbidden, "an observation of a forbidden kind")?;
        }
        if let Some(Ok(CachedXr::Present { .. })) = seen.next() {
            return Ok(());
        }
        rounds.wait().await?;
    }
}

pub(super) type Listed = BTreeMap<String, OwnedObject>;

/// Queries composite resources of two kinds and ProviderConfigs.
pub(super) fn owned(scene: &Scene<'_>) -> Checked<OwnedQuery> {
    let config = config();
    let xrds = vec![scene.machine()?.xrd(), scene.resource(Blueprint::Estate)?.xrd()];
    Ok(OwnedQuery::new(OwnedKinds::new(xrds, vec![(config.api_version, config.kind)])))
}

/// Lists until the condition holds: a cache may lag but must catch up.
pub(super) async fn list_until(
    scene: &Scene<'_>,
    query: &OwnedQuery,
    is_there: impl Fn(&Listed) -> bool + Send + Sync,
) -> Checked<Listed> {
    let mut rounds = scene.rounds("the expected objects are never listed");
    loop {
        let found = list(&*scene.cluster, query.clone(), Listed::new()).await?;
        if is_there(&found) {
            return Ok(found);
        }
        rounds.wait().await?;
    }
}

/// Follows the pages to the end and adds them to earlier results. No object appears twice.
pub(super) async fn list(
    cluster: &dyn Cluster,
    mut query: OwnedQuery,
    mut found: Listed,
) -> Result<Listed, PortError> {
    for _ in 0..1_000 {
        let page = cluster.list_owned(&query).await?;
        for object in page.objects {
            if let Some(twice) = found.insert(object.reference.to_string(), object) {
                return Err(PortError::rejected(format!("{} is listed twice", twice.reference)));
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(found);
        }
    }
    Err(PortError::rejected("the pages never end"))
}

async fn paged_listing_visits_every_owned_object(scene: &Scene<'_>) -> Outcome {
    let mut wanted = Vec::new();
    for _ in 0..7 {
        let subject = scene.machine()?;
        let version = scene.shell(&subject).await?;
        wanted.push((subject.reference()?, version.uid, OwnedRole::Xr, subject.identity.resource));
        let version = done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
        let config = subject.config_reference()?;
        wanted.push((config, version.uid, OwnedRole::ProviderConfig, subject.identity.resource));
    }
    let going = &wanted[0].0;
    scene.add_finalizer(going).await?;
    scene.world.delete_in_background(going).await?;
    list_until(scene, &owned(scene)?, |found| {
        wanted.iter().all(|(reference, uid, role, resource)| {
            found.get(&reference.to_string()).is_some_and(|object| {
                (&object.uid, object.role, object.resource, object.deleting)
                    == (uid, *role, Some(*resource), reference == going)
            })
        })
    })
    .await?;
    scene.remove_finalizer(going).await
}

/// An object of the same kind and place with the broker's label and a foreign name.
async fn stranger(scene: &Scene<'_>, like: &ObjectReference) -> Checked<ObjectReference> {
    let name = format!("foreign-{}", scene.world.fresh_id().simple());
    let stranger = ObjectReference::new(like.api_version(), like.kind(), &name, like.namespace())?;
    let object = json!({
        "apiVersion": stranger.api_version(),
        "kind": stranger.kind(),
        "metadata": {
            "name": stranger.name(),
            "namespace": stranger.namespace(),
            "labels": {MANAGED_BY_LABEL: FIELD_MANAGER},
        },
        "spec": {},
    });
    scene.world.create(&stranger, &object).await?;
    Ok(stranger)
}

/// Every object with the broker's label is listed, whatever its name and place. A query's exceptions exclude nothing
/// else.
async fn a_labelled_object_is_listed_whatever_its_name(scene: &Scene<'_>) -> Outcome {
    let (excepted, wanted) = (scene.machine()?, scene.machine()?);
    for subject in [&excepted, &wanted] {
        scene.shell(subject).await?;
        done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    }
    let (own, resource) = (wanted.reference()?, Some(wanted.identity.resource));
    let config = wanted.config_reference()?;
    let expected = [
        (stranger(scene, &own).await?, OwnedRole::Xr, None),
        (stranger(scene, &config).await?, OwnedRole::ProviderConfig, None),
        (own, OwnedRole::Xr, resource),
        (config, OwnedRole::ProviderConfig, resource),
    ];
    let ids: ResourceIds = [excepted.identity.resource].into_iter().collect();
    list_until(scene, &owned(scene)?.except(ids), |found| {
        expected.iter().all(|(reference, role, resource)| {
            let listed = found.get(&reference.to_string());
            listed.is_some_and(|it| it.role == *role && it.resource == *resource)
        })
    })
    .await
    .map(drop)
}

/// Offset-based paging would skip objects while others are deleted.
async fn a_listing_skips_nothing_while_objects_are_deleted(scene: &Scene<'_>) -> Outcome {
    let mut standing = Vec::new();
    for _ in 0..9 {
        let subject = scene.machine()?;
        scene.shell(&subject).await?;
        standing.push(subject.reference()?);
    }
    let all = |found: &Listed| standing.iter().all(|it| found.contains_key(&it.to_string()));
    let query = owned(scene)?;
    list_until(scene, &query, all).await?;
    let first = scene.cluster.list_owned(&query).await?;
    let names = |object: OwnedObject| (object.reference.to_string(), object);
    let found: Listed = first.objects.into_iter().map(names).collect();
    let listed = standing.iter().filter(|target| found.contains_key(&target.to_string()));
    for target in listed.take(2) {
        scene.world.delete_in_background(target).await?;
        scene.until_gone(target).await?;
    }
    let Some(next) = first.next else {
        return require(all(&found), "the only page leaves an object out");
    };
    let found = list(&*scene.cluster, query.after(next), found).await?;
    require(all(&found), "an object that existed throughout is not listed")
}

async fn a_forbidden_listing_is_an_error(scene: &Scene<'_>) -> Outcome {
    scene.shell(&scene.machine()?).await?;
    // Pages may end between kinds, so the error may come on a later page.
    let some = [Blueprint::Machine.kind(), Blueprint::Estate.kind()];
    for kinds in [&[][..], &some] {
        let limited = scene.world.limited_to(kinds).await?;
        let answer = list(&*limited, owned(scene)?, Listed::new()).await;
        require_rejected(answer, "a listing of which one kind is forbidden")?;
    }
    Ok(())
}

async fn an_object_without_our_label_is_not_listed(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let reference = subject.reference()?;
    let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    scene.world.patch("kubectl", &reference, &strip).await?;
    let is_not_listed = |found: &Listed| !found.contains_key(&reference.to_string());
    list_until(scene, &owned(scene)?, is_not_listed).await.map(drop)
}

/// Waits for a hint about a resource.
async fn hint(hints: &mut Hints, about: ProvisionedResourceId) -> Outcome {
    loop {
        match tokio::time::timeout(TIMEOUT, hints.next()).await {
            Ok(Some(hint)) if hint == about => return Ok(()),
            Ok(Some(_)) => {}
            Ok(None) => return Err(Violation::new("the hints ended")),
            Err(_) => return Err(Violation::new("a change gives no hint")),
        }
    }
}

/// Each change has a new subscriber.
async fn a_change_gives_a_hint(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let (xr, config) = (subject.reference()?, subject.config_reference()?);
    for change in 0..5 {
        let mut hints = scene.cluster.hints().await?;
        match change {
            0 => drop(scene.shell(&subject).await?),
            1 => scene.world.patch_status(&xr, &json!({"status": {"conditions": []}})).await?,
            2 => scene.world.delete_in_background(&xr).await?,
            3 => drop(scene.apply(subject.provider_config()?, Precondition::Absent).await?),
            _ => scene.world.delete_in_background(&config).await?,
        }
        hint(&mut hints, subject.identity.resource).await?;
    }
    Ok(())
}
