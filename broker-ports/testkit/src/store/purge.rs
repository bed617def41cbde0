//! Promises of `history`, `scrub_audit` and `purge_deleted`.

use broker_ports::Actor;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        history_is_oldest_first,
        histories_of_resources_are_apart,
        history_outlives_its_resource,
        scrubbing_blanks_what_people_wrote_and_nothing_else,
        scrubbing_twice_blanks_once,
        scrubbing_what_has_no_audit_leaves_no_line,
        only_what_was_deleted_for_long_is_purged,
        a_purge_waits_for_events_to_be_acknowledged,
        a_purge_waits_for_what_was_set_aside_until_it_is_skipped,
        every_purged_resource_has_its_audit_line,
        a_purge_takes_no_more_than_it_was_told,
        a_purged_resource_is_gone,
        a_purge_frees_the_request_id,
    ]
}

const AFTER_AN_HOUR: PurgeRequest = PurgeRequest::new(HOUR, PageSize::MAX);

async fn history_is_oldest_first(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().deleted()).await?;
    let history = world.repository().history(stored.id()).await?;
    let actions: Vec<_> = history.iter().map(|line| line.entry.action).collect();
    let expected = vec![
        AuditAction::Declared,
        AuditAction::TokenRecorded,
        AuditAction::PhaseChanged,
        AuditAction::PhaseChanged,
        AuditAction::PhaseChanged,
        AuditAction::DeletionRequested,
        AuditAction::TokensClosedRecorded,
        AuditAction::PhaseChanged,
        AuditAction::PhaseChanged,
    ];
    same("the audit says", &actions, &expected)?;
    for pair in history.windows(2) {
        require(pair[0].sequence < pair[1].sequence, "the audit is out of order")?;
        require(pair[0].at <= pair[1].at, "a later line has an earlier time")?;
    }
    Ok(())
}

async fn histories_of_resources_are_apart(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource().ready()).await?;
    let other = world.stored(&resource().numbered(2)).await?;
    same(
        "the other's audit says",
        &world.actions(other.id()).await?,
        &vec![AuditAction::Declared],
    )?;
    same("an unknown one's says", &world.actions(id(3)).await?, &vec![])
}

async fn history_outlives_its_resource(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().deleted()).await?;
    world.deliver_all().await?;
    let mut expected = world.actions(stored.id()).await?;
    world.advance(LONG).await?;
    let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    same("it purged", &purged, &vec![stored.id()])?;
    expected.push(AuditAction::Purged);
    same("the audit says", &world.actions(stored.id()).await?, &expected)
}

async fn scrubbing_blanks_what_people_wrote_and_nothing_else(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource().ready()).await?;
    let other = world.stored(&resource().numbered(2)).await?;
    for resource in [stored.id(), stored.id(), other.id()] {
        let entry = AuditEntry::new(AuditAction::SubstrateApply, attribution())
            .in_project(project(1))
            .about(resource)
            .in_phase(Phase::Ready)
            .with_event_data("as Jane said");
        world.audit().record(&entry).await?;
    }
    let before = world.audit_trail().await?;
    let blanked = world.repository().scrub_audit(stored.id(), &attribution()).await?;
    same("so many lines were blanked", &blanked, &2)?;

    let mut after = world.audit_trail().await?;
    let last = after.pop().map(|line| line.entry);
    let last = last.map(|entry| (entry.resource, entry.project, entry.action));
    let expected = Some((Some(stored.id()), Some(stored.project_id()), AuditAction::AuditScrubbed));
    same("scrubbing left the line", &last, &expected)?;
    let expected: Vec<_> = before
        .into_iter()
        .map(|mut line| {
            if line.entry.resource == Some(stored.id()) {
                line.entry.event_data = None;
            }
            line
        })
        .collect();
    same("the audit is", &after, &expected)
}

async fn scrubbing_twice_blanks_once(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let entry = AuditEntry::new(AuditAction::SubstrateApply, attribution())
        .about(stored.id())
        .with_event_data("as Jane said");
    world.audit().record(&entry).await?;
    for expected in [1, 0] {
        let blanked = world.repository().scrub_audit(stored.id(), &attribution()).await?;
        same("so many lines were blanked", &blanked, &expected)?;
    }
    Ok(())
}

async fn scrubbing_what_has_no_audit_leaves_no_line(world: &dyn StoreUnderTest) -> Outcome {
    let blanked = world.repository().scrub_audit(id(1), &attribution()).await?;
    same("so many lines were blanked", &blanked, &0)?;
    require(world.audit_trail().await?.is_empty(), "scrubbing nothing left a line")
}

async fn only_what_was_deleted_for_long_is_purged(world: &dyn StoreUnderTest) -> Outcome {
    for (number, phase) in (1..).zip(Phase::ALL) {
        world.stored(&resource().numbered(number).in_phase(phase)).await?;
    }
    world.advance(LONG).await?;
    let fresh = world.stored(&resource().numbered(20).deleted()).await?;
    world.deliver_all().await?;
    let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    same("it purged", &purged, &vec![id(8)])?;
    world.get(fresh.id()).await?;
    for number in 1..=7 {
        world.get(id(number)).await?;
    }
    Ok(())
}

async fn a_purge_waits_for_events_to_be_acknowledged(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().deleted()).await?;
    world.advance(LONG).await?;
    for _ in 0..4 {
        let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
        same("with an event that waits it purged", &purged, &vec![])?;
        let event = world.claim_event("relay").await?;
        let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
        same("with an event under way it purged", &purged, &vec![])?;
        world.acknowledge(&event).await?;
    }
    let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    same("with all events acknowledged it purged", &purged, &vec![stored.id()])
}

async fn a_purge_waits_for_what_was_set_aside_until_it_is_skipped(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let stored = world.stored(&resource().deleted()).await?;
    for _ in 0..3 {
        let event = world.claim_event("relay").await?;
        world.acknowledge(&event).await?;
    }
    let last = world.claim_event("relay").await?;
    let taken = world.outbox().set_aside_event(&last.claim, "refused").await?;
    same("setting aside is answered", &taken, &Acknowledged::Done)?;
    world.advance(LONG).await?;
    let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    same("with an event set aside it purged", &purged, &vec![])?;
    world.outbox().resume_events(stored.id(), Resume::Skip, &attribution()).await?;
    let purged = world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    same("with that event skipped it purged", &purged, &vec![stored.id()])
}

async fn every_purged_resource_has_its_audit_line(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=3 {
        world.stored(&resource().numbered(number).deleted()).await?;
    }
    world.deliver_all().await?;
    world.advance(LONG).await?;
    let before = world.audit_trail().await?.len();
    world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    let lines = world.audit_trail().await?.split_off(before);
    let mut said: Vec<_> =
        lines.iter().map(|line| (line.entry.resource, line.entry.action)).collect();
    said.sort_unstable();
    let expected = (1..=3).map(|number| (Some(id(number)), AuditAction::Purged)).collect();
    same("the audit says", &said, &expected)?;
    let by_the_broker = lines.iter().all(|line| line.entry.attribution.actor == Actor::system());
    require(by_the_broker, "a purge is attributed to somebody else than the broker")
}

async fn a_purge_takes_no_more_than_it_was_told(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=5 {
        world.stored(&resource().numbered(number).deleted()).await?;
    }
    world.deliver_all().await?;
    world.advance(LONG).await?;
    let mut counts = Vec::new();
    for _ in 0..4 {
        let request = PurgeRequest::new(HOUR, rows(2));
        counts.push(world.repository().purge_deleted(&request).await?.len());
    }
    same("it purged, one time after the other,", &counts, &vec![2, 2, 1, 0])
}

async fn a_purged_resource_is_gone(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().requested_as("order-1").deleted()).await?;
    world.deliver_all().await?;
    world.advance(LONG).await?;
    world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    let repository = world.repository();
    same("by its id there is", &repository.get_by_id(stored.id()).await?, &None)?;
    let listed = repository.list(&ListQuery::new(rows(10))).await?.resources;
    same("the list has", &listed, &vec![])?;
    let swept = repository.sweep_page(&SweepQuery::new(rows(10))).await?.rows;
    same("the sweep has", &swept, &vec![])?;
    same("the schedule has", &world.schedule().entry(stored.id()).await?, &None)
}

async fn a_purge_frees_the_request_id(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().requested_as("order-1").deleted()).await?;
    world.deliver_all().await?;
    world.advance(LONG).await?;
    world.repository().purge_deleted(&AFTER_AN_HOUR).await?;
    let request = RequestId::new("order-1")?;
    let found = world.repository().get_by_request(stored.project_id(), &request).await?;
    same("the request id finds", &found, &None)?;
    world.stored(&resource().numbered(2).requested_as("order-1")).await?;
    Ok(())
}
