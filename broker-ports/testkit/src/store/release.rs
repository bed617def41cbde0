//! Promises of `release`: when a resource is due again.

use broker_ports::Backoff;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_success_is_due_again_when_it_said,
        a_failure_is_counted_and_kept_until_a_success,
        failures_back_off_within_bounds_and_apart,
        a_failure_waits_as_long_as_it_was_asked_to_within_bounds,
        a_pass_that_ended_early_backs_off_from_soon,
        a_row_that_was_not_read_is_released_with_its_failure,
        a_release_counts_from_the_versions_of_its_own_writes,
        a_release_never_puts_off_what_somebody_wanted_meanwhile,
        a_wish_from_before_a_claim_is_heard_by_it,
        a_release_may_bring_forward_what_somebody_changed,
        a_lost_lease_gives_nothing_back,
        a_lease_that_is_over_and_was_not_taken_is_given_back,
    ]
}

async fn a_success_is_due_again_when_it_said(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR) }).await?;
    due_in(&world.entry(stored.id()).await?, HOUR)?;
    same("due is", &world.due_in(Lane::Converge).await?, &vec![])?;
    world.advance(HOUR * 2).await?;
    same("due is", &world.due_in(Lane::Converge).await?, &vec![stored.id()])?;
    world.advance(HOUR * 2).await?;
    // One that names no time leaves it to the sweep.
    world.pass(&stored, &went_well()).await?;
    same("it is due at", &world.entry(stored.id()).await?.due_at, &None)?;
    world.advance(LONG).await?;
    same("due is", &world.due_in(Lane::Converge).await?, &vec![])?;
    world.hold("sweep", stored.id()).await?;
    Ok(())
}

async fn a_failure_is_counted_and_kept_until_a_success(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let error = Some(("cluster_transient".to_owned(), "the API server is away".to_owned()));
    for attempts in 1..=3 {
        world.pass(&stored, &went_wrong()).await?;
        let entry = world.entry(stored.id()).await?;
        same("failed attempts are", &entry.attempts, &attempts)?;
        same("the last error is", &entry.last_error, &error)?;
    }
    world.pass(&stored, &went_well()).await?;
    let entry = world.entry(stored.id()).await?;
    same("failed attempts are", &entry.attempts, &0)?;
    same("the last error is", &entry.last_error, &None)
}

async fn failures_back_off_within_bounds_and_apart(world: &World) -> Outcome {
    let backoff = world.backoff();
    let longest = (1..64).find(|attempts| backoff.ceiling(*attempts) == backoff.longest);
    let longest = longest.ok_or(Violation::new("the back-off never reaches its bound"))?;
    let mut late = BTreeSet::new();
    for number in 1..=12 {
        let stored = world.stored(&numbered(number)).await?;
        world.pass(&stored, &went_wrong()).await?;
        let first = wait(&world.entry(stored.id()).await?)?;
        require(first <= backoff.first, &format!("one failure puts it off by {first:?}"))?;
        for _ in 1..longest {
            world.pass(&stored, &went_wrong()).await?;
        }
        let last = wait(&world.entry(stored.id()).await?)?;
        require(last <= backoff.longest, &format!("failures put it off by {last:?}"))?;
        late.insert(last);
    }
    require(late.len() > 6, "what failed together comes back together")?;
    let grown = late.last().is_some_and(|wait| *wait > backoff.first);
    require(grown, "many failures put it off for no longer than one")
}

async fn a_failure_waits_as_long_as_it_was_asked_to_within_bounds(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let longest = world.backoff().longest;
    for asked in [longest, longest + HOUR] {
        world.pass(&stored, &asked_to_wait(asked)).await?;
        due_in(&world.entry(stored.id()).await?, longest)?;
    }
    Ok(())
}

async fn a_pass_that_ended_early_backs_off_from_soon(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let ended = |number: u32| PassOutcome::Ended {
        reason: "lost_race".to_owned(),
        message: format!("something else was first, {number} times"),
    };
    let mut longest = Duration::ZERO;
    for attempts in 1..=24 {
        world.pass(&stored, &ended(attempts)).await?;
        let entry = world.entry(stored.id()).await?;
        let left = wait(&entry)?;
        let ceiling = Backoff::new(Backoff::SOON, world.backoff().longest).ceiling(attempts);
        require(left <= ceiling, &format!("{attempts} endings put it off by {left:?}"))?;
        longest = longest.max(left);
        same("attempts are", &entry.attempts, &attempts)?;
        let reason = entry.last_error.map(|(reason, _)| reason);
        same("the last reason is", &reason.as_deref(), &Some("lost_race"))?;
    }
    require(longest > Backoff::SOON * 2, "endings never back off")
}

async fn a_row_that_was_not_read_is_released_with_its_failure(world: &World) -> Outcome {
    let stored = world.stored(&resource().provisioning()).await?;
    let lease = world.hold("a", stored.id()).await?;
    world.give_back(&lease, Version::UNSTORED, &went_wrong()).await?;
    let entry = world.entry(stored.id()).await?;
    same("failed attempts are", &entry.attempts, &1)?;
    require(entry.last_error.is_some(), "the failure is not kept")?;
    let again = world.hold("b", stored.id()).await?;
    require(!again.takeover, "a lease that was given back counts as taken over")
}

async fn a_release_counts_from_the_versions_of_its_own_writes(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("a", stored.id()).await?;
    let change = to(&stored, Phase::Provisioning, 1)?;
    world.commit_as(&lease, &change).await?;
    let outcome = PassOutcome::Succeeded { due_in: Some(HOUR) };
    world.give_back(&lease, change.resource().version(), &outcome).await?;
    require(!is_due(&world.entry(stored.id()).await?), "its own write keeps it due")
}

/// A deletion, a wish, or the end of a pause. Only a deletion is a change, which forgets failures.
async fn a_release_never_puts_off_what_somebody_wanted_meanwhile(world: &World) -> Outcome {
    let later = PassOutcome::Succeeded { due_in: Some(HOUR) };
    let outcomes = [(went_well(), 0), (later, 0), (asked_to_wait(HOUR), 1)];
    for (first, (outcome, attempts)) in (1..).step_by(3).zip(outcomes) {
        for (number, want) in (first..).zip(["a deletion", "a wish", "the end of a pause"]) {
            let stored = world.stored(&numbered(number)).await?;
            let lease = world.hold("a", stored.id()).await?;
            let attempts = if want == "a deletion" {
                world.commit(WriteKind::DeletionIntent, &deletion(&stored, number)?).await?;
                0
            } else if want == "a wish" {
                world.schedule().schedule(stored.id(), Due::Now).await?;
                attempts
            } else {
                world.pause(stored.id(), true).await?;
                world.pause(stored.id(), false).await?;
                attempts
            };
            world.give_back(&lease, stored.version(), &outcome).await?;
            let entry = world.entry(stored.id()).await?;
            require(is_due(&entry), &format!("{want} was put off by {outcome:?}"))?;
            same("failed attempts are", &entry.attempts, &attempts)?;
        }
    }
    Ok(())
}

/// Else every resource that somebody ever set due would be looked at without end.
async fn a_wish_from_before_a_claim_is_heard_by_it(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.schedule().schedule(stored.id(), Due::Now).await?;
    for paused in [true, false] {
        world.pause(stored.id(), paused).await?;
    }
    let any_due = ClaimTarget::Due { lane: Lane::Converge, limit: rows(10) };
    for target in [ClaimTarget::One(stored.id()), any_due] {
        world.schedule().schedule(stored.id(), Due::Now).await?;
        for lease in world.claim("a", target).await? {
            world.give_back(&lease, stored.version(), &went_well()).await?;
        }
        same("it is due at", &world.entry(stored.id()).await?.due_at, &None)?;
    }
    Ok(())
}

async fn a_release_may_bring_forward_what_somebody_changed(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    world.pass(&stored, &PassOutcome::Succeeded { due_in: Some(HOUR * 4) }).await?;
    let lease = world.hold("a", stored.id()).await?;
    let token = stored.record_token(id(9), stored.token_ordinal(), stored.updated_at())?;
    world.commit(WriteKind::Token, &token).await?;
    let outcome = PassOutcome::Succeeded { due_in: Some(Duration::ZERO) };
    world.give_back(&lease, stored.version(), &outcome).await?;
    require(is_due(&world.entry(stored.id()).await?), "a release did not bring it forward")
}

async fn a_lost_lease_gives_nothing_back(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lost = world.hold("cut-off", stored.id()).await?;
    world.advance(HOUR * 2).await?;
    let taken = world.hold("successor", stored.id()).await?;
    nothing_is_given_back(world, &lost, &stored).await?;
    // And a lease is given back once.
    world.give_back(&taken, stored.version(), &went_wrong()).await?;
    nothing_is_given_back(world, &taken, &stored).await
}

async fn nothing_is_given_back(
    world: &World,
    lease: &Lease,
    stored: &ProvisionedResource,
) -> Outcome {
    let before = world.facts(stored.id()).await?;
    for outcome in [went_well(), went_wrong()] {
        let released = world.schedule().release(lease, stored.version(), &outcome).await?;
        same("it is answered", &released, &Released::LeaseLost)?;
    }
    world.require_untouched(stored.id(), &before).await
}

async fn a_lease_that_is_over_and_was_not_taken_is_given_back(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let lease = world.hold("slow", stored.id()).await?;
    world.advance(HOUR * 2).await?;
    world.give_back(&lease, stored.version(), &went_well()).await?;
    let next = world.hold("b", stored.id()).await?;
    require(!next.takeover, "a lease that was given back late is said to be taken over")
}
