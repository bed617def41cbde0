//! Cases for `create`, `get_by_id`, `get_by_request` and `get_by_token`.

use broker_ports::{Admitted, RequestHash};

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        a_declaration_is_stored_with_event_audit_line_and_schedule,
        a_declaration_reads_back_unchanged,
        concurrent_creations_with_one_request_id_store_one,
        a_used_request_id_stores_nothing,
        a_request_id_finds_its_resource_in_its_own_project,
        a_token_finds_the_resource_that_records_it,
        declarations_without_a_request_id_are_all_stored,
        a_declaration_with_a_missing_reference_is_rejected,
        a_used_id_or_event_id_is_rejected,
        resource_is_found_in_its_own_project_only,
        concurrent_creations_are_independent,
    ]
}

async fn a_declaration_is_stored_with_event_audit_line_and_schedule(world: &World) -> Outcome {
    let builder = resource();
    let stored = world.store(&builder).await?;
    equal("the audited actions", &world.actions(stored.id()).await?, &vec![AuditAction::Declared])?;
    let line = world.last_line(stored.id()).await?;
    require_line_of(&line, &stored, (None, Some(stored.phase())))?;
    let event = world.claim_event("relay").await?;
    let declared = builder.history().declared;
    equal("the bytes of the event", &Some(event.payload), &declared.event().map(wire::encode))?;

    let entry = world.entry(stored.id()).await?;
    require(is_due(&entry), "a new resource is not due")?;
    equal("the epoch before the first claim", &entry.epoch, &LeaseEpoch::ZERO)?;
    equal("the attempts before the first pass", &entry.attempts, &0)
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
    require_same_resource(&world.store(&builder).await?, &builder.build())
}

async fn concurrent_creations_with_one_request_id_store_one(world: &World) -> Outcome {
    let order = declaration().requested_as("order-1");
    world.register_references(&order.clone().build()).await?;
    let admitted: Vec<Admitted> =
        (1..=16).map(|number| nth_resource(number).declared_as(order.clone()).admitted()).collect();
    let results =
        try_join_all(admitted.iter().map(|admitted| world.repository().create(admitted))).await?;
    let stored: Vec<_> = admitted
        .iter()
        .zip(&results)
        .filter(|(_, result)| **result == Created::Stored)
        .map(|(admitted, _)| admitted.change().resource().id())
        .collect();
    let [winner] = stored[..] else {
        return Err(Violation::new(format!("{} of 16 declarations were stored", stored.len())));
    };
    for result in &results {
        match result {
            Created::Stored => {}
            Created::Replayed(first) => {
                equal("the replayed resource", &first.id(), &winner)?;
            }
            Created::Conflict => return Err(Violation::new("an equal declaration conflicts")),
        }
    }
    equal("the number of events", &world.backlog().await?.0, &1)?;
    equal("the number of audit lines", &world.audit_trail().await?.len(), &1)
}

/// An equal declaration in another spelling is a replay of the first resource; a different one is a conflict.
async fn a_used_request_id_stores_nothing(world: &World) -> Outcome {
    let order = declaration().requested_as("order-1").with_parameters(r#"{"a":1,"b":2}"#);
    let first = world.store(&resource().declared_as(order.clone()).ready()).await?;
    let before = world.state_of(first.id()).await?;
    for (parameters, expected) in [
        (r#"{"b":2,"a":1}"#, Created::Replayed(Box::new(first.clone()))),
        (r#"{"a":1}"#, Created::Conflict),
    ] {
        let second = nth_resource(2).declared_as(order.clone().with_parameters(parameters));
        let result = world.repository().create(&second.admitted()).await?;
        equal("the result of a used request id", &result, &expected)?;
        world.require_untouched(first.id(), &before).await?;
        equal("the second resource", &world.repository().get_by_id(second.id()).await?, &None)?;
    }
    Ok(())
}

async fn a_request_id_finds_its_resource_in_its_own_project(world: &World) -> Outcome {
    let find = async |number, request: &str| {
        let request = RequestId::new(request)?;
        Ok::<_, Violation>(world.repository().get_by_request(project(number), &request).await?)
    };
    for number in 1..=2 {
        let builder = nth_resource(number).in_project(project(number)).requested_as("order-1");
        let stored = world.store(&builder.clone().enrolling()).await?;
        let found = find(number, "order-1").await?;
        let found = found.ok_or(Violation::new("no resource is found by the request id"))?;
        equal("the resource of the request id", &found.resource, &stored)?;
        equal("the digest", &found.hash, &RequestHash::of(&builder.declaration()))?;
    }
    for (number, request) in [(1, "order-2"), (3, "order-1")] {
        equal("the resource found by the request id", &find(number, request).await?, &None)?;
    }
    Ok(())
}

async fn a_token_finds_the_resource_that_records_it(world: &World) -> Outcome {
    let other = world.store(&resource()).await?;
    let stored = world.store(&nth_resource(2).with_token().enrolling()).await?;
    let token = stored.bootstrap_token_id().ok_or(Violation::new("the resource has no token"))?;
    let found = world.repository().get_by_token(token).await?;
    equal("the resource of the token", &found, &Some(stored))?;
    equal("the token of the other resource", &other.bootstrap_token_id(), &None)?;
    let unknown = world.repository().get_by_token(id(0xdead)).await?;
    equal("the resource of an unknown token", &unknown, &None)
}

async fn declarations_without_a_request_id_are_all_stored(world: &World) -> Outcome {
    let builders = (1..=3).map(|number| nth_resource(number).declared_as(declaration()));
    world.store_all(builders).await?;
    equal("the number of events", &world.backlog().await?.0, &3)
}

async fn a_declaration_with_a_missing_reference_is_rejected(world: &World) -> Outcome {
    world.register_references(&declaration().build()).await?;
    for (invalid, reason, word) in [
        (declaration().from_blueprint(99), "blueprint_not_found", ""),
        (declaration().with_credential(99), "credential_not_found", ""),
        (declaration().in_project(project(99)), "invalid_input", "project_id"),
        (declaration().for_resource(99), "invalid_input", "resource_id"),
    ] {
        let refused = resource().declared_as(invalid.requested_as("order-1")).admitted();
        require_refused(world.repository().create(&refused).await, reason, word)?;
        require(world.audit_trail().await?.is_empty(), "a refused declaration left an audit line")?;
        equal("the number of events", &world.backlog().await?.0, &0)?;
    }
    // After a refusal, id and request id are still free.
    world.store(&resource().requested_as("order-1")).await?;
    Ok(())
}

async fn a_used_id_or_event_id_is_rejected(world: &World) -> Outcome {
    let stored = world.store(&resource()).await?;
    let before = world.state_of(stored.id()).await?;
    let other = nth_resource(2);
    world.register_references(&other.declaration()).await?;
    let history = resource().history();
    let event = history.declared.event().ok_or(Violation::new("a declaration has an event"))?;
    let used_stamp = Stamp::new(event.id(), stored.created_at());
    for (builder, stamp, word) in
        [(&resource(), fresh_stamp(1), "id"), (&other, used_stamp, "event_id")]
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
        let result = world.repository().create(&admitted_as(&change, &declaration)).await;
        require_id_conflict(result, word)?;
        world.require_untouched(stored.id(), &before).await?;
    }
    let without_event = world.repository().get_by_id(other.id()).await?;
    equal("the resource whose event id is used", &without_event, &None)
}

async fn resource_is_found_in_its_own_project_only(world: &World) -> Outcome {
    let stored = world.store(&resource().in_project(project(1))).await?;
    for (number, id, expected) in
        [(1, stored.id(), Some(&stored)), (2, stored.id(), None), (1, id(2), None)]
    {
        let found = world.repository().get_in_project(project(number), id).await?;
        equal("the resource found in the Project", &found.as_ref(), &expected)?;
    }
    equal("the resource found by an unknown id", &world.repository().get_by_id(id(2)).await?, &None)
}

async fn concurrent_creations_are_independent(world: &World) -> Outcome {
    let builders: Vec<_> =
        (1..=16).map(|number| nth_resource(number).requested_as(&number.to_string())).collect();
    for builder in &builders {
        world.register_references(&builder.declaration()).await?;
    }
    let admitted: Vec<_> = builders.iter().map(ResourceBuilder::admitted).collect();
    let creations = admitted.iter().map(|admitted| world.repository().create(admitted));
    for (result, builder) in try_join_all(creations).await?.into_iter().zip(&builders) {
        equal("the result of a new request id", &result, &Created::Stored)?;
        require_same_resource(&world.get(builder.id()).await?, &builder.build())?;
    }
    let trail = world.audit_trail().await?;
    equal("the number of audit lines", &trail.len(), &16)?;
    require_ordered(&trail)
}
