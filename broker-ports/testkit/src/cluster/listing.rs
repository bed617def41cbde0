//! Many at once: observations, pages of what is ours, and hints.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_ports::{Hints, OwnedObject, OwnedRole, ResourceIds};
use broker_render::FIELD_MANAGER;
use futures_util::StreamExt as _;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        observations_keep_their_order,
        an_observation_shows_what_stands,
        a_forbidden_kind_spoils_only_its_own,
        owned_objects_are_listed_to_the_end,
        owned_pages_do_not_drift_while_objects_go,
        what_carries_our_label_is_listed_whatever_its_name,
        what_is_excepted_hides_nothing_else,
        what_lost_our_label_is_not_listed,
        a_forbidden_listing_is_an_error,
        a_change_gives_a_hint,
    })
}

/// A hint is allowed to take its time, but a watch that says nothing for so long says nothing at all.
const PATIENCE: Duration = Duration::from_secs(30);

async fn observe(
    scene: &Scene<'_>,
    subjects: &[&Subject],
) -> Result<Vec<Result<CachedXr, PortError>>, Violation> {
    let targets: Vec<_> = subjects.iter().map(|subject| subject.xr_target()).collect();
    Ok(scene.cluster.observe_many(&targets).await?)
}

async fn observations_keep_their_order(scene: &Scene<'_>) -> Outcome {
    let (first, missing, second) = (scene.machine()?, scene.machine()?, scene.machine()?);
    let versions = [scene.shell(&second).await?, scene.shell(&first).await?];
    for _ in 0..ROUNDS {
        let seen = observe(scene, &[&second, &missing, &first]).await?;
        require(seen.len() == 3, "there is not one answer for each")?;
        let uid = |index: usize| match &seen[index] {
            Ok(CachedXr::Seen { version, .. }) => Some(version.uid.clone()),
            Ok(CachedXr::Absent) | Err(_) => None,
        };
        let absent = matches!(seen[1], Ok(CachedXr::Absent));
        require(absent, "what nobody made is observed")?;
        if let (Some(second), Some(first)) = (uid(0), uid(2)) {
            let ordered = second == versions[0].uid && first == versions[1].uid;
            return require(ordered, "the answers come in another order");
        }
        scene.world.settle().await;
    }
    Err(Violation::new("what stands is never observed"))
}

async fn an_observation_shows_what_stands(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    scene.composed(&subject).await?;
    for _ in 0..ROUNDS {
        let live = scene.live(&subject).await?;
        let seen = observe(scene, &[&subject]).await?.into_iter().next().transpose()?;
        let Some(CachedXr::Seen { version, status, armed, owned, references, spec, .. }) = seen
        else {
            scene.world.settle().await;
            continue;
        };
        if &version != live.object.version() {
            scene.world.settle().await;
            continue;
        }
        require(status == live.status, "an observation and a read differ in the status")?;
        let token = Arming::Armed(Armed::Token(subject.token_id));
        require(armed == token, "an observation does not show with what it is armed")?;
        require(references == live.references_digest, "they differ in the references")?;
        require(spec == SpecState::AsApplied, "what was just applied is observed as drifted")?;
        return require(owned == subject.armed()?.digest(), "the digest is over something else");
    }
    Err(Violation::new("what stands is never observed as it stands"))
}

async fn a_forbidden_kind_spoils_only_its_own(scene: &Scene<'_>) -> Outcome {
    let (machine, estate) = (scene.machine()?, scene.resource(Blueprint::Estate)?);
    scene.shell(&machine).await?;
    let limited = scene.world.limited_to(&[Blueprint::Machine.kind()]).await?;
    for _ in 0..ROUNDS {
        let targets = [estate.xr_target(), machine.xr_target()];
        let seen = limited.observe_many(&targets).await?;
        match &seen[..] {
            [Ok(_), _] => return Err(Violation::new("what is forbidden is observed")),
            [Err(error), _] if error.class() != FailureClass::Rejected => {
                return Err(Violation::new("what is forbidden is not rejected"));
            }
            [Err(_), Ok(CachedXr::Seen { .. })] => return Ok(()),
            _ => scene.world.settle().await,
        }
    }
    Err(Violation::new("a forbidden kind spoils the others"))
}

fn owned(scene: &Scene<'_>) -> Result<OwnedQuery, Violation> {
    let config = config();
    let xrds = vec![scene.machine()?.xrd(), scene.resource(Blueprint::Estate)?.xrd()];
    Ok(OwnedQuery::new(OwnedKinds::new(xrds, vec![(config.api_version, config.kind)])))
}

async fn list(scene: &Scene<'_>) -> Result<BTreeMap<String, OwnedObject>, Violation> {
    list_from(scene, owned(scene)?, BTreeMap::new()).await
}

/// Lists until what is found is what was waited for: a cache may be behind, but not for ever. Answers the last
/// listing either way, so that the case can say what is wrong with it.
async fn list_until(
    scene: &Scene<'_>,
    is_there: impl Fn(&BTreeMap<String, OwnedObject>) -> bool,
) -> Result<BTreeMap<String, OwnedObject>, Violation> {
    for _ in 0..ROUNDS {
        let found = list(scene).await?;
        if is_there(&found) {
            return Ok(found);
        }
        scene.world.settle().await;
    }
    list(scene).await
}

/// Follows the pages to their end, beside what was found before.
async fn list_from(
    scene: &Scene<'_>,
    mut query: OwnedQuery,
    mut found: BTreeMap<String, OwnedObject>,
) -> Result<BTreeMap<String, OwnedObject>, Violation> {
    for _ in 0..1_000 {
        let page = scene.cluster.list_owned(&query).await?;
        for object in page.objects {
            let name = object.reference.to_string();
            let again = found.insert(name, object).is_some();
            require(!again, "an object is listed twice")?;
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(found);
        }
    }
    Err(Violation::new("the pages never end"))
}

async fn owned_objects_are_listed_to_the_end(scene: &Scene<'_>) -> Outcome {
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
    scene.hold(going).await?;
    scene.world.delete_in_background(going).await?;
    let found = list_until(scene, |found| {
        found.get(&going.to_string()).is_some_and(|object| object.deleting)
            && wanted.iter().all(|(reference, ..)| found.contains_key(&reference.to_string()))
    });
    let found = found.await?;
    for (reference, uid, role, resource) in &wanted {
        let object = found.get(&reference.to_string());
        let object = object.ok_or_else(|| Violation::new(format!("{reference} is not listed")))?;
        require(&object.uid == uid && &object.role == role, "an object is listed as another")?;
        require(object.resource == Some(*resource), "an object is listed for another resource")?;
        require(object.deleting == (reference == going), "what goes is not told from what stays")?;
    }
    scene.let_go(going).await
}

/// Whoever leaves out what nobody asks about leaves out nothing else.
async fn what_is_excepted_hides_nothing_else(scene: &Scene<'_>) -> Outcome {
    let (excepted, wanted) = (scene.machine()?, scene.machine()?);
    for subject in [&excepted, &wanted] {
        scene.shell(subject).await?;
        done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    }
    let stranger = stranger(scene, &wanted.reference()?).await?;
    let expected = [wanted.reference()?, wanted.config_reference()?, stranger];
    let ids: ResourceIds = [excepted.identity.resource].into_iter().collect();
    for _ in 0..ROUNDS {
        let query = owned(scene)?.except(ids.clone());
        let found = list_from(scene, query, BTreeMap::new()).await?;
        if expected.iter().all(|object| found.contains_key(&object.to_string())) {
            return Ok(());
        }
        scene.world.settle().await;
    }
    Err(Violation::new("what nobody excepted is never listed"))
}

/// An object of the same kind and place that carries our label, and a name that is none of ours.
async fn stranger(scene: &Scene<'_>, like: &ObjectReference) -> Result<ObjectReference, Violation> {
    let name = format!("of-somebody-{}", scene.world.fresh_id().simple());
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

/// An object that carries our label is ours to report, whatever its name and wherever it stands.
async fn what_carries_our_label_is_listed_whatever_its_name(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let strangers = [
        (stranger(scene, &subject.reference()?).await?, OwnedRole::Xr),
        (stranger(scene, &subject.config_reference()?).await?, OwnedRole::ProviderConfig),
    ];
    let all = |found: &BTreeMap<String, OwnedObject>| {
        strangers.iter().all(|(stranger, _)| found.contains_key(&stranger.to_string()))
    };
    let found = list_until(scene, all).await?;
    for (stranger, role) in &strangers {
        let object = found.get(&stranger.to_string());
        let object = object.ok_or_else(|| Violation::new(format!("{stranger} is not listed")))?;
        require(object.role == *role, "it is listed as another")?;
        require(object.resource.is_none(), "it is listed for a resource")?;
    }
    Ok(())
}

/// Whoever counts objects instead of remembering the last one leaves some out when others go.
async fn owned_pages_do_not_drift_while_objects_go(scene: &Scene<'_>) -> Outcome {
    let mut standing = Vec::new();
    for _ in 0..9 {
        let subject = scene.machine()?;
        scene.shell(&subject).await?;
        standing.push(subject.reference()?);
    }
    list_until(scene, |found| {
        standing.iter().all(|target| found.contains_key(&target.to_string()))
    })
    .await?;
    let query = owned(scene)?;
    let first = scene.cluster.list_owned(&query).await?;
    let names = |object: OwnedObject| (object.reference.to_string(), object);
    let found: BTreeMap<_, _> = first.objects.into_iter().map(names).collect();
    let listed = |target: &ObjectReference| found.contains_key(&target.to_string());
    let going: Vec<_> = standing.iter().filter(|target| listed(target)).take(2).cloned().collect();
    for target in &going {
        scene.world.delete_in_background(target).await?;
        scene.until_gone(target).await?;
    }
    let Some(next) = first.next else {
        return require(standing.iter().all(listed), "the only page leaves an object out");
    };
    let found = list_from(scene, query.after(next), found).await?;
    for target in standing.iter().filter(|target| !going.contains(target)) {
        let listed = found.contains_key(&target.to_string());
        require(listed, &format!("{target} stood throughout and is not listed"))?;
    }
    Ok(())
}

async fn a_forbidden_listing_is_an_error(scene: &Scene<'_>) -> Outcome {
    scene.shell(&scene.machine()?).await?;
    let query = owned(scene)?;
    let nobody = scene.world.limited_to(&[]).await?;
    require_rejected(nobody.list_owned(&query).await, "a forbidden listing")?;
    // Pages may end between kinds: what is forbidden shows at the latest at the end.
    let limited =
        scene.world.limited_to(&[Blueprint::Machine.kind(), Blueprint::Estate.kind()]).await?;
    let mut query = query;
    for _ in 0..1_000 {
        match limited.list_owned(&query).await {
            Ok(page) if page.next.is_some() => query.after = page.next,
            last => return require_rejected(last, "a listing of which one kind is forbidden"),
        }
    }
    Err(Violation::new("the pages never end"))
}

async fn what_lost_our_label_is_not_listed(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    let reference = subject.reference()?;
    let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    scene.world.patch("kubectl", &reference, &strip).await?;
    let is_listed =
        |found: &BTreeMap<String, OwnedObject>| found.contains_key(&reference.to_string());
    let listed = list_until(scene, |found| !is_listed(found)).await?;
    require(!is_listed(&listed), "what does not carry our label is listed as ours")
}

/// Waits for a hint about a resource.
async fn hint(hints: &mut Hints, about: ProvisionedResourceId) -> Outcome {
    loop {
        match tokio::time::timeout(PATIENCE, hints.next()).await {
            Ok(Some(hint)) if hint == about => return Ok(()),
            Ok(Some(_)) => {}
            Ok(None) => return Err(Violation::new("the hints ended")),
            Err(_) => return Err(Violation::new("a change gives no hint")),
        }
    }
}

/// Each of them for a listener that was not there before.
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
