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
    let stored = world.stored(&resource()).await?;
    for epoch in 1..=3 {
        let lease = world.hold("a", stored.id()).await?;
        same("the epoch is", &lease.epoch, &LeaseEpoch::new(epoch))?;
        same("the schedule's is", &world.entry(stored.id()).await?.epoch, &lease.epoch)?;
        require(!lease.takeover, "a released lease counts as a takeover")?;
        // A held resource is not claimable, not even by its holder.
        for name in ["a", "b"] {
            same(name, &world.claim_one(name, stored.id()).await?, &None)?;
        }
        same("due is", &world.due_in(Lane::Converge).await?, &vec![])?;
        world.release_lease(&lease, stored.version(), &succeeded()).await?;
    }
    Ok(())
}

async fn a_lease_names_resource_holder_and_end(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &failed_pass()).await?;
    let lease = world.hold("a", stored.id()).await?;
    same("it is on", &lease.resource, &stored.id())?;
    same("it is held by", &lease.worker, &worker("a"))?;
    same("failed attempts are", &lease.attempts, &1)?;
    let entry = world.entry(stored.id()).await?;
    same("the lease in the schedule", &entry.lease, &Some((worker("a"), lease.until)))?;
    let left: Duration = (lease.until - entry.now).try_into()?;
    require(left <= HOUR && left > HOUR / 2, "the lease has another duration than requested")
}

async fn concurrent_claims_of_one_resource_have_one_winner(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let answers = claim_concurrently(world, 16, ClaimTarget::One(stored.id())).await?;
    same("the number of leases", &answers.len(), &1)
}

/// The leases of several concurrent workers.
async fn claim_concurrently(
    world: &World,
    workers: usize,
    target: ClaimTarget,
) -> Checked<Vec<Lease>> {
    let names: Vec<_> = (0..workers).map(|number| format!("worker-{number}")).collect();
    let answers = try_join_all(names.iter().map(|name| world.claim(name, target))).await?;
    Ok(answers.into_iter().flatten().collect())
}

async fn concurrent_claims_never_share_a_resource(world: &World) -> Outcome {
    let of_project = |number| numbered(number).in_project(project(1 + number % 3));
    world.store_all((1..=12).map(of_project)).await?;
    let target = ClaimTarget::Due { lane: Lane::Converge, limit: rows(3) };
    let leases = claim_concurrently(world, 6, target).await?;
    let mut claimed: Vec<_> = leases.iter().map(|lease| lease.resource).collect();
    // Concurrent claims may leave work for the next one, but never share a resource.
    claimed.extend(world.due_in(Lane::Converge).await?);
    claimed.sort_unstable();
    same("every resource was claimed once", &claimed, &ids(1..=12))
}

async fn an_expired_lease_is_taken_over(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lost = world.hold("a", stored.id()).await?;
    require(!lost.takeover, "the first lease counts as a takeover")?;
    world.advance(HOUR * 2).await?;
    let mut leases = world.claim_due(Lane::Converge, 10).await?;
    let taken = leases.pop().ok_or(Violation::new("an expired lease is never taken over"))?;
    require(taken.takeover, "a takeover is not marked")?;
    same("the epoch is", &taken.epoch, &lost.epoch.next())
}

async fn lanes_are_separate_and_exclude_settled_resources(world: &World) -> Outcome {
    let of_phase = |(number, phase)| numbered(number).rolling_back().in_phase(phase);
    world.store_all((1..).zip(Phase::ALL).map(of_phase)).await?;
    same("teardown has", &world.due_in(Lane::Teardown).await?, &ids([6, 7]))?;
    same("converge has", &world.due_in(Lane::Converge).await?, &ids([1, 2, 3, 4, 5]))?;
    // Settled resources are in no lane, and cannot be claimed by id, like missing ones.
    world.stored(&numbered(9).failed()).await?;
    nothing_is_due(world).await?;
    for resource in ids([8, 9, 10]) {
        same("the claim of a settled resource", &world.claim_one("a", resource).await?, &None)?;
    }
    Ok(())
}

async fn nothing_is_due(world: &World) -> Outcome {
    for lane in [Lane::Converge, Lane::Teardown] {
        same("due is", &world.due_in(lane).await?, &vec![])?;
    }
    Ok(())
}

/// An operator who abandons a paused resource first claims it manually.
async fn a_paused_resource_is_only_claimed_manually(world: &World) -> Outcome {
    world.store_all([numbered(1), numbered(2).deregistering()]).await?;
    for resource in ids(1..=2) {
        world.pause(resource, true).await?;
        same("the claim by id", &world.claim_one("a", resource).await?, &None)?;
    }
    nothing_is_due(world).await?;
    for resource in ids(1..=2) {
        for (name, leases) in [("b", 1), ("c", 0)] {
            let claimed = world.claim(name, ClaimTarget::EvenPaused(resource)).await?;
            same("the leases of a manual claim", &claimed.len(), &leases)?;
        }
    }
    // A pause does not stop a running pass.
    let stored = world.stored(&numbered(3)).await?;
    let lease = world.hold("a", stored.id()).await?;
    world.pause(stored.id(), true).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&lease, &change).await?;
    world.release_lease(&lease, change.resource().version(), &succeeded()).await
}

async fn a_claim_respects_its_limit(world: &World) -> Outcome {
    world.store_all((1..=5).map(numbered)).await?;
    let mut counts = Vec::new();
    for _ in 0..4 {
        counts.push(world.claim_due(Lane::Converge, 2).await?.len());
    }
    same("the sizes of successive claims", &counts, &vec![2, 2, 1, 0])
}

/// One Project has many resources that have been due for long; two others have one each, due just now.
async fn projects_take_turns_for_any_claim_size(world: &World) -> Outcome {
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

async fn within_a_project_the_longest_due_comes_first(world: &World) -> Outcome {
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

/// Bound by the declaration or by the first apply. An unbound resource belongs to any cluster.
async fn claim_of_another_cluster_gets_nothing(world: &World) -> Outcome {
    let declared = numbered(1).bound_to(cluster(1));
    let applied = numbered(2).in_project(project(2)).with_substrate();
    let unbound = numbered(3).in_project(project(3));
    let standing = world.stored(&applied).await?;
    require(standing.substrate().cluster().is_some(), "the substrate has no cluster")?;
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
        let home = home.ok_or(Violation::new("a bound resource has no cluster"))?;
        let request = ClaimRequest::new(worker("home"), ClaimTarget::One(resource.id()), HOUR);
        let claimed = world.schedule().claim(&request.on_cluster(home)).await?;
        same("the leases of its own cluster's claim", &claimed.len(), &1)?;
    }
    let held = world.entry(unbound.id()).await?.lease.map(|(worker, _)| worker);
    same("a resource that is bound to no cluster is held by", &held, &Some(worker("elsewhere")))?;
    // A worker without a cluster gets resources of every cluster.
    world.advance(HOUR * 2).await?;
    same("the due resources", &world.due_in(Lane::Converge).await?, &ids(1..=3))
}
