//! Cases for outages: an unreachable API server is never evidence of absence.

use super::listing::{Listed, list, list_until, owned_query};
use super::prelude::*;

pub(super) fn cases<W: ClusterUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of!(Fixture {
        an_unreachable_cluster_never_reports_absence,
        an_unreachable_cluster_is_never_observed_as_absent,
        an_inspection_of_an_unreachable_cluster_is_unknown,
        an_unreachable_cluster_changes_nothing,
    })
}

async fn an_unreachable_cluster_never_reports_absence(fixture: &Fixture<'_>) -> Outcome {
    let (existing, missing) = (fixture.machine()?, fixture.machine()?);
    fixture.apply_composed(&existing).await?;
    let (query, reference) = (owned_query(fixture)?, existing.reference()?.to_string());
    list_until(fixture, &query, |found| found.contains_key(&reference)).await?;
    let identity = fixture.cluster.identity().await?;
    fixture.world.cut_off().await?;
    for subject in [&existing, &missing] {
        require_outage(fixture.cluster.read(&subject.target()?).await, "read")?;
    }
    // A cache may return old data. It must not drop objects because of the outage.
    match list(&*fixture.cluster, query, Listed::new()).await {
        Ok(listed) => {
            let is_listed = listed.contains_key(&reference);
            require(is_listed, "a listing during an outage omits an existing object")?;
        }
        failed @ Err(_) => require_outage(failed, "list_owned")?,
    }
    match fixture.cluster.identity().await {
        Ok(remembered) => require(remembered == identity, "the identity changed during an outage")?,
        failed @ Err(_) => require_outage(failed, "identity")?,
    }
    // A subscription may stay silent or end.
    match fixture.cluster.hints().await {
        Ok(_) => Ok(()),
        failed @ Err(_) => require_outage(failed.map(drop), "hints"),
    }
}

async fn an_unreachable_cluster_is_never_observed_as_absent(fixture: &Fixture<'_>) -> Outcome {
    let (subject, _) = fixture.machine_with_shell().await?;
    let targets = [subject.xr_target(), subject.xr_target()];
    let mut polls = fixture.polls("an existing object is never observed");
    while !matches!(
        fixture.cluster.observe_many(&targets).await?[..],
        [Ok(CachedXr::Present { .. }), _]
    ) {
        polls.wait().await?;
    }
    fixture.world.cut_off().await?;
    let observed = match fixture.cluster.observe_many(&targets).await {
        Ok(observed) => observed,
        failed @ Err(_) => return require_outage(failed, "observe_many"),
    };
    require(observed.len() == targets.len(), "the batch does not return one result per target")?;
    for result in observed {
        match result {
            // A cache may return old data.
            Ok(CachedXr::Present { .. }) => {}
            failed => require_outage(failed, "an observation of an existing object")?,
        }
    }
    Ok(())
}

async fn an_inspection_of_an_unreachable_cluster_is_unknown(fixture: &Fixture<'_>) -> Outcome {
    let subject = fixture.machine()?;
    let mut target = subject.target()?;
    target.recorded = [fixture.apply_composed(&subject).await?].into();
    fixture.world.cut_off().await?;
    match fixture.cluster.inspect(&target).await {
        Ok(inspection) => {
            require_outage(inspection.cluster, "the cluster of an inspection")?;
            require_outage(inspection.namespace, "the namespace of an inspection")?;
            require_outage(inspection.kind_installed, "the kind of an inspection")?;
            require_outage(inspection.xr, "the composite resource of an inspection")?;
            require_outage(inspection.provider_config, "the ProviderConfig of an inspection")?;
            for (_, report) in inspection.composed {
                require_outage(report, "a composed object of an inspection")?;
            }
            require_outage(inspection.events, "the events of an inspection")
        }
        failed @ Err(_) => require_outage(failed, "inspect"),
    }
}

async fn an_unreachable_cluster_changes_nothing(fixture: &Fixture<'_>) -> Outcome {
    let (existing, missing) = (fixture.machine()?, fixture.machine()?);
    let version = fixture.apply_shell(&existing).await?;
    let config =
        applied_version(fixture.apply(existing.provider_config()?, Precondition::Absent).await?)?;
    let first = ApplyRequest::open(fixture.project, missing.shell(1)?, Precondition::Absent);
    let arm = ApplyRequest::sealed(fixture.project, existing.sealed()?, version.unchanged());
    fixture.world.cut_off().await?;
    for request in [&first, &arm] {
        require_outage(fixture.cluster.apply(request).await, "apply")?;
        require_outage(fixture.cluster.dry_run(request).await, "dry_run")?;
    }
    let targets = [
        (existing.reference()?, version.uid.as_str()),
        (existing.config_reference()?, config.uid.as_str()),
        (missing.reference()?, "an unused uid"),
    ];
    for (target, uid) in &targets {
        require_outage(fixture.delete(target, uid).await, "delete")?;
    }
    Ok(())
}
