//! Cases for `create`, `get_by_id` and `get_by_request`.

use broker_ports::{Admitted, RequestHash};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_declaration_is_stored_with_event_audit_line_and_schedule,
        a_declaration_reads_back_unchanged,
        concurrent_creations_with_one_request_id_store_one,
        a_used_request_id_stores_nothing,
        a_request_id_finds_its_resource_in_its_own_project,
        declarations_without_a_request_id_are_all_stored,
        a_declaration_with_a_missing_reference_is_rejected,
        a_used_id_or_event_id_is_rejected,
        resource_is_found_in_its_own_project_only,
        concurrent_creations_are_independent,
    ]
}

async fn a_declaration_is_stored_with_event_audit_line_and_schedule(world: &World) -> Outcome {
    let builder = resource();
    let stored = world.stored(&builder).await?;
    same("the audited actions", &world.actions(stored.id()).await?, &vec![AuditAction::Declared])?;
    let line = world.last_line(stored.id()).await?;
    same_line(&line, &stored, (None, Some(stored.phase())))?;
    let event = world.claim_event("relay").await?;
    let declared = builder.life().declared;
    same("the event's bytes are", &Some(event.payload), &declared.event().map(wire::encode))?;

    let entry = world.entry(stored.id()).await?;
    require(is_due(&entry), "a new resource is not due")?;
    same("the epoch before the first claim", &entry.epoch, &LeaseEpoch::ZERO)?;
    same("the attempts before the first pass", &entry.attempts, &0)
}

async fn a_declaration_reads_back_unchanged(world: &World) -> Outcome {
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

async fn concurrent_creations_with_one_request_id_store_one(world: &World) -> Outcome {
    let shared = declaration().requested_as("order-1");
    world.know(&shared.clone().build()).await?;
    let admitted: Vec<Admitted> =
        (1..=16).map(|number| numbered(number).declared_as(shared.clone()).admitted()).collect();
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
            Created::Replayed(first) => same("the replayed resource", &first.id(), &winner)?,
            Created::Conflict => return Err(Violation::new("an equal declaration conflicts")),
        }
    }
    same("the number of events", &world.backlog().await?.0, &1)?;
    same("the number of audit lines", &world.audit_trail().await?.len(), &1)
}

/// An equal declaration in another spelling is a replay of the first resource; a different one is a conflict.
async fn a_used_request_id_stores_nothing(world: &World) -> Outcome {
    let shared = declaration().requested_as("order-1").with_parameters(r#"{"a":1,"b":2}"#);
    let first = world.stored(&resource().declared_as(shared.clone()).ready()).await?;
    let before = world.facts(first.id()).await?;
    for (parameters, expected) in [
        (r#"{"b":2,"a":1}"#, Created::Replayed(Box::new(first.clone()))),
        (r#"{"a":1}"#, Created::Conflict),
    ] {
        let second = numbered(2).declared_as(shared.clone().with_parameters(parameters));
        let answer = world.repository().create(&second.admitted()).await?;
        same("the result of a used request id", &answer, &expected)?;
        world.require_untouched(first.id(), &before).await?;
        same("a second resource is", &world.repository().get_by_id(second.id()).await?, &None)?;
    }
    Ok(())
}

async fn a_request_id_finds_its_resource_in_its_own_project(world: &World) -> Outcome {
    let find = async |number, request: &str| {
        let request = RequestId::new(request)?;
        Ok::<_, Violation>(world.repository().get_by_request(project(number), &request).await?)
    };
    for number in 1..=2 {
        let builder = numbered(number).in_project(project(number)).requested_as("order-1");
        let stored = world.stored(&builder.clone().enrolling()).await?;
        let found = find(number, "order-1").await?;
        let found = found.ok_or(Violation::new("the request id finds nothing"))?;
        same("the resource of the request id", &found.resource, &stored)?;
        same("the digest is", &found.hash, &RequestHash::of(&builder.declaration()))?;
    }
    for (number, request) in [(1, "order-2"), (3, "order-1")] {
        same("the request id finds", &find(number, request).await?, &None)?;
    }
    Ok(())
}

async fn declarations_without_a_request_id_are_all_stored(world: &World) -> Outcome {
    let builders = (1..=3).map(|number| numbered(number).declared_as(declaration()));
    world.store_all(builders).await?;
    same("the number of events", &world.backlog().await?.0, &3)
}

async fn a_declaration_with_a_missing_reference_is_rejected(world: &World) -> Outcome {
    world.know(&declaration().build()).await?;
    for (absent, reason, word) in [
        (declaration().from_blueprint(99), "blueprint_not_found", ""),
        (declaration().with_credential(99), "credential_not_found", ""),
        (declaration().in_project(project(99)), "invalid_input", "project_id"),
        (declaration().for_resource(99), "invalid_input", "resource_id"),
    ] {
        let refused = resource().declared_as(absent.requested_as("order-1")).admitted();
        require_refused(world.repository().create(&refused).await, reason, word)?;
        require(world.audit_trail().await?.is_empty(), "a refused declaration left an audit line")?;
        same("the number of events", &world.backlog().await?.0, &0)?;
    }
    // A refusal leaves nothing behind: id and request id are still free.
    world.stored(&resource().requested_as("order-1")).await?;
    Ok(())
}

async fn a_used_id_or_event_id_is_rejected(world: &World) -> Outcome {
    let stored = world.stored(&resource()).await?;
    let before = world.facts(stored.id()).await?;
    let other = numbered(2);
    world.know(&other.declaration()).await?;
    let life = resource().life();
    let event = life.declared.event().ok_or(Violation::new("a declaration has an event"))?;
    let taken = Stamp::new(event.id(), stored.created_at());
    for (builder, stamp, word) in [(&resource(), fresh_stamp(1), "id"), (&other, taken, "event_id")]
    {
        let declaration = builder.declaration();
        let parameters = stored.parameters().clone();
        let change = ProvisionedResource::new(
            builder.id(),
            &declaration,
            stored.mesh_role(),
            parameters,
            stamp,
        )?;
        let answer = world.repository().create(&admitted_as(&change, &declaration)).await;
        require_taken(answer, word)?;
        world.require_untouched(stored.id(), &before).await?;
    }
    let without_event = world.repository().get_by_id(other.id()).await?;
    same("without its event there is", &without_event, &None)
}

async fn resource_is_found_in_its_own_project_only(world: &World) -> Outcome {
    let stored = world.stored(&resource().in_project(project(1))).await?;
    for (number, id, expected) in
        [(1, stored.id(), Some(&stored)), (2, stored.id(), None), (1, id(2), None)]
    {
        let found = world.repository().get_in_project(project(number), id).await?;
        same("in that Project the id finds", &found.as_ref(), &expected)?;
    }
    same("an unknown id finds", &world.repository().get_by_id(id(2)).await?, &None)
}

async fn concurrent_creations_are_independent(world: &World) -> Outcome {
    let builders: Vec<_> =
        (1..=16).map(|number| numbered(number).requested_as(&number.to_string())).collect();
    for builder in &builders {
        world.know(&builder.declaration()).await?;
    }
    let admitted: Vec<_> = builders.iter().map(ResourceBuilder::admitted).collect();
    let creations = admitted.iter().map(|admitted| world.repository().create(admitted));
    for (answer, builder) in try_join_all(creations).await?.into_iter().zip(&builders) {
        same("the result of a new request id", &answer, &Created::Stored)?;
        same_resource(&world.get(builder.id()).await?, &builder.build())?;
    }
    let trail = world.audit_trail().await?;
    same("the number of audit lines", &trail.len(), &16)?;
    in_order(&trail)
}
