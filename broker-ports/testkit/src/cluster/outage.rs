//! Promises about failure: an API server that cannot be reached knows nothing, and nothing is gone for it.

use broker_ports::{Inspection, XrTarget};

use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Scene {
        a_cluster_that_is_cut_off_never_answers_with_absence,
        an_observation_that_is_cut_off_is_never_absence,
        an_inspection_that_is_cut_off_knows_nothing,
        a_cluster_that_is_cut_off_changes_nothing,
    })
}

async fn a_cluster_that_is_cut_off_never_answers_with_absence(scene: &Scene<'_>) -> Outcome {
    let (stands, missing) = (scene.machine()?, scene.machine()?);
    scene.composed(&stands).await?;
    let config = config();
    let xrds = vec![stands.xrd(), scene.resource(Blueprint::Estate)?.xrd()];
    let kinds = OwnedKinds::new(xrds, vec![(config.api_version, config.kind)]);
    let query = OwnedQuery::new(kinds);
    until_listed(scene, &query, &stands.reference()?).await?;
    let here = scene.cluster.identity().await?;
    scene.world.cut_off().await?;
    for subject in [&stands, &missing] {
        require_outage(scene.cluster.read(&subject.target()?).await, "read")?;
    }
    // A cache may remember what it saw, until it notices; it may not forget it because of that.
    match is_listed(scene, query, &stands.reference()?).await {
        Ok(listed) => require(listed, "a listing that is cut off leaves out what stands")?,
        failed @ Err(_) => require_outage(failed, "list_owned")?,
    }
    match scene.cluster.identity().await {
        Ok(remembered) => require(remembered == here, "it is another cluster")?,
        failed @ Err(_) => require_outage(failed, "identity")?,
    }
    // Whoever watches may go on watching for what it will not hear; a stream that ends says so, too.
    match scene.cluster.hints().await {
        Ok(_) => Ok(()),
        failed @ Err(_) => require_outage(failed.map(drop), "hints"),
    }
}

/// Whether a listing shows an object.
async fn is_listed(
    scene: &Scene<'_>,
    mut query: OwnedQuery,
    object: &ObjectReference,
) -> Result<bool, PortError> {
    loop {
        let page = scene.cluster.list_owned(&query).await?;
        if page.objects.iter().any(|listed| listed.reference == *object) {
            return Ok(true);
        }
        let Some(next) = page.next else { return Ok(false) };
        query = query.after(next);
    }
}

/// Waits until whatever answers listings has caught up.
async fn until_listed(scene: &Scene<'_>, query: &OwnedQuery, object: &ObjectReference) -> Outcome {
    for _ in 0..ROUNDS {
        if is_listed(scene, query.clone(), object).await? {
            return Ok(());
        }
        scene.world.settle().await;
    }
    Err(Violation::new("what stands is never listed"))
}

async fn an_observation_that_is_cut_off_is_never_absence(scene: &Scene<'_>) -> Outcome {
    let (subject, _) = scene.standing().await?;
    until_observed(scene, &subject.xr_target()).await?;
    scene.world.cut_off().await?;
    let targets = [subject.xr_target(), subject.xr_target()];
    let seen = match scene.cluster.observe_many(&targets).await {
        Ok(seen) => seen,
        failed @ Err(_) => return require_outage(failed, "observe_many"),
    };
    require(seen.len() == targets.len(), "there is not one answer for each")?;
    for answer in seen {
        match answer {
            // A cache may remember what it saw.
            Ok(CachedXr::Seen { .. }) => {}
            nothing => require_outage(nothing, "an observation of what stands")?,
        }
    }
    Ok(())
}

/// Waits until whatever answers observations has caught up.
async fn until_observed(scene: &Scene<'_>, target: &XrTarget) -> Outcome {
    for _ in 0..ROUNDS {
        let seen = scene.cluster.observe_many(std::slice::from_ref(target)).await?;
        if matches!(seen[..], [Ok(CachedXr::Seen { .. })]) {
            return Ok(());
        }
        scene.world.settle().await;
    }
    Err(Violation::new("what stands is never observed"))
}

async fn an_inspection_that_is_cut_off_knows_nothing(scene: &Scene<'_>) -> Outcome {
    let subject = scene.machine()?;
    let mut target = subject.target()?;
    target.recorded = [scene.composed(&subject).await?].into();
    scene.world.cut_off().await?;
    match scene.cluster.inspect(&target).await {
        Ok(inspection) => knows_nothing(inspection),
        failed @ Err(_) => require_outage(failed, "inspect"),
    }
}

fn knows_nothing(inspection: Inspection) -> Outcome {
    let Inspection {
        cluster,
        namespace,
        kind_installed,
        xr,
        provider_config,
        composed,
        events,
        ..
    } = inspection;
    require_outage(cluster, "the cluster of an inspection")?;
    require_outage(namespace, "the namespace of an inspection")?;
    require_outage(kind_installed, "the kind of an inspection")?;
    require_outage(xr, "the composite resource of an inspection")?;
    require_outage(provider_config, "the ProviderConfig of an inspection")?;
    for (_, report) in composed {
        require_outage(report, "a composed object of an inspection")?;
    }
    require_outage(events, "the events of an inspection")
}

async fn a_cluster_that_is_cut_off_changes_nothing(scene: &Scene<'_>) -> Outcome {
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
        (missing.reference()?, "nobody's"),
    ];
    for (target, uid) in &targets {
        require_outage(scene.delete(target, uid).await, "delete")?;
    }
    Ok(())
}
