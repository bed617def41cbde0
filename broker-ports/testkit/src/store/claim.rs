//! Cases for `claim`.

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        every_claim_raises_the_epoch_by_one,
        a_lease_names_resource_holder_and_end,
        concurrent_claims_of_one_resource_have_one_winner,
        concurrent_claims_never_share_a_resource,
        an_expired_lease_is_taken_over,
        lanes_are_separate_and_exclude_settled_resources,
        a_paused_resource_is_only_claimed_manually,
        claim_of_another_cluster_gets_nothing,
        a_claim_respects_its_limit,
        projects_take_turns_for_any_claim_size,
        within_a_project_the_longest_due_comes_first,
    ]
}

async fn every_claim_raises_the_epoch_by_one(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    for epoch in 1..=3 {
        let lease = world.take_lease("a", stored.id()).await?;
        equal("the epoch of the lease", &lease.epoch, &LeaseEpoch::new(epoch))?;
        equal("the epoch in the schedule", &world.entry(stored.id()).await?.epoch, &lease.epoch)?;
        require(!lease.takeover, "a released lease counts as a takeover")?;
        // A held resource is not claimable, not even by its holder.
        for name in ["a", "b"] {
            equal(name, &world.claim_one(name, stored.id()).await?, &None)?;
        }
        equal("the due resources", &world.due_resources(Lane::Converge).await?, &vec![])?;
        world.release_lease(&lease, stored.version(), &successful_pass()).await?;
    }
    Ok(())
}

async fn a_lease_names_resource_holder_and_end(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    world.run_pass(&stored, &failed_pass()).await?;
    let lease = world.take_lease("a", stored.id()).await?;
    equal("the resource of the lease", &lease.resource, &stored.id())?;
    equal("the worker of the lease", &lease.worker, &worker("a"))?;
    equal("the failed attempts", &lease.attempts, &1)?;
    let entry = world.entry(stored.id()).await?;
    equal("the lease in the schedule", &entry.lease, &Some((worker("a"), lease.until)))?;
    let left: Duration = (lease.until - entry.now).try_into()?;
    require(left <= HOUR && left > HOUR / 2, "the lease has another duration than requested")
}

async fn concurrent_claims_of_one_resource_have_one_winner(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let results = claim_concurrently(world, 16, ClaimTarget::One(stored.id())).await?;
    equal("the number of leases", &results.len(), &1)
}

/// The leases of several concurrent workers.
async fn claim_concurrently(
    world: &World,
    workers: usize,
    target: ClaimTarget,
) -> Checked<Vec<Lease>> {
    let names: Vec<_> = (0..workers).map(|number| format!("worker-{number}")).collect();
    let results = try_join_all(names.iter().map(|name| world.claim(name, target))).await?;
    Ok(results.into_iter().flatten().collect())
}

async fn concurrent_claims_never_share_a_resource(world: &World) -> Outcome {
    let in_project = |number| nth_resource(number).in_project(project(1 + number % 3));
    world.store_all((1..=12).map(in_project)).await?;
    let target = ClaimTarget::Due { lane: Lane::Converge, limit: rows(3) };
    let leases = claim_concurrently(world, 6, target).await?;
    let mut claimed: Vec<_> = leases.iter().map(|lease| lease.resource).collect();
    // Concurrent claims may leave work for the next one, but never share a resource.
    claimed.extend(world.due_resources(Lane::Converge).await?);
    claimed.sort_unstable();
    equal("the claimed resources", &claimed, &ids(1..=12))
}

async fn an_expired_lease_is_taken_over(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let expired = world.take_lease("a", stored.id()).await?;
    require(!expired.takeover, "the first lease counts as a takeover")?;
    world.advance(HOUR * 2).await?;
    let mut leases = world.claim_due(Lane::Converge, 10).await?;
    let takeover = leases.pop().ok_or(Violation::new("an expired lease is never taken over"))?;
    require(takeover.takeover, "a takeover is not marked")?;
    equal("the epoch of the lease", &takeover.epoch, &expired.epoch.next())
}

async fn lanes_are_separate_and_exclude_settled_resources(world: &World) -> Outcome {
    let in_phase = |(number, phase)| nth_resource(number).rolling_back().in_phase(phase);
    world.store_all((1..).zip(Phase::ALL).map(in_phase)).await?;
    equal("the due teardowns", &world.due_resources(Lane::Teardown).await?, &ids([6, 7]))?;
    equal(
        "the resources to converge",
        &world.due_resources(Lane::Converge).await?,
        &ids([1, 2, 3, 4, 5]),
    )?;
    // Settled resources are in no lane, and cannot be claimed by id, like missing ones.
    world.store(&nth_resource(9).failed()).await?;
    require_nothing_due(world).await?;
    for resource in ids([8, 9, 10]) {
        equal("the claim of a settled resource", &world.claim_one("a", resource).await?, &None)?;
    }
    Ok(())
}

async fn require_nothing_due(world: &World) -> Outcome {
    for lane in [Lane::Converge, Lane::Teardown] {
        equal("the due resources", &world.due_resources(lane).await?, &vec![])?;
    }
    Ok(())
}

/// An operator who abandons a paused resource first claims it manually.
async fn a_paused_resource_is_only_claimed_manually(world: &World) -> Outcome {
    world.store_all([nth_resource(1), nth_resource(2).deregistering()]).await?;
    for resource in ids(1..=2) {
        world.pause(resource, true).await?;
        equal("the claim by id", &world.claim_one("a", resource).await?, &None)?;
    }
    require_nothing_due(world).await?;
    for resource in ids(1..=2) {
        for (name, leases) in [("b", 1), ("c", 0)] {
            let claimed = world.claim(name, ClaimTarget::EvenPaused(resource)).await?;
            equal("the leases of a manual claim", &claimed.len(), &leases)?;
        }
    }
    // A pause does not stop a running pass.
    let stored = world.store(&nth_resource(3)).await?;
    let lease = world.take_lease("a", stored.id()).await?;
    world.pause(stored.id(), true).await?;
    let change = phase_change(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&lease, &change).await?;
    world.release_lease(&lease, change.resource().version(), &successful_pass()).await
}

async fn a_claim_respects_its_limit(world: &World) -> Outcome {
    world.store_all((1..=5).map(nth_resource)).await?;
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(world.claim_due(Lane::Converge, 2).await?.len());
    }
    equal("the sizes of successive claims", &counts, &vec![2, 2, 1, 0])
}

/// One Project has many resources that are long due; two other Projects have one resource each, just due.
async fn projects_take_turns_for_any_claim_size(world: &World) -> Outcome {
    world.store_all((1..=20).map(nth_resource)).await?;
    world.advance(HOUR).await?;
    for number in [21, 22] {
        world.store(&nth_resource(number).in_project(project(number))).await?;
    }
    for (claims, limit) in [(1, 3), (3, 1)] {
        let mut served = BTreeSet::new();
        for _ in 0..claims {
            for lease in world.claim_due(Lane::Converge, limit).await? {
                served.insert(world.get(lease.resource).await?.project_id());
            }
        }
        let expected = [project(1), project(21), project(22)].into();
        equal(&format!("{claims} claims of {limit} served"), &served, &expected)?;
        world.advance(HOUR * 2).await?;
    }
    Ok(())
}

async fn within_a_project_the_longest_due_comes_first(world: &World) -> Outcome {
    for number in [3, 1, 2] {
        world.store(&nth_resource(number)).await?;
        world.advance(HOUR).await?;
    }
    for expected in [3, 1, 2] {
        let claimed = world.claim_due(Lane::Converge, 1).await?;
        let claimed: Vec<_> = claimed.into_iter().map(|lease| lease.resource).collect();
        equal("the claimed resource", &claimed, &vec![id(expected)])?;
    }
    Ok(())
}

/// The declaration or the first apply binds a resource. A claim of any cluster gets an unbound resource.
async fn claim_of_another_cluster_gets_nothing(world: &World) -> Outcome {
    let declared = nth_resource(1).bound_to(cluster(1));
    let applied = nth_resource(2).in_project(project(2)).with_substrate();
    let unbound = nth_resource(3).in_project(project(3));
    let applied = world.store(&applied).await?;
    require(applied.substrate().cluster().is_some(), "the substrate has no cluster")?;
    let bound = [world.store(&declared).await?, applied];
    world.store(&unbound).await?;
    for resource in &bound {
        let any_due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(10) };
        for target in
            [ClaimTarget::One(resource.id()), ClaimTarget::EvenPaused(resource.id()), any_due]
        {
            let request = ClaimRequest::new(worker("elsewhere"), target, HOUR);
            let claimed = world.schedule().claim(&request.on_cluster(cluster(9))).await?;
            let foreign = claimed.iter().any(|lease| lease.resource == resource.id());
            require(!foreign, &format!("{target:?} claimed a resource of another cluster"))?;
        }
        let own_cluster = resource.substrate().cluster().cloned();
        let own_cluster = own_cluster.ok_or(Violation::new("a bound resource has no cluster"))?;
        let request = ClaimRequest::new(worker("home"), ClaimTarget::One(resource.id()), HOUR);
        let claimed = world.schedule().claim(&request.on_cluster(own_cluster)).await?;
        equal("the leases of its own cluster's claim", &claimed.len(), &1)?;
    }
    let held = world.entry(unbound.id()).await?.lease.map(|(worker, _)| worker);
    equal("the holder of an unbound resource", &held, &Some(worker("elsewhere")))?;
    // A worker without a cluster gets resources of every cluster.
    world.advance(HOUR * 2).await?;
    equal("the due resources", &world.due_resources(Lane::Converge).await?, &ids(1..=3))
}
