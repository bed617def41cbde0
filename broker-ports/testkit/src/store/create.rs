//! Promises of `create`, `get_by_id` and `get_by_request`.

use broker_ports::{Admitted, RequestHash};
use futures_util::future::join_all;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_declaration_is_stored_with_event_audit_line_and_schedule,
        a_declaration_reads_back_as_it_was_made,
        of_16_creations_with_one_request_id_one_stores,
        a_repeated_request_is_answered_with_the_first_resource,
        a_request_id_with_another_declaration_is_a_conflict,
        projects_have_request_ids_of_their_own,
        declarations_without_a_request_id_are_all_stored,
        a_request_id_finds_its_resource_and_digest,
        a_request_id_that_nobody_used_finds_nothing,
        what_a_declaration_refers_to_has_to_exist,
        a_refused_declaration_leaves_nothing_behind,
        an_id_that_is_taken_is_refused,
        an_event_id_that_is_taken_is_refused,
        an_id_that_was_never_stored_is_absent,
        resource_is_found_in_its_own_project_only,
        creations_at_once_do_not_disturb_each_other,
    ]
}

async fn a_declaration_is_stored_with_event_audit_line_and_schedule(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let builder = resource();
    let stored = world.stored(&builder).await?;
    let line = world.last_line(stored.id()).await?;
    same("the audit says", &world.actions(stored.id()).await?, &vec![AuditAction::Declared])?;
    same("the line tells of version", &line.version, &Some(stored.version()))?;
    same("the line came by", &line.entry.attribution, &attribution())?;
    same("the line tells of project", &line.entry.project, &Some(stored.project_id()))?;
    let phases = (line.entry.previous_phase, line.entry.new_phase);
    same("the line tells of phases", &phases, &(None, Some(stored.phase())))?;

    let event = world.claim_event("relay").await?;
    let declared = builder.life().declared;
    let expected = declared.event().map(wire::encode);
    same("the event's bytes are", &Some(event.payload), &expected)?;

    let entry = world.entry(stored.id()).await?;
    require(is_due(&entry), "a new resource is not due")?;
    same("nobody has claimed it, its epoch is", &entry.epoch, &LeaseEpoch::ZERO)?;
    same("nothing has failed, attempts are", &entry.attempts, &0)
}

async fn a_declaration_reads_back_as_it_was_made(world: &dyn StoreUnderTest) -> Outcome {
    let builder = resource().standalone().declared_as(
        declaration()
            .in_project(project(7))
            .from_blueprint(8)
            .with_credential(9)
            .for_resource(10)
            .with_parameters(r#"{"size":"small"}"#)
            .rolling_back(),
    );
    same_resource(&world.stored(&builder).await?, &builder.build())
}

async fn of_16_creations_with_one_request_id_one_stores(world: &dyn StoreUnderTest) -> Outcome {
    let shared = declaration().requested_as("order-1");
    world.know(&shared.clone().build()).await?;
    let admitted: Vec<Admitted> = (1..=16)
        .map(|number| resource().numbered(number).declared_as(shared.clone()).admitted())
        .collect();
    let answers =
        try_join_all(admitted.iter().map(|admitted| world.repository().create(admitted))).await?;
    let stored: Vec<_> = admitted
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| **answer == Created::Stored)
        .map(|(admitted, _)| admitted.change().resource().id())
        .collect();
    let [winner] = stored[..] else {
        return Err(Violation::new(format!("{} of 16 were stored", stored.len())));
    };
    for answer in &answers {
        match answer {
            Created::Stored => {}
            Created::Replayed(first) => same("the others are answered", &first.id(), &winner)?,
            Created::Conflict => return Err(Violation::new("an equal declaration conflicts")),
        }
    }
    same("there are events", &world.outbox().backlog().await?.depth, &1)?;
    same("there are audit lines", &world.audit_trail().await?.len(), &1)
}

async fn a_repeated_request_is_answered_with_the_first_resource(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let shared = declaration().requested_as("order-1").with_parameters(r#"{"a":1,"b":2}"#);
    let first = world.stored(&resource().declared_as(shared.clone()).ready()).await?;
    let before = world.facts(first.id()).await?;
    let other_spelling = shared.with_parameters(r#"{"b":2,"a":1}"#);
    let again = resource().numbered(2).declared_as(other_spelling).admitted();
    let Created::Replayed(answer) = world.repository().create(&again).await? else {
        return Err(Violation::new("a repeated request is not answered with a replay"));
    };
    same("the first resource, as it stands now", &*answer, &first)?;
    world.require_untouched(first.id(), &before).await?;
    require(
        world.repository().get_by_id(id(2)).await?.is_none(),
        "a repeated request stored a second resource",
    )
}

async fn a_request_id_with_another_declaration_is_a_conflict(
    world: &dyn StoreUnderTest,
) -> Outcome {
    let shared = declaration().requested_as("order-1");
    let first = world.stored(&resource().declared_as(shared.clone())).await?;
    let before = world.facts(first.id()).await?;
    let other = resource().numbered(2).declared_as(shared.with_parameters(r#"{"a":1}"#));
    let answer = world.repository().create(&other.admitted()).await?;
    same("another declaration is answered", &answer, &Created::Conflict)?;
    world.require_untouched(first.id(), &before).await?;
    require(
        world.repository().get_by_id(other.id()).await?.is_none(),
        "a conflicting declaration was stored",
    )
}

async fn projects_have_request_ids_of_their_own(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=2 {
        let builder = resource().numbered(number).in_project(project(number));
        world.stored(&builder.requested_as("order-1")).await?;
    }
    let request = RequestId::new("order-1")?;
    for number in 1..=2 {
        let found = world.repository().get_by_request(project(number), &request).await?;
        let found = found.map(|found| found.resource.id());
        same("the request id stands for", &found, &Some(id(number)))?;
    }
    Ok(())
}

async fn declarations_without_a_request_id_are_all_stored(world: &dyn StoreUnderTest) -> Outcome {
    for number in 1..=3 {
        world.stored(&resource().numbered(number).declared_as(declaration())).await?;
    }
    same("there are events", &world.outbox().backlog().await?.depth, &3)
}

async fn a_request_id_finds_its_resource_and_digest(world: &dyn StoreUnderTest) -> Outcome {
    let builder = resource().requested_as("order-1").enrolling();
    let stored = world.stored(&builder).await?;
    let request = RequestId::new("order-1")?;
    let found = world.repository().get_by_request(stored.project_id(), &request).await?;
    let found = found.ok_or(Violation::new("the request id finds nothing"))?;
    same("the request id stands for", &found.resource, &stored)?;
    same("the digest is", &found.hash, &RequestHash::of(&builder.declaration()))
}

async fn a_request_id_that_nobody_used_finds_nothing(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource().requested_as("order-1")).await?;
    for (number, request) in [(1, "order-2"), (2, "order-1")] {
        let request = RequestId::new(request)?;
        let found = world.repository().get_by_request(project(number), &request).await?;
        same("the request id finds", &found, &None)?;
    }
    Ok(())
}

async fn what_a_declaration_refers_to_has_to_exist(world: &dyn StoreUnderTest) -> Outcome {
    world.know(&declaration().build()).await?;
    for (absent, reason, word) in [
        (declaration().from_blueprint(99), "blueprint_not_found", ""),
        (declaration().with_credential(99), "credential_not_found", ""),
        (declaration().in_project(project(99)), "invalid_input", "project_id"),
        (declaration().for_resource(99), "invalid_input", "resource_id"),
    ] {
        let admitted = resource().declared_as(absent).admitted();
        require_refused(world.repository().create(&admitted).await, reason, word)?;
    }
    Ok(())
}

async fn a_refused_declaration_leaves_nothing_behind(world: &dyn StoreUnderTest) -> Outcome {
    world.know(&declaration().build()).await?;
    let refused = declaration().from_blueprint(99).requested_as("order-1");
    let refused = resource().declared_as(refused).admitted();
    require(world.repository().create(&refused).await.is_err(), "it was not refused")?;
    require(world.audit_trail().await?.is_empty(), "a refused declaration left an audit line")?;
    same("there are events", &world.outbox().backlog().await?.depth, &0)?;
    world.stored(&resource().requested_as("order-1")).await?;
    Ok(())
}

async fn an_id_that_is_taken_is_refused(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let before = world.facts(stored.id()).await?;
    let taken = ProvisionedResource::new(
        stored.id(),
        &declaration().build(),
        stored.mesh_role(),
        stored.parameters().clone(),
        fresh_stamp(1),
    )?;
    let admitted = admitted_as(&taken, &declaration().build());
    require_refused(world.repository().create(&admitted).await, "invalid_input", "id")?;
    world.require_untouched(stored.id(), &before).await
}

async fn an_event_id_that_is_taken_is_refused(world: &dyn StoreUnderTest) -> Outcome {
    let first = world.stored(&resource()).await?;
    let second = resource().numbered(2);
    world.know(&second.declaration()).await?;
    let life = resource().life();
    let event = life.declared.event().ok_or(Violation::new("a declaration has an event"))?;
    let change = ProvisionedResource::new(
        second.id(),
        &second.declaration(),
        first.mesh_role(),
        first.parameters().clone(),
        Stamp::new(event.id(), first.created_at()),
    )?;
    let admitted = admitted_as(&change, &second.declaration());
    require_refused(world.repository().create(&admitted).await, "invalid_input", "event_id")?;
    require(
        world.repository().get_by_id(second.id()).await?.is_none(),
        "a resource was stored without its event",
    )
}

async fn an_id_that_was_never_stored_is_absent(world: &dyn StoreUnderTest) -> Outcome {
    world.stored(&resource()).await?;
    same("an unknown id finds", &world.repository().get_by_id(id(2)).await?, &None)
}

async fn resource_is_found_in_its_own_project_only(world: &dyn StoreUnderTest) -> Outcome {
    let stored = world.stored(&resource().in_project(project(1))).await?;
    for (number, expected) in [(1, Some(stored.clone())), (2, None)] {
        let found = world.repository().get_in_project(project(number), stored.id()).await?;
        same("in that Project the id finds", &found, &expected)?;
    }
    let unknown = world.repository().get_in_project(project(1), id(2)).await?;
    same("an unknown id finds", &unknown, &None)
}

async fn creations_at_once_do_not_disturb_each_other(world: &dyn StoreUnderTest) -> Outcome {
    let builders: Vec<_> = (1..=16)
        .map(|number| resource().numbered(number).requested_as(&number.to_string()))
        .collect();
    for builder in &builders {
        world.know(&builder.declaration()).await?;
    }
    let admitted: Vec<_> = builders.iter().map(ResourceBuilder::admitted).collect();
    let answers =
        join_all(admitted.iter().map(|admitted| world.repository().create(admitted))).await;
    for (answer, builder) in answers.into_iter().zip(&builders) {
        same("a request id of its own is answered", &answer?, &Created::Stored)?;
        same_resource(&world.get(builder.id()).await?, &builder.build())?;
    }
    let trail = world.audit_trail().await?;
    same("there are audit lines", &trail.len(), &16)?;
    require(
        trail.windows(2).all(|pair| pair[0].sequence < pair[1].sequence),
        "two audit lines have one place",
    )
}
