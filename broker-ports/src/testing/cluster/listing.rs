//! Many at once: observations, pages of what is ours, and hints.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_render::{Armed, MANAGED_BY_LABEL, Precondition};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::ClusterUnderTest;
use super::kinds::{Blueprint, config};
use super::scene::{Outcome, ROUNDS, Scene, done};
use super::subject::Subject;
use crate::cluster::{
    Arming, CachedXr, Hints, OwnedKinds, OwnedObject, OwnedQuery, OwnedRole, XrReading,
};
use crate::error::{FailureClass, PortError};
use crate::testing::Violation;
use crate::testing::cases::require;

/// A hint is allowed to take its time, but a watch that says nothing for so long says nothing at all.
const PATIENCE: Duration = Duration::from_secs(30);

async fn observe(
    scene: &Scene<'_>,
    subjects: &[&Subject],
) -> Result<Vec<Result<CachedXr, PortError>>, Violation> {
    let targets: Vec<_> = subjects.iter().map(|subject| subject.xr_target()).collect();
    Ok(scene.cluster.observe_many(&targets).await?)
}

pub(super) async fn observations_keep_their_order(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let (first, missing, second) = (scene.machine()?, scene.machine()?, scene.machine()?);
    let versions = [scene.shell(&second).await?, scene.shell(&first).await?];
    for _ in 0..ROUNDS {
        let seen = observe(&scene, &[&second, &missing, &first]).await?;
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
        world.settle().await;
    }
    Err(Violation::new("what stands is never observed"))
}

pub(super) async fn an_observation_shows_what_stands(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.composed(&subject).await?;
    for _ in 0..ROUNDS {
        let live = scene.live(&subject).await?;
        let seen = observe(&scene, &[&subject]).await?.into_iter().next().transpose()?;
        let Some(CachedXr::Seen { version, status, armed, owned, references }) = seen else {
            world.settle().await;
            continue;
        };
        if &version != live.object.version() {
            world.settle().await;
            continue;
        }
        require(status == live.status, "an observation and a read differ in the status")?;
        let token = Arming::Armed(Armed::Token(subject.token_id));
        require(armed == token, "an observation does not show with what it is armed")?;
        require(references == live.references_digest, "they differ in the references")?;
        return require(owned == subject.armed()?.digest(), "the digest is over something else");
    }
    Err(Violation::new("what stands is never observed as it stands"))
}

pub(super) async fn an_absent_kind_is_observed_as_absent(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.resource(Blueprint::Fleeting)?;
    world.remove_kind(&Blueprint::Fleeting.kind()).await?;
    scene.until_read(&subject, |xr| matches!(xr, XrReading::KindAbsent)).await?;
    let seen = observe(&scene, &[&subject]).await?.into_iter().next().transpose()?;
    require(seen == Some(CachedXr::Absent), "a kind that does not exist is not observed as absent")
}

pub(super) async fn a_forbidden_kind_spoils_only_its_own(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let (machine, estate) = (scene.machine()?, scene.resource(Blueprint::Estate)?);
    scene.shell(&machine).await?;
    let limited = world.limited_to(&[Blueprint::Machine.kind()]).await?;
    for _ in 0..ROUNDS {
        let targets = [estate.xr_target(), machine.xr_target()];
        let seen = limited.observe_many(&targets).await?;
        match &seen[..] {
            [Ok(_), _] => return Err(Violation::new("what is forbidden is observed")),
            [Err(error), _] if error.class() != FailureClass::Rejected => {
                return Err(Violation::new("what is forbidden is not rejected"));
            }
            [Err(_), Ok(CachedXr::Seen { .. })] => return Ok(()),
            _ => world.settle().await,
        }
    }
    Err(Violation::new("a forbidden kind spoils the others"))
}

async fn list(scene: &Scene<'_>) -> Result<BTreeMap<String, OwnedObject>, Violation> {
    let config = config();
    let mut query = OwnedQuery {
        kinds: OwnedKinds {
            xrds: vec![scene.machine()?.xrd(), scene.resource(Blueprint::Estate)?.xrd()],
            provider_configs: vec![(config.api_version, config.kind)],
        },
        after: None,
    };
    let mut found = BTreeMap::new();
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

pub(super) async fn owned_objects_are_listed_to_the_end(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let mut wanted = Vec::new();
    for _ in 0..7 {
        let subject = scene.machine()?;
        let version = scene.shell(&subject).await?;
        wanted.push((subject.reference()?, version.uid, OwnedRole::Xr, subject.identity.resource));
        let version = done(scene.apply(subject.provider_config()?, Precondition::Absent).await?)?;
        let config = subject.target()?.provider_config;
        wanted.push((config, version.uid, OwnedRole::ProviderConfig, subject.identity.resource));
    }
    let going = &wanted[0].0;
    scene.hold(going).await?;
    world.delete_in_background(going).await?;
    let found = list(&scene).await?;
    for (reference, uid, role, resource) in &wanted {
        let object = found.get(&reference.to_string());
        let object = object.ok_or_else(|| Violation::new(format!("{reference} is not listed")))?;
        require(&object.uid == uid && &object.role == role, "an object is listed as another")?;
        require(object.resource == Some(*resource), "an object is listed for another resource")?;
        require(object.deleting == (reference == going), "what goes is not told from what stays")?;
    }
    scene.let_go(going).await
}

pub(super) async fn what_lost_our_label_is_not_listed(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let reference = subject.reference()?;
    let strip = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    world.patch("kubectl", &reference, &strip).await?;
    let listed = list(&scene).await?.contains_key(&reference.to_string());
    require(!listed, "what does not carry our label is listed as ours")
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

pub(super) async fn a_change_gives_a_hint(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    let mut hints = scene.cluster.hints().await?;
    scene.shell(&subject).await?;
    hint(&mut hints, subject.identity.resource).await?;
    drop(hints);
    let mut hints = scene.cluster.hints().await?;
    let patch = json!({"status": {"conditions": []}});
    world.patch_status(&subject.reference()?, &patch).await?;
    hint(&mut hints, subject.identity.resource).await
}

pub(super) async fn a_deletion_gives_a_hint(world: &dyn ClusterUnderTest) -> Outcome {
    let scene = Scene::new(world).await?;
    let subject = scene.machine()?;
    scene.shell(&subject).await?;
    let mut hints = scene.cluster.hints().await?;
    world.delete_in_background(&subject.reference()?).await?;
    hint(&mut hints, subject.identity.resource).await
}
