//! Cases for observations of many resources, paged listings, and hints.

use std::collections::BTreeMap;
use std::time::Duration;

use broker_domain::ProvisionedResourceId;
use broker_ports::{Hints, OwnedObject, OwnedRole, ResourceIds};
use broker_render::FIELD_MANAGER;
use futures_util::StreamExt as _;

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
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

/// The timeout for a hint: much longer than the delay of a working watch.
const TIMEOUT: Duration = Duration::from_secs(30);

async fn observations_keep_the_order_of_targets(fixture: &Fixture<'_>) -> Outcome {
    let (first, missing, second) = (fixture.machine()?, fixture.machine()?, fixture.machine()?);
    let versions = [fixture.apply_shell(&second).await?, fixture.apply_shell(&first).await?];
    let targets = [second.xr_target(), missing.xr_target(), first.xr_target()];
    let mut polls = fixture.polls("an existing object is never observed");
    loop {
        let observed = fixture.cluster.observe_many(&targets).await?;
        let [second, Ok(CachedXr::Absent), first] = &observed[..] else {
            return Err(Violation::new(
                "a missing object is observed, or the number of results is not three",
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
        polls.wait().await?;
    }
}

async fn an_observation_matches_the_reading(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let part = fixture.apply_composed(&subject).await?;
    let referred = fixture.live(&subject).await?.references;
    require(referred == [part].into(), "the composed object is not referred to")?;
    let mut polls = fixture.polls("the current version is never observed");
    loop {
        let live = fixture.live(&subject).await?;
        let observed = fixture.cluster.observe_many(&[subject.xr_target()]).await?;
        if let [Ok(CachedXr::Present { version, status, armed, owned, references, spec, .. })] =
            &observed[..]
            && version == live.object.version()
        {
            require(*status == live.status, "an observation and a read differ in the status")?;
            let token = Arming::Armed(Armed::Token(subject.token_id));
            require(*armed == token, "an observation has another arming")?;
            require(*references == live.references_digest, "the references differ from a read")?;
            let applied = *spec == SpecState::AsApplied;
            require(applied, "a new apply is observed as drifted")?;
            let digest = subject.armed()?.digest();
            return require(
                *owned == digest,
                "the observed digest is not that of the applied fields",
            );
        }
        polls.wait().await?;
    }
}

async fn a_forbidden_kind_fails_only_its_own_items(fixture: &Fixture<'_>) -> Outcome {
    let (machine, estate) = (fixture.machine()?, fixture.resource(Blueprint::ClusterScoped)?);
    fixture.apply_shell(&machine).await?;
    let limited = fixture.world.limited_to(&[Blueprint::Machine.kind()]).await?;
    let targets = [estate.xr_target(), machine.xr_target()];
    let mut polls = fixture.polls("a forbidden kind makes the observation of another kind fail");
    loop {
        let mut observed = limited.observe_many(&targets).await?.into_iter();
        if let Some(forbidden) = observed.next() {
            require_rejected(forbidden, "an observation of a forbidden kind")?;
        }
        if let Some(Ok(CachedXr::Present { .. })) = observed.next() {
            return Ok(());
        }
        polls.wait().await?;
    }
}

pub(super) type Listed = BTreeMap<String, OwnedObject>;

/// Queries composite resources of two kinds and ProviderConfigs.
pub(super) fn owned_query(fixture: &Fixture<'_>) -> Checked<OwnedQuery> {
    let config = provider_config_kind();
    let xrds = vec![fixture.machine()?.xrd(), fixture.resource(Blueprint::ClusterScoped)?.xrd()];
    Ok(OwnedQuery::new(OwnedKinds::new(xrds, vec![(config.api_version, config.kind)])))
}

/// Lists until the condition holds, because a cache may lag.
pub(super) async fn list_until(
    fixture: &Fixture<'_>,
    query: &OwnedQuery,
    is_complete: impl Fn(&Listed) -> bool + Send + Sync,
) -> Checked<Listed> {
    let mut polls = fixture.polls("the expected objects are never listed");
    loop {
        let found = list(&*fixture.cluster, query.clone(), Listed::new()).await?;
        if is_complete(&found) {
            return Ok(found);
        }
        polls.wait().await?;
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
            if let Some(duplicate) = found.insert(object.reference.to_string(), object) {
                return Err(PortError::rejected(format!(
                    "{} is listed twice",
                    duplicate.reference
                )));
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            return Ok(found);
        }
    }
    Err(PortError::rejected("the pages never end"))
}

async fn paged_listing_visits_every_owned_object(fixture: &Fixture<'_>) -> Outcome {
    let mut expected = Vec::new();
    for _ in 0..7 {
        let subject = fixture.machine()?;
        let version = fixture.apply_shell(&subject).await?;
        expected.push((
            subject.reference()?,
            version.uid,
            OwnedRole::Xr,
            subject.identity.resource,
        ));
        let version = applied_version(
            fixture.apply(subject.provider_config()?, Precondition::Absent).await?,
        )?;
        let config = subject.config_reference()?;
        expected.push((config, version.uid, OwnedRole::ProviderConfig, subject.identity.resource));
    }
    let deleting = &expected[0].0;
    fixture.add_finalizer(deleting).await?;
    fixture.world.delete_in_background(deleting).await?;
    list_until(fixture, &owned_query(fixture)?, |found| {
        expected.iter().all(|(reference, uid, role, resource)| {
            found.get(&reference.to_string()).is_some_and(|object| {
                (&object.uid, object.role, object.resource, object.deleting)
                    == (uid, *role, Some(*resource), reference == deleting)
            })
        })
    })
    .await?;
    fixture.remove_finalizer(deleting).await
}

/// Creates an object of the same kind and namespace, with the broker's label and a name that is not a resource name.
async fn create_foreign_object(
    fixture: &Fixture<'_>,
    template: &ObjectReference,
) -> Checked<ObjectReference> {
    let name = format!("foreign-{}", fixture.world.fresh_id().simple());
    let foreign_object =
        ObjectReference::new(template.api_version(), template.kind(), &name, template.namespace())?;
    let object = json!({
        "apiVersion": foreign_object.api_version(),
        "kind": foreign_object.kind(),
        "metadata": {
            "name": foreign_object.name(),
            "namespace": foreign_object.namespace(),
            "labels": {MANAGED_BY_LABEL: FIELD_MANAGER},
        },
        "spec": {},
    });
    fixture.world.create(&foreign_object, &object).await?;
    Ok(foreign_object)
}

/// The query excludes one resource only.
async fn a_labelled_object_is_listed_whatever_its_name(fixture: &Fixture<'_>) -> Outcome {
    let (excluded, included) = (fixture.machine()?, fixture.machine()?);
    for subject in [&excluded, &included] {
        fixture.apply_shell(subject).await?;
        applied_version(fixture.apply(subject.provider_config()?, Precondition::Absent).await?)?;
    }
    let (own, resource) = (included.reference()?, Some(included.identity.resource));
    let config = included.config_reference()?;
    let expected = [
        (create_foreign_object(fixture, &own).await?, OwnedRole::Xr, None),
        (create_foreign_object(fixture, &config).await?, OwnedRole::ProviderConfig, None),
        (own, OwnedRole::Xr, resource),
        (config, OwnedRole::ProviderConfig, resource),
    ];
    let ids: ResourceIds = [excluded.identity.resource].into_iter().collect();
    list_until(fixture, &owned_query(fixture)?.except(ids), |found| {
        expected.iter().all(|(reference, role, resource)| {
            let listed = found.get(&reference.to_string());
            listed.is_some_and(|object| object.role == *role && object.resource == *resource)
        })
    })
    .await
    .map(drop)
}

/// Offset-based paging would skip objects while others are deleted.
async fn a_listing_skips_nothing_while_objects_are_deleted(fixture: &Fixture<'_>) -> Outcome {
    let mut existing = Vec::new();
    for _ in 0..9 {
        let subject = fixture.machine()?;
        fixture.apply_shell(&subject).await?;
        existing.push(subject.reference()?);
    }
    let all = |found: &Listed| {
        existing.iter().all(|reference| found.contains_key(&reference.to_string()))
    };
    let query = owned_query(fixture)?;
    list_until(fixture, &query, all).await?;
    let first = fixture.cluster.list_owned(&query).await?;
    let by_name = |object: OwnedObject| (object.reference.to_string(), object);
    let found: Listed = first.objects.into_iter().map(by_name).collect();
    let listed = existing.iter().filter(|target| found.contains_key(&target.to_string()));
    for target in listed.take(2) {
        fixture.world.delete_in_background(target).await?;
        fixture.until_removed(target).await?;
    }
    let Some(next) = first.next else {
        return require(all(&found), "the only page leaves an object out");
    };
    let found = list(&*fixture.cluster, query.after(next), found).await?;
    require(all(&found), "an object that existed throughout is not listed")
}

async fn a_forbidden_listing_is_an_error(fixture: &Fixture<'_>) -> Outcome {
    fixture.apply_shell(&fixture.machine()?).await?;
    // Pages may end between kinds, so the error may come on a later page.
    let xr_kinds = [Blueprint::Machine.kind(), Blueprint::ClusterScoped.kind()];
    for kinds in [&[][..], &xr_kinds] {
        let limited = fixture.world.limited_to(kinds).await?;
        let result = list(&*limited, owned_query(fixture)?, Listed::new()).await;
        require_rejected(result, "a listing with a forbidden kind")?;
    }
    Ok(())
}

async fn an_object_without_our_label_is_not_listed(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let reference = subject.reference()?;
    let without_label = json!({"metadata": {"labels": {MANAGED_BY_LABEL: Value::Null}}});
    fixture.world.patch("kubectl", &reference, &without_label).await?;
    let is_not_listed = |found: &Listed| !found.contains_key(&reference.to_string());
    list_until(fixture, &owned_query(fixture)?, is_not_listed).await.map(drop)
}

/// Waits for a hint about a resource.
async fn require_hint(hints: &mut Hints, resource: ProvisionedResourceId) -> Outcome {
    loop {
        match tokio::time::timeout(TIMEOUT, hints.next()).await {
            Ok(Some(hint)) if hint == resource => return Ok(()),
            Ok(Some(_)) => {}
            Ok(None) => return Err(Violation::new("the hints ended")),
            Err(_) => return Err(Violation::new("a change gives no hint")),
        }
    }
}

/// Every change is observed by a new subscription.
async fn a_change_gives_a_hint(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let (xr, config) = (subject.reference()?, subject.config_reference()?);
    for change in 0..5 {
        let mut hints = fixture.cluster.hints().await?;
        match change {
            0 => drop(fixture.apply_shell(&subject).await?),
            1 => fixture.world.patch_status(&xr, &json!({"status": {"conditions": []}})).await?,
            2 => fixture.world.delete_in_background(&xr).await?,
            3 => drop(fixture.apply(subject.provider_config()?, Precondition::Absent).await?),
            _ => fixture.world.delete_in_background(&config).await?,
        }
        require_hint(&mut hints, subject.identity.resource).await?;
    }
    Ok(())
}
