//! Cases for `replace`: deletion request and creation are one transaction.

use broker_ports::Replaced;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        replacement_commits_deletion_and_creation,
        a_replacement_of_a_stale_version_stores_nothing,
        a_repeated_replacement_is_a_replay,
        a_refused_replacement_keeps_the_old_resource,
        a_replacement_during_teardown_only_declares,
    ]
}

/// A builder of the new resource, under the request id that all cases share.
fn new_resource(number: u128) -> ResourceBuilder {
    nth_resource(number).declared_as(declaration().requested_as("replace-1"))
}

/// A replacement of a resource as it was read, with a new event id.
fn replacement(
    old: &ProvisionedResource,
    new: &ResourceBuilder,
    number: u128,
) -> Checked<Replacement> {
    Ok(Replacement::new(old, new.admitted(), fresh_stamp(number))?)
}

impl World {
    /// Checks that the new resource does not exist and the old one is unchanged.
    async fn require_unreplaced(&self, old: &StoredState, id: ProvisionedResourceId) -> Outcome {
        self.require_untouched(nth_resource(1).id(), old).await?;
        equal("the new resource", &self.repository().get_by_id(id).await?, &None)
    }
}

async fn replacement_commits_deletion_and_creation(world: &World) -> Outcome {
    let (old, new) = (world.store(&resource().ready()).await?, new_resource(2));
    world.deliver_all().await?;
    world.run_pass(&old, &failed_pass_with_retry_after(HOUR)).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    equal("the result of a replacement", &replaced, &Replaced::Created(Created::Stored))?;
    let old_after = world.get(old.id()).await?;
    equal("the phase of the old resource", &old_after.phase(), &Phase::Deregistering)?;
    equal("the version", &old_after.version(), &deletion_request(&old, 1)?.resource().version())?;
    let actions = world.actions(old.id()).await?;
    let last_two = actions[actions.len().saturating_sub(2)..].to_vec();
    let expected = vec![AuditAction::DeletionRequested, AuditAction::Replaced];
    equal("the last audited actions of the old resource", &last_two, &expected)?;
    let line = world.last_line(old.id()).await?.entry;
    equal("the new resource in the line", &line.event_data, &Some(new.id().to_string()))?;
    equal("the attribution of the line", &line.attribution, &attribution())?;
    let deregistering = Some(Phase::Deregistering);
    equal("the phases", &(line.previous_phase, line.new_phase), &(deregistering, deregistering))?;
    require_same_resource(&world.get(new.id()).await?, &new.build())?;
    let declared = vec![AuditAction::Declared];
    equal("the audited actions of the new resource", &world.actions(new.id()).await?, &declared)?;
    for id in [old.id(), new.id()] {
        require(is_due(&world.entry(id).await?), "a replaced or new resource is not due")?;
    }
    let events = world.deliver_all().await?;
    let mut emitted: Vec<_> =
        events.iter().map(|event| (event.resource, event.event_type)).collect();
    emitted.sort_unstable_by_key(|(resource, _)| *resource);
    let expected = vec![(old.id(), EventType::Deleting), (new.id(), EventType::Requested)];
    equal("the events", &emitted, &expected)
}

async fn a_replacement_of_a_stale_version_stores_nothing(world: &World) -> Outcome {
    let (old, new) = (world.store(&resource()).await?, new_resource(2));
    world.commit(WriteKind::Phase, &phase_change(&old, Phase::Provisioning, 1)?).await?;
    let before = world.state_of(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 2)?).await?;
    equal("the result from a stale version", &replaced, &Replaced::Stale)?;
    world.require_unreplaced(&before, new.id()).await?;
    // The request id is still free.
    let read = world.get(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&read, &new, 3)?).await?;
    equal("the result from the stored version", &replaced, &Replaced::Created(Created::Stored))
}

async fn a_repeated_replacement_is_a_replay(world: &World) -> Outcome {
    let old = world.store(&resource().enrolling().with_token()).await?;
    let _ = world.repository().replace(&replacement(&old, &new_resource(2), 1)?).await?;
    let before = world.state_of(old.id()).await?;
    // From the stale version, and from the resource in teardown.
    for read in [old.clone(), world.get(old.id()).await?] {
        let replaced =
            world.repository().replace(&replacement(&read, &new_resource(3), 2)?).await?;
        let Replaced::Created(Created::Replayed(first)) = replaced else {
            return Err(Violation::new(format!(
                "the result of a repeated replacement: {replaced:?}"
            )));
        };
        require_same_resource(&first, &new_resource(2).build())?;
        world.require_unreplaced(&before, id(3)).await?;
    }
    Ok(())
}

/// Refused for a missing reference, and for a request id that another declaration used.
async fn a_refused_replacement_keeps_the_old_resource(world: &World) -> Outcome {
    let old = world.store(&resource().ready()).await?;
    let before = world.state_of(old.id()).await?;
    let invalid = declaration().with_credential(99).requested_as("replace-1");
    let invalid = nth_resource(2).declared_as(invalid);
    let replaced = world.repository().replace(&replacement(&old, &invalid, 1)?).await;
    require_refused(replaced, "credential_not_found", "")?;
    world.require_unreplaced(&before, invalid.id()).await?;
    let other = declaration().requested_as("replace-1").with_parameters(r#"{"a":1}"#);
    world.store(&nth_resource(3).declared_as(other)).await?;
    let before = world.state_of(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new_resource(2), 1)?).await?;
    equal("the result of another declaration", &replaced, &Replaced::Created(Created::Conflict))?;
    world.require_unreplaced(&before, id(2)).await
}

async fn a_replacement_during_teardown_only_declares(world: &World) -> Outcome {
    let (old, new) = (world.store(&resource().deregistering()).await?, new_resource(2));
    let mut expected = world.actions(old.id()).await?;
    expected.push(AuditAction::Replaced);
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    equal("the result of a replacement", &replaced, &Replaced::Created(Created::Stored))?;
    equal("the old resource", &world.get(old.id()).await?, &old)?;
    equal("the audited actions of the old resource", &world.actions(old.id()).await?, &expected)?;
    require_same_resource(&world.get(new.id()).await?, &new.build())
}
