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
const TWO: Allowance = Allowance { least: 2, percent: 0, most: 20, within: HOUR };

fn brake(absent: u64) -> Brake {
    Brake::new(absent, 100, second(3))
}

fn lost(uid: u128) -> Lost {
    Lost::Xr(xr_uid(uid))
}

fn request(stored: &ProvisionedResource, lease: &Lease, lost: Lost) -> PermitRequest {
    let version = stored.version();
    PermitRequest::new(lease.clone(), version, cluster(1), lost, TWO, attribution())
}

fn release(accepted: Vec<Loss>) -> BrakeRelease {
    BrakeRelease::new(cluster(1), None, accepted, attribution())
}

/// An applied resource that a worker holds.
struct Held {
    stored: ProvisionedResource,
    lease: Lease,
}

impl Held {
    async fn numbered(world: &World, number: u128) -> Checked<Self> {
        let in_project = numbered(number).in_project(project(1 + number % 2));
        let stored = world.stored(&in_project.with_substrate()).await?;
        let lease = world.hold("a", stored.id()).await?;
        Ok(Self { stored, lease })
    }

    async fn permit(&self, world: &World, lost: Lost) -> Checked<Permit> {
        Ok(world.schedule().permit(&request(&self.stored, &self.lease, lost)).await?)
    }
}

async fn a_brake_holds_until_it_is_released(world: &World) -> Outcome {
    let schedule = world.schedule();
    same("at first the brakes are", &schedule.brakes(&cluster(1)).await?, &vec![])?;
    let of_project = brake(7).of_project(project(2));
    schedule.set_brake(&cluster(1), &of_project, &attribution()).await?;
    for absent in [11, 99] {
        // The first brake stays.
        schedule.set_brake(&cluster(1), &brake(absent), &attribution()).await?;
    }
    let both = vec![brake(11), of_project];
    same("the brakes are", &schedule.brakes(&cluster(1)).await?, &both)?;
    same("the other cluster's are", &schedule.brakes(&cluster(2)).await?, &vec![])?;
    let mut elsewhere = release(Vec::new());
    elsewhere.cluster = cluster(2);
    same("no brake is released", &schedule.release_brake(&elsewhere).await?, &false)?;
    same("the brakes are", &schedule.brakes(&cluster(1)).await?, &both)?;
    for was_set in [true, false] {
        let released = schedule.release_brake(&release(Vec::new())).await?;
        same("one is released", &released, &was_set)?;
        same("the brakes are", &schedule.brakes(&cluster(1)).await?, &both[1..].to_vec())?;
    }
    let trail = world.audit_trail().await?;
    let said: Vec<_> = trail.iter().map(|line| (line.entry.project, line.entry.action)).collect();
    let expected = vec![
        (Some(project(2)), AuditAction::BrakeSet),
        (None, AuditAction::BrakeSet),
        (None, AuditAction::BrakeReleased),
    ];
    same("the audited actions", &said, &expected)
}

async fn concurrent_permits_stay_within_the_allowance(world: &World) -> Outcome {
    let mut requests = Vec::new();
    for number in 1..=12 {
        let Held { stored, lease } = Held::numbered(world, number).await?;
        requests.push(request(&stored, &lease, lost(number)));
    }
    let asked = requests.iter().map(|request| world.schedule().permit(request));
    let answers = try_join_all(asked).await?;
    let granted = answers.iter().filter(|permit| **permit == Permit::Granted).count();
    same("the number of permits", &granted, &2)
}

async fn the_allowance_grows_with_the_applied_fleet(world: &World) -> Outcome {
    // Half of the fleet. A resource that was never applied and one in teardown do not count.
    let half = Allowance { least: 0, percent: 50, most: 20, within: HOUR };
    world.stored(&numbered(8)).await?;
    world.stored(&numbered(9).with_substrate().deregistering()).await?;
    let mut held = Vec::new();
    for number in 1..=4 {
        held.push(Held::numbered(world, number).await?);
    }
    let mut answers = Vec::new();
    for (one, number) in held.iter().zip(1..) {
        let mut request = request(&one.stored, &one.lease, lost(number));
        request.allowance = half;
        answers.push(world.schedule().permit(&request).await?);
    }
    let expected = vec![Permit::Granted, Permit::Granted, Permit::OverBudget, Permit::OverBudget];
    same("permits", &answers, &expected)
}

async fn a_permit_of_a_loss_is_reused_by_retries(world: &World) -> Outcome {
    let one = Held::numbered(world, 1).await?;
    for _ in 0..3 {
        same("a retry", &one.permit(world, lost(1)).await?, &Permit::Granted)?;
    }
    let actions = world.actions(one.stored.id()).await?;
    let lines = actions.iter().filter(|action| **action == AuditAction::PermitTaken).count();
    same("the number of audit lines", &lines, &1)?;
    same("the next loss", &one.permit(world, lost(2)).await?, &Permit::Granted)?;
    same("and one more", &one.permit(world, lost(3)).await?, &Permit::OverBudget)?;
    // An unused permit leaves the budget, and a new request is charged again.
    world.advance(HOUR * 2).await?;
    let answers = [
        one.permit(world, lost(1)).await?,
        one.permit(world, lost(4)).await?,
        one.permit(world, lost(2)).await?,
    ];
    let expected = [Permit::Granted, Permit::Granted, Permit::OverBudget];
    same("a window later, permits", &answers, &expected)
}

/// A resource that came back after an accepted loss counts when it is lost again.
async fn acceptance_ends_when_the_composite_exists_again(world: &World) -> Outcome {
    let schedule = world.schedule();
    let Held { stored, lease } = Held::numbered(world, 1).await?;
    let loss = Loss { resource: stored.id(), lost: lost(1) };
    let accepted = async || schedule.accepted_losses(&cluster(1)).await.map(|all| all.len());
    let stands = PassOutcome::Stands { due_in: None };
    schedule.release_brake(&release(vec![loss])).await?;
    world.release_lease(&lease, stored.version(), &stands).await?;
    same("accepted since the claim are", &accepted().await?, &1)?;
    for (outcome, left) in [(succeeded(), 1), (failed_pass(), 1), (stands, 0)] {
        let lease = world.hold("b", stored.id()).await?;
        world.release_lease(&lease, stored.version(), &outcome).await?;
        same("accepted losses are", &accepted().await?, &left)?;
    }
    Ok(())
}

async fn a_brake_denies_permits_in_its_scope(world: &World) -> Outcome {
    let schedule = world.schedule();
    let (first, second) = (Held::numbered(world, 1).await?, Held::numbered(world, 2).await?);
    same("before", &first.permit(world, lost(1)).await?, &Permit::Granted)?;
    let of_project = brake(6).of_project(first.stored.project_id());
    schedule.set_brake(&cluster(1), &of_project, &attribution()).await?;
    same("a held Project", &first.permit(world, lost(1)).await?, &Permit::Braked)?;
    same("another Project", &second.permit(world, lost(2)).await?, &Permit::Granted)?;
    schedule.set_brake(&cluster(1), &brake(6), &attribution()).await?;
    same("a held cluster", &second.permit(world, lost(2)).await?, &Permit::Braked)?;
    schedule.release_brake(&release(Vec::new())).await?;
    same("after the release", &second.permit(world, lost(2)).await?, &Permit::Granted)?;
    same("the Project", &first.permit(world, lost(1)).await?, &Permit::Braked)
}

async fn an_accepted_loss_is_due_and_needs_no_permit(world: &World) -> Outcome {
    let schedule = world.schedule();
    schedule.set_brake(&cluster(1), &brake(6), &attribution()).await?;
    let mut accepted = Vec::new();
    for number in 1..=4 {
        let Held { stored, lease } = Held::numbered(world, number).await?;
        world.release_lease(&lease, stored.version(), &failed_pass()).await?;
        accepted.push(Loss { resource: stored.id(), lost: lost(number) });
    }
    schedule.release_brake(&release(accepted.clone())).await?;
    let listed = schedule.accepted_losses(&cluster(1)).await?;
    same("accepted are", &listed, &accepted.iter().cloned().collect())?;
    same("elsewhere are", &schedule.accepted_losses(&cluster(2)).await?.len(), &0)?;
    for loss in accepted {
        let entry = world.entry(loss.resource).await?;
        require(is_due(&entry), "an accepted loss is not due")?;
        same("failed attempts are", &entry.attempts, &0)?;
        let lease = world.hold("b", loss.resource).await?;
        let stored = world.get(loss.resource).await?;
        let permit = schedule.permit(&request(&stored, &lease, loss.lost)).await?;
        same("an accepted loss", &permit, &Permit::Granted)?;
    }
    for (number, expected) in [(5, Permit::Granted), (6, Permit::Granted), (7, Permit::OverBudget)]
    {
        let one = Held::numbered(world, number).await?;
        same("a loss that was not accepted", &one.permit(world, lost(number)).await?, &expected)?;
    }
    Ok(())
}

async fn a_permit_needs_lease_and_version(world: &World) -> Outcome {
    let schedule = world.schedule();
    let one = Held::numbered(world, 1).await?;
    let mut stale = request(&one.stored, &one.lease, lost(1));
    stale.seen = Version::FIRST;
    same("another version", &schedule.permit(&stale).await?, &Permit::Stale)?;
    let mut late = request(&one.stored, &one.lease, lost(1));
    world.release_lease(&one.lease, one.stored.version(), &failed_pass()).await?;
    world.hold("b", one.stored.id()).await?;
    same("a lost lease", &schedule.permit(&late).await?, &Permit::LeaseLost)?;
    late.lease.resource = numbered(99).id();
    same("a row that is gone", &schedule.permit(&late).await?, &Permit::Stale)?;
    let actions = world.actions(one.stored.id()).await?;
    require(!actions.contains(&AuditAction::PermitTaken), "a refused permit is audited")
}

/// Destroyed resources count during the whole window, even after a purge.
async fn permit_of_a_purged_resource_stays_spent(world: &World) -> Outcome {
    let (first, second) = (Held::numbered(world, 1).await?, Held::numbered(world, 2).await?);
    for (one, number) in [(&first, 1), (&second, 2)] {
        same("a permit", &one.permit(world, lost(number)).await?, &Permit::Granted)?;
    }
    let leaving = deletion(&first.stored, 1)?;
    world.commit(WriteKind::DeletionIntent, &leaving).await?;
    let closed = leaving.into_resource().record_closed(fresh_stamp(2).at)?;
    let closed = closed.ok_or(Violation::new("its tokens are closed already"))?;
    world.commit(WriteKind::Closed, &closed).await?;
    let gone = closed.into_resource().abandon(fresh_stamp(3))?;
    world.commit(WriteKind::Phase, &gone).await?;
    world.deliver_all().await?;
    world.advance(Duration::from_mins(3)).await?;
    let purge = PurgeRequest::new(Duration::from_mins(2), PageSize::MAX);
    let purged = world.repository().purge_deleted(&purge).await?;
    same("it purged", &purged, &vec![first.stored.id()])?;
    let third = Held::numbered(world, 3).await?;
    same("within the hour", &third.permit(world, lost(3)).await?, &Permit::OverBudget)
}
