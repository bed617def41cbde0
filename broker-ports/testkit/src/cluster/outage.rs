//! Cases for outages: an unreachable API server is never evidence of absence.

use super::listing::{Listed, list, list_until, owned};
use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        an_unreachable_cluster_never_reports_absence,
        an_unreachable_cluster_is_never_observed_as_absent,
        an_inspection_of_an_unreachable_cluster_is_unknown,
        an_unreachable_cluster_changes_nothing,
    })
}

async fn an_unreachable_cluster_never_reports_absence(scene: &Scene<'_>) -> Outcome {
    let (stands, missing) = (scene.machine()?, scene.machine()?);
    scene.composed(&stands).await?;
    let (query, reference) = (owned(scene)?, stands.reference()?.to_string());
    list_until(scene, &query, |found| found.contains_key(&reference)).await?;
    let here = scene.cluster.identity().await?;
    scene.world.cut_off().await?;
    for subject in [&stands, &missing] {
        require_outage(scene.cluster.read(&subject.target()?).await, "read")?;
    }
    // A cache may keep what it saw. It must not drop it because of the outage.
    match list(&*scene.cluster, query, Listed::new()).await {
        Ok(listed) => {
            let there = listed.contains_key(&reference);
            require(there, "a listing during an outage omits an existing object")?;
        }
        failed @ Err(_) => require_outage(failed, "list_owned")?,
    }
    match scene.cluster.identity().await {
        Ok(remembered) => require(remembered == here, "it is another cluster")?,
        failed @ Err(_) => require_outage(failed, "identity")?,
    }
    // A subscription may stay silent or end.
    match scene.cluster.hints().await {
        Ok(_) => Ok(()),
        failed @ Err(_) => require_outage(failed.map(drop), "hints"),
    }
}

async fn an_unreachable_cluster_is_never_observed_as_absent(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.existing_objects().await?;
    let targets = [subject.xr_target(), subject.xr_target()];
    let mut rounds = scene.rounds("an existing object is never observed");
    while !matches!(
        scene.cluster.observe_many(&targets).await?[..],
        [Ok(CachedXr::Present { .. }), _]
    ) {
        rounds.wait().await?;
    }
    scene.world.cut_off().await?;
    let seen = match scene.cluster.observe_many(&targets).await {
        Ok(seen) => seen,
        failed @ Err(_) => return require_outage(failed, "observe_many"),
    };
    require(seen.len() == targets.len(), "there is not one result per target")?;
    for answer in seen {
        match answer {
            // A cache may keep what it saw.
            Ok(CachedXr::Present { .. }) => {}
            nothing => require_outage(nothing, "an observation of an existing object")?,
        }
    }
    Ok(())
}

async fn an_inspection_of_an_unreachable_cluster_is_unknown(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let mut target = subject.target()?;
    target.recorded = [scene.composed(&subject).await?].into();
    scene.world.cut_off().await?;
    match scene.cluster.inspect(&target).await {
        Ok(seen) => {
            require_outage(seen.cluster, "the cluster of an inspection")?;
            require_outage(seen.namespace, "the namespace of an inspection")?;
            require_outage(seen.kind_installed, "the kind of an inspection")?;
            require_outage(seen.xr, "the composite resource of an inspection")?;
            require_outage(seen.provider_config, "the ProviderConfig of an inspection")?;
            for (_, report) in seen.composed {
                require_outage(report, "a composed object of an inspection")?;
            }
            require_outage(seen.events, "the events of an inspection")
        }
        failed @ Err(_) => require_outage(failed, "inspect"),
    }
}

async fn an_unreachable_cluster_changes_nothing(scene: &Scene<'_>) -> Outcome {
    let (stands, missing) = (scene.machine()?, scene.machine()?);
    let version = scene.shell(&stands).await?;
    let config = done(scene.apply(stands.provider_config()?, Precondition::Absent).await?)?;
    let first = ApplyRequest::open(scene.project, missing.shell(1)?, Precondition::Absent);
    let arm = ApplyRequest::sealed(scene.project, stands.sealed()?, version.unchanged());
    scene.world.cut_off().await?;
    for request in [&first, &arm] {
        require_outage(scene.cluster.apply(request).await, "apply")?;
        require_outage(scene.cluster.dry_run(request).await, "dry_run")?;
    }
    let targets = [
        (stands.reference()?, version.uid.as_str()),
        (stands.config_reference()?, config.uid.as_str()),
        (missing.reference()?, "an unused uid"),
    ];
    for (target, uid) in &targets {
        require_outage(scene.delete(target, uid).await, "delete")?;
    }
    Ok(())
}
