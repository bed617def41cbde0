//! Cases for `history`, `scrub_audit` and `purge_deleted`.

use broker_ports::Actor;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        history_is_oldest_first,
        a_scrub_blanks_only_event_data,
        only_long_deleted_resources_are_purged,
        a_purge_waits_until_every_event_is_settled,
        a_purge_respects_its_limit_and_is_audited,
        a_purged_resource_leaves_only_its_history,
    ]
}

async fn history_is_oldest_first(world: &World) -> Outcome {
    let stored = world.store(&resource().deleted()).await?;
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
    equal("the audited actions", &actions, &expected)?;
    require_ordered(&history)?;
    let versions: Vec<_> = history.iter().filter_map(|line| line.version).collect();
    let all_versions = std::iter::successors(Some(Version::FIRST), |last| Some(last.next()));
    equal("the versions of the lines", &versions, &all_versions.take(expected.len()).collect())?;
    equal("the version of the row", &Some(&stored.version()), &versions.last())?;
    let times_increase = history.windows(2).all(|pair| pair[0].at <= pair[1].at);
    require(times_increase, "a later line has an earlier time")
}

async fn a_scrub_blanks_only_event_data(world: &World) -> Outcome {
    let blanked = world.repository().scrub_audit(id(1), &attribution()).await?;
    equal("the blanked lines of an unknown resource", &blanked, &0)?;
    require(world.audit_trail().await?.is_empty(), "the scrub of an unknown resource left a line")?;
    let stored = world.store(&resource().ready()).await?;
    let other = world.store(&nth_resource(2)).await?;
    for resource in [stored.id(), stored.id(), other.id()] {
        let entry = AuditEntry::new(AuditAction::SubstrateApply, attribution())
            .in_project(project(1))
            .for_resource(resource)
            .in_phase(Phase::Ready)
            .with_event_data("as Jane said");
        world.audit().record(&entry).await?;
    }
    let mut expected = world.audit_trail().await?;
    for line in expected.iter_mut().filter(|line| line.entry.resource == Some(stored.id())) {
        line.entry.event_data = None;
    }
    let scrub = async || world.repository().scrub_audit(stored.id(), &attribution()).await;
    equal("the number of blanked lines", &scrub().await?, &2)?;
    let mut after = world.audit_trail().await?;
    let last = after.pop().map(|line| line.entry);
    let last = last.map(|entry| (entry.resource, entry.project, entry.action));
    let scrubbed = (Some(stored.id()), Some(stored.project_id()), AuditAction::AuditScrubbed);
    equal("the line of the scrub", &last, &Some(scrubbed))?;
    equal("the audit trail", &after, &expected)?;
    equal("the lines blanked by a second scrub", &scrub().await?, &0)
}

async fn only_long_deleted_resources_are_purged(world: &World) -> Outcome {
    let builders =
        (1..).zip(Phase::ALL).map(|(number, phase)| nth_resource(number).in_phase(phase));
    world.store_all(builders).await?;
    world.advance(LONG).await?;
    world.store(&nth_resource(20).deleted()).await?;
    world.deliver_all().await?;
    equal("the purged resources", &world.purge().await?, &vec![id(8)])?;
    for number in (1..=7).chain([20]) {
        world.get(id(number)).await?;
    }
    Ok(())
}

async fn a_purge_waits_until_every_event_is_settled(world: &World) -> Outcome {
    let stored = world.store(&resource().deleted()).await?;
    world.advance(LONG).await?;
    for _ in 0..3 {
        equal("the resources purged with a waiting event", &world.purge().await?, &vec![])?;
        let event = world.claim_event("relay").await?;
        equal("the resources purged with a claimed event", &world.purge().await?, &vec![])?;
        world.acknowledge(&event).await?;
    }
    world.dead_letter("refused").await?;
    world.advance(LONG).await?;
    equal("the resources purged with a dead letter", &world.purge().await?, &vec![])?;
    world.redrive(stored.id(), Redrive::Skip).await?;
    equal("the resources purged with settled events", &world.purge().await?, &vec![stored.id()])
}

async fn a_purge_respects_its_limit_and_is_audited(world: &World) -> Outcome {
    world.store_long_deleted((1..=5).map(nth_resource)).await?;
    let before = world.audit_trail().await?.len();
    let mut counts = Vec::new();
    for _ in 0..4 {
        let request = PurgeRequest::new(HOUR, rows(2));
        counts.push(world.repository().purge_deleted(&request).await?.len());
    }
    equal("the sizes of successive purges", &counts, &vec![2, 2, 1, 0])?;
    let lines = world.audit_trail().await?.split_off(before);
    let mut actions: Vec<_> =
        lines.iter().map(|line| (line.entry.resource, line.entry.action)).collect();
    actions.sort_unstable();
    let expected = (1..=5).map(|number| (Some(id(number)), AuditAction::Purged)).collect();
    equal("the audited actions", &actions, &expected)?;
    let by_the_broker = lines.iter().all(|line| line.entry.attribution.actor == Actor::system());
    require(by_the_broker, "a purge is not attributed to the broker")
}

async fn a_purged_resource_leaves_only_its_history(world: &World) -> Outcome {
    let stored =
        world.store_long_deleted([resource().requested_as("order-1")].into_iter()).await?.remove(0);
    let mut expected = world.actions(stored.id()).await?;
    equal("the purged resources", &world.purge().await?, &vec![stored.id()])?;
    let repository = world.repository();
    equal("the resource found by id", &repository.get_by_id(stored.id()).await?, &None)?;
    let listed = repository.list(&ListQuery::new(rows(10))).await?.resources;
    equal("the listed resources", &listed, &vec![])?;
    let swept = repository.sweep_page(&SweepQuery::new(rows(10))).await?.rows;
    equal("the swept rows", &swept, &vec![])?;
    equal("the schedule entry", &world.schedule().entry(stored.id()).await?, &None)?;
    expected.push(AuditAction::Purged);
    equal("the audited actions", &world.actions(stored.id()).await?, &expected)?;
    let request = RequestId::new("order-1")?;
    let found = repository.get_by_request(stored.project_id(), &request).await?;
    equal("the resource found by the request id", &found, &None)?;
    // The request id is free again.
    world.store(&nth_resource(2).requested_as("order-1")).await?;
    Ok(())
}
