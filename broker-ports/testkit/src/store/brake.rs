//! Cases for brakes and permits, which bound automatic destruction.

use broker_ports::{Loss, Permit};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_brake_holds_until_it_is_released,
        concurrent_permits_stay_within_the_allowance,
        the_allowance_grows_with_the_applied_fleet,
        a_permit_of_a_loss_is_reused_by_retries,
        a_brake_denies_permits_in_its_scope,
        an_accepted_loss_is_due_and_needs_no_permit,
        a_permit_needs_lease_and_version,
        acceptance_ends_when_the_composite_exists_again,
        permit_of_a_purged_resource_stays_spent,
    ]
}

/// Two permits an hour, whatever the fleet.
const TWO: Allowance = Allowance { min_permits: 2, percent: 0, max_permits: 20, within: HOUR };

fn brake(absent: u64) -> Brake {
    Brake::new(absent, 100, second(3))
}

fn lost(uid: u128) -> LostObject {
    LostObject::Xr(xr_uid(uid))
}

fn request(stored: &ProvisionedResource, lease: &Lease, lost: LostObject) -> PermitRequest {
    let version = stored.version();
    PermitRequest::new(lease.clone(), version, cluster(1), lost, TWO, attribution())
}

fn release(accepted: Vec<Loss>) -> BrakeRelease {
    BrakeRelease::new(cluster(1), None, accepted, attribution())
}

/// An applied resource, and the lease of a worker on it.
struct LeasedResource {
    stored: ProvisionedResource,
    lease: Lease,
}

impl LeasedResource {
    async fn store(world: &World, number: u128) -> Checked<Self> {
        let builder = nth_resource(number).in_project(project(1 + number % 2));
        let stored = world.store(&builder.with_substrate()).await?;
        let lease = world.take_lease("a", stored.id()).await?;
        Ok(Self { stored, lease })
    }

    async fn permit(&self, world: &World, lost: LostObject) -> Checked<Permit> {
        Ok(world.schedule().permit(&request(&self.stored, &self.lease, lost)).await?)
    }
}

async fn a_brake_holds_until_it_is_released(world: &World) -> Outcome {
    let schedule = world.schedule();
    equal("the brakes of an empty store", &schedule.brakes(&cluster(1)).await?, &vec![])?;
    let of_project = brake(7).of_project(project(2));
    schedule.set_brake(&cluster(1), &of_project, &attribution()).await?;
    for absent in [11, 99] {
        // The first brake stays.
        schedule.set_brake(&cluster(1), &brake(absent), &attribution()).await?;
    }
    let expected = vec![brake(11), of_project];
    equal("the brakes", &schedule.brakes(&cluster(1)).await?, &expected)?;
    equal("the brakes of another cluster", &schedule.brakes(&cluster(2)).await?, &vec![])?;
    let mut other_release = release(Vec::new());
    other_release.cluster = cluster(2);
    equal("the release of no brake", &schedule.release_brake(&other_release).await?, &false)?;
    equal("the brakes", &schedule.brakes(&cluster(1)).await?, &expected)?;
    for was_set in [true, false] {
        let released = schedule.release_brake(&release(Vec::new())).await?;
        equal("the result of the release", &released, &was_set)?;
        equal("the brakes", &schedule.brakes(&cluster(1)).await?, &expected[1..].to_vec())?;
    }
    let trail = world.audit_trail().await?;
    let actions: Vec<_> =
        trail.iter().map(|line| (line.entry.project, line.entry.action)).collect();
    let expected = vec![
        (Some(project(2)), AuditAction::BrakeSet),
        (None, AuditAction::BrakeSet),
        (None, AuditAction::BrakeReleased),
    ];
    equal("the audited actions", &actions, &expected)
}

async fn concurrent_permits_stay_within_the_allowance(world: &World) -> Outcome {
    let mut requests = Vec::new();
    for number in 1..=12 {
        let LeasedResource { stored, lease } = LeasedResource::store(world, number).await?;
        requests.push(request(&stored, &lease, lost(number)));
    }
    let permits = requests.iter().map(|request| world.schedule().permit(request));
    let results = try_join_all(permits).await?;
    let granted = results.iter().filter(|permit| **permit == Permit::Granted).count();
    equal("the number of permits", &granted, &2)
}

async fn the_allowance_grows_with_the_applied_fleet(world: &World) -> Outcome {
    // Half of the fleet. A resource that was never applied and one in teardown do not count.
    let half = Allowance { min_permits: 0, percent: 50, max_permits: 20, within: HOUR };
    world.store(&nth_resource(8)).await?;
    world.store(&nth_resource(9).with_substrate().deregistering()).await?;
    let mut leased = Vec::new();
    for number in 1..=4 {
        leased.push(LeasedResource::store(world, number).await?);
    }
    let mut results = Vec::new();
    for (resource, number) in leased.iter().zip(1..) {
        let mut request = request(&resource.stored, &resource.lease, lost(number));
        request.allowance = half;
        results.push(world.schedule().permit(&request).await?);
    }
    let expected = vec![Permit::Granted, Permit::Granted, Permit::OverBudget, Permit::OverBudget];
    equal("the permits", &results, &expected)
}

async fn a_permit_of_a_loss_is_reused_by_retries(world: &World) -> Outcome {
    let leased = LeasedResource::store(world, 1).await?;
    for _ in 0..3 {
        equal("the permit of a retry", &leased.permit(world, lost(1)).await?, &Permit::Granted)?;
    }
    let actions = world.actions(leased.stored.id()).await?;
    let lines = actions.iter().filter(|action| **action == AuditAction::PermitTaken).count();
    equal("the number of audit lines", &lines, &1)?;
    equal("the permit of a second loss", &leased.permit(world, lost(2)).await?, &Permit::Granted)?;
    equal("the third permit", &leased.permit(world, lost(3)).await?, &Permit::OverBudget)?;
    // A permit is no longer counted after the window. A new request is counted again.
    world.advance(HOUR * 2).await?;
    let results = [
        leased.permit(world, lost(1)).await?,
        leased.permit(world, lost(4)).await?,
        leased.permit(world, lost(2)).await?,
    ];
    let expected = [Permit::Granted, Permit::Granted, Permit::OverBudget];
    equal("the permits after the window", &results, &expected)
}

/// Otherwise a second loss of the resource would need no permit.
async fn acceptance_ends_when_the_composite_exists_again(world: &World) -> Outcome {
    let schedule = world.schedule();
    let LeasedResource { stored, lease } = LeasedResource::store(world, 1).await?;
    let loss = Loss { resource: stored.id(), lost: lost(1) };
    let accepted = async || schedule.accepted_losses(&cluster(1)).await.map(|all| all.len());
    let armed = PassOutcome::SucceededArmed { due_in: None };
    schedule.release_brake(&release(vec![loss])).await?;
    world.release_lease(&lease, stored.version(), &armed).await?;
    equal("the losses accepted since the claim", &accepted().await?, &1)?;
    for (outcome, left) in [(successful_pass(), 1), (failed_pass(), 1), (armed, 0)] {
        let lease = world.take_lease("b", stored.id()).await?;
        world.release_lease(&lease, stored.version(), &outcome).await?;
        equal("the number of accepted losses", &accepted().await?, &left)?;
    }
    Ok(())
}

async fn a_brake_denies_permits_in_its_scope(world: &World) -> Outcome {
    let schedule = world.schedule();
    let (first, second) =
        (LeasedResource::store(world, 1).await?, LeasedResource::store(world, 2).await?);
    equal("the permit before the brake", &first.permit(world, lost(1)).await?, &Permit::Granted)?;
    let of_project = brake(6).of_project(first.stored.project_id());
    schedule.set_brake(&cluster(1), &of_project, &attribution()).await?;
    equal("the permit in the Project", &first.permit(world, lost(1)).await?, &Permit::Braked)?;
    equal("the permit elsewhere", &second.permit(world, lost(2)).await?, &Permit::Granted)?;
    schedule.set_brake(&cluster(1), &brake(6), &attribution()).await?;
    equal("the permit in the cluster", &second.permit(world, lost(2)).await?, &Permit::Braked)?;
    schedule.release_brake(&release(Vec::new())).await?;
    equal("the permit after the release", &second.permit(world, lost(2)).await?, &Permit::Granted)?;
    equal("the still braked permit", &first.permit(world, lost(1)).await?, &Permit::Braked)
}

async fn an_accepted_loss_is_due_and_needs_no_permit(world: &World) -> Outcome {
    let schedule = world.schedule();
    schedule.set_brake(&cluster(1), &brake(6), &attribution()).await?;
    let mut accepted = Vec::new();
    for number in 1..=4 {
        let LeasedResource { stored, lease } = LeasedResource::store(world, number).await?;
        world.release_lease(&lease, stored.version(), &failed_pass()).await?;
        accepted.push(Loss { resource: stored.id(), lost: lost(number) });
    }
    schedule.release_brake(&release(accepted.clone())).await?;
    let listed = schedule.accepted_losses(&cluster(1)).await?;
    equal("the accepted losses", &listed, &accepted.iter().cloned().collect())?;
    equal("the losses elsewhere", &schedule.accepted_losses(&cluster(2)).await?.len(), &0)?;
    for loss in accepted {
        let entry = world.entry(loss.resource).await?;
        require(is_due(&entry), "an accepted loss is not due")?;
        equal("the failed attempts", &entry.attempts, &0)?;
        let lease = world.take_lease("b", loss.resource).await?;
        let stored = world.get(loss.resource).await?;
        let permit = schedule.permit(&request(&stored, &lease, loss.lost)).await?;
        equal("the permit of an accepted loss", &permit, &Permit::Granted)?;
    }
    for (number, expected) in [(5, Permit::Granted), (6, Permit::Granted), (7, Permit::OverBudget)]
    {
        let leased = LeasedResource::store(world, number).await?;
        equal("the permit of a new loss", &leased.permit(world, lost(number)).await?, &expected)?;
    }
    Ok(())
}

async fn a_permit_needs_lease_and_version(world: &World) -> Outcome {
    let schedule = world.schedule();
    let leased = LeasedResource::store(world, 1).await?;
    let mut stale = request(&leased.stored, &leased.lease, lost(1));
    stale.seen = Version::FIRST;
    equal("the permit from another version", &schedule.permit(&stale).await?, &Permit::Stale)?;
    let mut late = request(&leased.stored, &leased.lease, lost(1));
    world.release_lease(&leased.lease, leased.stored.version(), &failed_pass()).await?;
    world.take_lease("b", leased.stored.id()).await?;
    equal("the permit after a lost lease", &schedule.permit(&late).await?, &Permit::LeaseLost)?;
    late.lease.resource = nth_resource(99).id();
    equal("the permit of a missing row", &schedule.permit(&late).await?, &Permit::Stale)?;
    let actions = world.actions(leased.stored.id()).await?;
    require(!actions.contains(&AuditAction::PermitTaken), "a refused permit is audited")
}

/// Destroyed resources count during the whole window, even after a purge.
async fn permit_of_a_purged_resource_stays_spent(world: &World) -> Outcome {
    let (first, second) =
        (LeasedResource::store(world, 1).await?, LeasedResource::store(world, 2).await?);
    for (leased, number) in [(&first, 1), (&second, 2)] {
        equal("the permit", &leased.permit(world, lost(number)).await?, &Permit::Granted)?;
    }
    let deletion = deletion_request(&first.stored, 1)?;
    world.commit(WriteKind::DeletionIntent, &deletion).await?;
    let closed = deletion.into_resource().record_closed(fresh_stamp(2).at)?;
    let closed = closed.ok_or(Violation::new("the tokens were already closed"))?;
    world.commit(WriteKind::Closed, &closed).await?;
    let abandoned = closed.into_resource().abandon(fresh_stamp(3))?;
    world.commit(WriteKind::Phase, &abandoned).await?;
    world.deliver_all().await?;
    world.advance(Duration::from_mins(3)).await?;
    let purge = PurgeRequest::new(Duration::from_mins(2), PageSize::MAX);
    let purged = world.repository().purge_deleted(&purge).await?;
    equal("the purged resources", &purged, &vec![first.stored.id()])?;
    let third = LeasedResource::store(world, 3).await?;
    equal("the permit within the window", &third.permit(world, lost(3)).await?, &Permit::OverBudget)
}
