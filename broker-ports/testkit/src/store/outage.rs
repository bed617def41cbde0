//! Cases for outages: an unreachable store is an error and never reports absence.

use super::prelude::*;

pub(super) fn repository_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        an_unreachable_repository_never_reports_absence,
        an_unreachable_repository_commits_nothing,
    ]
}

pub(super) fn schedule_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        an_unreachable_schedule_never_reports_absence,
        an_unreachable_schedule_changes_nothing,
    ]
}

pub(super) fn outbox_cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![an_unreachable_outbox_never_reports_absence,]
}

async fn an_unreachable_repository_never_reports_absence(world: &World) -> Outcome {
    let stored = world.store(&resource().requested_as("order-1")).await?;
    let repository = world.repository();
    let request = RequestId::new("order-1")?;
    world.cut_off().await?;
    require_outage(repository.get_by_id(stored.id()).await, "get_by_id")?;
    let in_project = repository.get_in_project(stored.project_id(), stored.id()).await;
    require_outage(in_project, "get_in_project")?;
    require_outage(
        repository.get_by_request(stored.project_id(), &request).await,
        "get_by_request",
    )?;
    require_outage(repository.get_by_token(id(1)).await, "get_by_token")?;
    require_outage(repository.list(&ListQuery::new(rows(10))).await, "list")?;
    let sweep = SweepQuery::new(rows(10));
    require_outage(repository.sweep_page(&sweep).await, "sweep_page")?;
    require_outage(repository.history(stored.id()).await, "history")?;
    require_outage(repository.shared_config(stored.id()).await, "shared_config")?;
    require_outage(repository.shared_configs(&[]).await, "shared_configs")?;
    let purge = PurgeRequest::new(HOUR, rows(10));
    require_outage(repository.purge_deleted(&purge).await, "purge_deleted")?;
    require_outage(repository.scrub_audit(stored.id(), &attribution()).await, "scrub_audit")
}

async fn an_unreachable_repository_commits_nothing(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let change = phase_change(&stored, Phase::Provisioning, 1)?;
    let admitted = nth_resource(2).admitted();
    world.cut_off().await?;
    require_outage(world.repository().create(&admitted).await, "create")?;
    let replacement = Replacement::new(&stored, admitted, fresh_stamp(2))?;
    require_outage(world.repository().replace(&replacement).await, "replace")?;
    for kind in WriteKind::ALL.iter().copied() {
        require_outage(world.try_write(kind, &change, None).await, &format!("{kind:?}"))?;
    }
    Ok(())
}

async fn an_unreachable_schedule_never_reports_absence(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let schedule = world.schedule();
    world.cut_off().await?;
    let target = ClaimTarget::Due { lane: Lane::Converge, limit: rows(1) };
    let request = ClaimRequest::new(worker("a"), target, HOUR);
    require_outage(schedule.claim(&request).await, "claim")?;
    require_outage(schedule.entry(stored.id()).await, "entry")?;
    require_outage(schedule.brakes(&cluster(1)).await, "brakes")?;
    require_outage(schedule.accepted_losses(&cluster(1)).await, "accepted_losses")?;
    // A silent subscription would look like a store without changes.
    require_outage(schedule.wakeups().await.map(drop), "wakeups")
}

async fn an_unreachable_schedule_changes_nothing(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let (schedule, by) = (world.schedule(), attribution());
    let lease = world.take_lease("a", stored.id()).await?;
    world.cut_off().await?;
    require_outage(schedule.schedule(stored.id(), Due::Now).await, "schedule")?;
    require_outage(schedule.set_paused(stored.id(), true, &by).await, "set_paused")?;
    let brake = Brake::new(11, 100, second(3));
    require_outage(schedule.set_brake(&cluster(1), &brake, &by).await, "set_brake")?;
    let release = BrakeRelease::new(cluster(1), None, Vec::new(), by.clone());
    require_outage(schedule.release_brake(&release).await, "release_brake")?;
    let lost = LostObject::Xr(xr_uid(1));
    let allowance = Allowance::default();
    let permit =
        PermitRequest::new(lease.clone(), stored.version(), cluster(1), lost, allowance, by);
    require_outage(schedule.permit(&permit).await, "permit")?;
    let outcome = successful_pass();
    require_outage(schedule.release(&lease, stored.version(), &outcome).await, "release")
}

async fn an_unreachable_outbox_never_reports_absence(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let event = world.claim_event("relay").await?;
    let outbox = world.outbox();
    world.cut_off().await?;
    let request = ClaimEvents::new(worker("a"), rows(1), HOUR);
    require_outage(outbox.claim_events(&request).await, "claim_events")?;
    require_outage(outbox.acknowledge_event(&event.claim).await, "acknowledge_event")?;
    let delayed = outbox.delay_event(&event.claim, HOUR, DeliveryFailure::Rejected).await;
    require_outage(delayed, "delay_event")?;
    require_outage(outbox.dead_letter_event(&event.claim, "away").await, "dead_letter_event")?;
    let resumed = outbox.redrive_events(stored.id(), Redrive::Retry, &attribution()).await;
    require_outage(resumed, "redrive_events")?;
    require_outage(outbox.purge_events(HOUR, rows(1)).await, "purge_events")?;
    require_outage(outbox.backlog().await, "backlog")?;
    require_outage(outbox.dead_letter_events(EventsOf::All, rows(1)).await, "dead_letter_events")
}
