//! Promises of `claim`: who gets what.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        every_claim_raises_the_epoch_by_one,
        a_lease_says_who_holds_what_until_when,
        of_16_claims_on_one_resource_one_gets_it,
        claims_at_once_share_what_is_due,
        a_lease_that_is_over_is_taken_over,
        lanes_are_apart_and_what_is_at_rest_is_in_none,
        what_is_paused_is_claimed_by_hand_only,
        claim_of_another_cluster_gets_nothing,
        no_more_is_claimed_than_was_asked_for,
        projects_take_turns_however_few_are_claimed,
        within_a_project_what_is_due_longest_comes_first,
    ]
}

async fn every_claim_raises_the_epoch_by_one(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    for epoch in 1..=3 {
        let lease = world.hold("a", stored.id()).await?;
        same("the epoch is", &lease.epoch, &LeaseEpoch::new(epoch))?;
        same("the schedule's is", &world.entry(stored.id()).await?.epoch, &lease.epoch)?;
        require(!lease.takeover, "a lease that was given back is said to be taken over")?;
        // What is held is not claimed, by whomever.
        for name in ["a", "b"] {
            same(name, &world.claim_one(name, stored.id()).await?, &None)?;
        }
        same("due is", &world.due_in(Lane::Converge).await?, &vec![])?;
        world.give_back(&lease, stored.version(), &went_well()).await?;
    }
    Ok(())
}

async fn a_lease_says_who_holds_what_until_when(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &went_wrong()).await?;
    let lease = world.hold("a", stored.id()).await?;
    same("it is on", &lease.resource, &stored.id())?;
    same("it is held by", &lease.worker, &worker("a"))?;
    same("failed attempts are", &lease.attempts, &1)?;
    let entry = world.entry(stored.id()).await?;
    same("the schedule says", &entry.lease, &Some((worker("a"), lease.until)))?;
    let left: Duration = (lease.until - entry.now).try_into()?;
    require(left <= HOUR && left > HOUR / 2, "the lease is not as long as was asked for")
}

async fn of_16_claims_on_one_resource_one_gets_it(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let answers = claimed_at_once(world, 16, ClaimTarget::One(stored.id())).await?;
    same("so many leases were given", &answers.len(), &1)
}

/// What so many workers get that claim at once.
async fn claimed_at_once(
    world: &World,
    workers: usize,
    target: ClaimTarget,
) -> Checked<Vec<Lease>> {
    let names: Vec<_> = (0..workers).map(|number| format!("worker-{number}")).collect();
    let answers = try_join_all(names.iter().map(|name| world.claim(name, target))).await?;
    Ok(answers.into_iter().flatten().collect())
}

async fn claims_at_once_share_what_is_due(world: &World) -> Outcome {
    let of_project = |number| numbered(number).in_project(project(1 + number % 3));
    world.store_all((1..=12).map(of_project)).await?;
    let target = ClaimTarget::Due { lane: Lane::Converge, limit: rows(3) };
    let leases = claimed_at_once(world, 6, target).await?;
    let mut claimed: Vec<_> = leases.iter().map(|lease| lease.resource).collect();
    // Claims that meet may leave something to the next one; none gets what another has.
    claimed.extend(world.due_in(Lane::Converge).await?);
    claimed.sort_unstable();
    same("every resource was claimed once", &claimed, &ids(1..=12))
}

async fn a_lease_that_is_over_is_taken_over(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lost = world.hold("a", stored.id()).await?;
    require(!lost.takeover, "the first lease was taken over from nobody")?;
    world.advance(HOUR * 2).await?;
    let mut leases = world.claim_due(Lane::Converge, 10).await?;
    let taken = leases.pop().ok_or(Violation::new("a lease that is over is never taken over"))?;
    require(taken.takeover, "a takeover does not say so")?;
    same("the epoch is", &taken.epoch, &lost.epoch.next())
}

async fn lanes_are_apart_and_what_is_at_rest_is_in_none(world: &World) -> Outcome {
    let of_phase = |(number, phase)| numbered(number).rolling_back().in_phase(phase);
    world.store_all((1..).zip(Phase::ALL).map(of_phase)).await?;
    same("teardown has", &world.due_in(Lane::Teardown).await?, &ids([6, 7]))?;
    same("converge has", &world.due_in(Lane::Converge).await?, &ids([1, 2, 3, 4, 5]))?;
    // What is at rest is in none, and is not claimed by its name either; nor is what does not exist.
    world.stored(&numbered(9).failed()).await?;
    nothing_is_due(world).await?;
    for resource in ids([8, 9, 10]) {
        same("at rest was claimed", &world.claim_one("a", resource).await?, &None)?;
    }
    Ok(())
}

async fn nothing_is_due(world: &World) -> Outcome {
    for lane in [Lane::Converge, Lane::Teardown] {
        same("due is", &world.due_in(lane).await?, &vec![])?;
    }
    Ok(())
}

/// A person who gives up a paused resource claims it by hand first.
async fn what_is_paused_is_claimed_by_hand_only(world: &World) -> Outcome {
    world.store_all([numbered(1), numbered(2).deregistering()]).await?;
    for resource in ids(1..=2) {
        world.pause(resource, true).await?;
        same("by name was claimed", &world.claim_one("a", resource).await?, &None)?;
    }
    nothing_is_due(world).await?;
    for resource in ids(1..=2) {
        for (name, leases) in [("b", 1), ("c", 0)] {
            let claimed = world.claim(name, ClaimTarget::EvenPaused(resource)).await?;
            same("a claim by hand gets so many", &claimed.len(), &leases)?;
        }
    }
    // A pause lets the pass under way go on.
    let stored = world.stored(&numbered(3)).await?;
    let lease = world.hold("a", stored.id()).await?;
    world.pause(stored.id(), true).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&lease, &change).await?;
    world.give_back(&lease, change.resource().version(), &went_well()).await
}

async fn no_more_is_claimed_than_was_asked_for(world: &World) -> Outcome {
    world.store_all((1..=5).map(numbered)).await?;
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(world.claim_due(Lane::Converge, 2).await?.len());
    }
    same("so many were claimed, one time after the other,", &counts, &vec![2, 2, 1, 0])
}

/// One Project has many resources that have been due for long, and two have one each, due since just now.
async fn projects_take_turns_however_few_are_claimed(world: &World) -> Outcome {
    world.store_all((1..=20).map(numbered)).await?;
    world.advance(HOUR).await?;
    for number in [21, 22] {
        world.stored(&numbered(number).in_project(project(number))).await?;
    }
    for (claims, limit) in [(1, 3), (3, 1)] {
        let mut served = BTreeSet::new();
        for _ in 0..claims {
            for lease in world.claim_due(Lane::Converge, limit).await? {
                served.insert(world.get(lease.resource).await?.project_id());
            }
        }
        let expected = [project(1), project(21), project(22)].into();
        same(&format!("{claims} claims of {limit} served"), &served, &expected)?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}

async fn within_a_project_what_is_due_longest_comes_first(world: &World) -> Outcome {
    for number in [3, 1, 2] {
        world.stored(&numbered(number)).await?;
        world.advance(HOUR).await?;
    }
    for expected in [3, 1, 2] {
        let claimed = world.claim_due(Lane::Converge, 1).await?;
        let claimed: Vec<_> = claimed.into_iter().map(|lease| lease.resource).collect();
        same("the next that is claimed is", &claimed, &vec![id(expected)])?;
    }
    Ok(())
}

/// Bound by its declaration or by its first apply; a resource that is bound to no cluster is anybody's.
async fn claim_of_another_cluster_gets_nothing(world: &World) -> Outcome {
    let declared = numbered(1).bound_to(cluster(1));
    let applied = numbered(2).in_project(project(2)).with_substrate();
    let unbound = numbered(3).in_project(project(3));
    let standing = world.stored(&applied).await?;
    require(standing.substrate().cluster().is_some(), "substrate stands on a cluster")?;
    let bound = [world.stored(&declared).await?, standing];
    world.stored(&unbound).await?;
    for resource in &bound {
        let lane = ClaimTarget::Due { lane: Lane::Converge, limit: rows(10) };
        for target in
            [ClaimTarget::One(resource.id()), ClaimTarget::EvenPaused(resource.id()), lane]
        {
            let request = ClaimRequest::new(worker("elsewhere"), target, HOUR);
            let claimed = world.schedule().claim(&request.on_cluster(cluster(9))).await?;
            let foreign = claimed.iter().any(|lease| lease.resource == resource.id());
            require(!foreign, &format!("{target:?} claimed a resource of another cluster"))?;
        }
        let home = resource.substrate().cluster().cloned();
        let home = home.ok_or(Violation::new("a resource that was bound is bound"))?;
        let request = ClaimRequest::new(worker("home"), ClaimTarget::One(resource.id()), HOUR);
        let claimed = world.schedule().claim(&request.on_cluster(home)).await?;
        same("its own cluster's claim gets so many", &claimed.len(), &1)?;
    }
    let held = world.entry(unbound.id()).await?.lease.map(|(worker, _)| worker);
    same("a resource that is bound to no cluster is held by", &held, &Some(worker("elsewhere")))?;
    // Who names no cluster gets every cluster's.
    world.advance(HOUR * 2).await?;
    same("what is due is", &world.due_in(Lane::Converge).await?, &ids(1..=3))
}
