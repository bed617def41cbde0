//! Cases for `release`: when a resource is due again.

use super::helpers::BACKOFF;
use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_success_is_due_at_its_requested_time,
        a_failure_is_counted_and_kept_until_a_success,
        failures_back_off_with_bounds_and_jitter,
        a_requested_back_off_is_kept_within_bounds,
        a_pass_that_ended_early_backs_off,
        a_release_of_an_unreadable_row_counts_its_failure,
        a_release_expects_the_version_of_its_own_writes,
        a_release_never_postpones_a_concurrent_request,
        a_claim_settles_earlier_requests,
        a_release_may_bring_forward_a_changed_row,
        a_lost_lease_releases_nothing,
        an_expired_lease_is_released_unless_taken_over,
    ]
}

async fn a_success_is_due_at_its_requested_time(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    world.run_pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR) }).await?;
    require_due_in(&world.entry(stored.id()).await?, HOUR)?;
    equal("the due resources", &world.due_resources(Lane::Converge).await?, &vec![])?;
    world.advance(HOUR * 2).await?;
    equal("the due resources", &world.due_resources(Lane::Converge).await?, &vec![stored.id()])?;
    world.advance(HOUR * 2).await?;
    // A success without a time leaves the resource to the sweep.
    world.run_pass(&stored, &successful_pass()).await?;
    equal("the due time", &world.entry(stored.id()).await?.due_at, &None)?;
    world.advance(LONG).await?;
    equal("the due resources", &world.due_resources(Lane::Converge).await?, &vec![])?;
    world.take_lease("sweep", stored.id()).await?;
    Ok(())
}

async fn a_failure_is_counted_and_kept_until_a_success(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let error = Some(("cluster_transient".to_owned(), "the API server is down".to_owned()));
    for attempts in 1..=3 {
        world.run_pass(&stored, &failed_pass()).await?;
        let entry = world.entry(stored.id()).await?;
        equal("the failed attempts", &entry.attempts, &attempts)?;
        equal("the last error", &entry.last_error, &error)?;
    }
    world.run_pass(&stored, &successful_pass()).await?;
    let entry = world.entry(stored.id()).await?;
    equal("the failed attempts", &entry.attempts, &0)?;
    equal("the last error", &entry.last_error, &None)
}

async fn failures_back_off_with_bounds_and_jitter(world: &World) -> Outcome {
    let longest = (1..64).find(|attempts| BACKOFF.ceiling(*attempts) == BACKOFF.longest);
    let longest = longest.ok_or(Violation::new("the back-off never reaches its bound"))?;
    let mut waits = BTreeSet::new();
    for number in 1..=12 {
        let stored = world.store(&nth_resource(number)).await?;
        world.run_pass(&stored, &failed_pass()).await?;
        let first = remaining_wait(&world.entry(stored.id()).await?)?;
        require(first <= BACKOFF.first, &format!("the back-off after one failure is {first:?}"))?;
        for _ in 1..longest {
            world.run_pass(&stored, &failed_pass()).await?;
        }
        let last = remaining_wait(&world.entry(stored.id()).await?)?;
        require(last <= BACKOFF.longest, &format!("the back-off after many failures is {last:?}"))?;
        waits.insert(last);
    }
    require(waits.len() > 6, "the back-off has no jitter")?;
    let grown = waits.last().is_some_and(|wait| *wait > BACKOFF.first);
    require(grown, "the back-off does not grow")
}

async fn a_requested_back_off_is_kept_within_bounds(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let longest = BACKOFF.longest;
    for requested in [longest, longest + HOUR] {
        world.run_pass(&stored, &failed_pass_with_retry_after(requested)).await?;
        require_due_in(&world.entry(stored.id()).await?, longest)?;
    }
    Ok(())
}

async fn a_pass_that_ended_early_backs_off(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let ended_early = |number: u32| PassOutcome::Ended {
        reason: "lost_race".to_owned(),
        message: format!("another writer was first, {number} times"),
        backoff: BACKOFF,
    };
    let mut longest = Duration::ZERO;
    for attempts in 1..=24 {
        world.run_pass(&stored, &ended_early(attempts)).await?;
        let entry = world.entry(stored.id()).await?;
        let left = remaining_wait(&entry)?;
        let ceiling = BACKOFF.ceiling(attempts);
        require(left <= ceiling, &format!("the back-off after {attempts} early ends is {left:?}"))?;
        longest = longest.max(left);
        equal("the attempts", &entry.attempts, &attempts)?;
        let reason = entry.last_error.map(|(reason, _)| reason);
        equal("the last reason", &reason.as_deref(), &Some("lost_race"))?;
    }
    require(longest > BACKOFF.first * 2, "the back-off of early ends does not grow")
}

async fn a_release_of_an_unreadable_row_counts_its_failure(world: &World) -> Outcome {
    let stored = world.store(&resource().provisioning()).await?;
    let lease = world.take_lease("a", stored.id()).await?;
    world.release_lease(&lease, Version::UNSTORED, &failed_pass()).await?;
    let entry = world.entry(stored.id()).await?;
    equal("the failed attempts", &entry.attempts, &1)?;
    require(entry.last_error.is_some(), "the failure is not kept")?;
    let again = world.take_lease("b", stored.id()).await?;
    require(!again.takeover, "a released lease counts as a takeover")
}

async fn a_release_expects_the_version_of_its_own_writes(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let lease = world.take_lease("a", stored.id()).await?;
    let change = phase_change(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&lease, &change).await?;
    let outcome = PassOutcome::Succeeded { due_in: Some(HOUR) };
    world.release_lease(&lease, change.resource().version(), &outcome).await?;
    require(!is_due(&world.entry(stored.id()).await?), "a write of the pass keeps the resource due")
}

/// Only the deletion changes the row, which clears failures.
async fn a_release_never_postpones_a_concurrent_request(world: &World) -> Outcome {
    let later = PassOutcome::Succeeded { due_in: Some(HOUR) };
    let outcomes = [(successful_pass(), 0), (later, 0), (failed_pass_with_retry_after(HOUR), 1)];
    for (first, (outcome, attempts)) in (1..).step_by(3).zip(outcomes) {
        for (number, request) in
            (first..).zip(["a deletion", "a scheduled pass", "the end of a pause"])
        {
            let stored = world.store(&nth_resource(number)).await?;
            let lease = world.take_lease("a", stored.id()).await?;
            let attempts = if request == "a deletion" {
                world
                    .commit(WriteKind::DeletionIntent, &deletion_request(&stored, number)?)
                    .await?;
                0
            } else if request == "a scheduled pass" {
                world.schedule().schedule(stored.id(), Due::Now).await?;
                attempts
            } else {
                world.pause(stored.id(), true).await?;
                world.pause(stored.id(), false).await?;
                attempts
            };
            world.release_lease(&lease, stored.version(), &outcome).await?;
            let entry = world.entry(stored.id()).await?;
            require(is_due(&entry), &format!("{outcome:?} postponed {request}"))?;
            equal("the failed attempts", &entry.attempts, &attempts)?;
        }
    }
    Ok(())
}

/// Otherwise a resource that was scheduled once would stay due.
async fn a_claim_settles_earlier_requests(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    world.schedule().schedule(stored.id(), Due::Now).await?;
    for paused in [true, false] {
        world.pause(stored.id(), paused).await?;
    }
    let any_due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(10) };
    for target in [ClaimTarget::One(stored.id()), any_due] {
        world.schedule().schedule(stored.id(), Due::Now).await?;
        for lease in world.claim("a", target).await? {
            world.release_lease(&lease, stored.version(), &successful_pass()).await?;
        }
        equal("the due time", &world.entry(stored.id()).await?.due_at, &None)?;
    }
    Ok(())
}

async fn a_release_may_bring_forward_a_changed_row(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    world.run_pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR * 4) }).await?;
    let lease = world.take_lease("a", stored.id()).await?;
    let token = stored.record_token(id(9), stored.token_ordinal(), stored.updated_at())?;
    world.commit(WriteKind::Token, &token).await?;
    let outcome = PassOutcome::Succeeded { due_in: Some(Duration::ZERO) };
    world.release_lease(&lease, stored.version(), &outcome).await?;
    require(is_due(&world.entry(stored.id()).await?), "a release made nothing due earlier")
}

async fn a_lost_lease_releases_nothing(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let expired = world.take_lease("cut-off", stored.id()).await?;
    world.advance(HOUR * 2).await?;
    let successor = world.take_lease("successor", stored.id()).await?;
    require_release_lost(world, &expired, &stored).await?;
    // A lease is released once.
    world.release_lease(&successor, stored.version(), &failed_pass()).await?;
    require_release_lost(world, &successor, &stored).await
}

async fn require_release_lost(
    world: &World,
    lease: &Lease,
    stored: &ProvisionedResource,
) -> Outcome {
    let before = world.state_of(stored.id()).await?;
    for outcome in [successful_pass(), failed_pass()] {
        let released = world.schedule().release(lease, stored.version(), &outcome).await?;
        equal("the result of the call", &released, &Released::LeaseLost)?;
    }
    world.require_untouched(stored.id(), &before).await
}

async fn an_expired_lease_is_released_unless_taken_over(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let lease = world.take_lease("slow", stored.id()).await?;
    world.advance(HOUR * 2).await?;
    world.release_lease(&lease, stored.version(), &successful_pass()).await?;
    let next = world.take_lease("b", stored.id()).await?;
    require(!next.takeover, "a lease that was released late counts as a takeover")
}
