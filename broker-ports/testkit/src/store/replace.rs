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

/// The new resource of these cases, under their common request id.
fn new(number: u128) -> ResourceBuilder {
    numbered(number).declared_as(declaration().requested_as("replace-1"))
}

/// A replacement of a read resource, with a new event id.
fn replacement(
    old: &ProvisionedResource,
    new: &ResourceBuilder,
    number: u128,
) -> Checked<Replacement> {
    Ok(Replacement::new(old, new.admitted(), fresh_stamp(number))?)
}

impl World {
    /// The new resource does not exist, and the old one is unchanged.
    async fn require_neither(&self, old: &Facts, id: ProvisionedResourceId) -> Outcome {
        self.require_untouched(numbered(1).id(), old).await?;
        same("the new one is", &self.repository().get_by_id(id).await?, &None)
    }
}

async fn replacement_commits_deletion_and_creation(world: &World) -> Outcome {
    let (old, new) = (world.stored(&resource().ready()).await?, new(2));
    world.deliver_all().await?;
    world.pass(&old, &failed_with_retry_after(HOUR)).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    same("the result of a replacement", &replaced, &Replaced::Created(Created::Stored))?;
    let left = world.get(old.id()).await?;
    same("the old one is in", &left.phase(), &Phase::Deregistering)?;
    same("its version is", &left.version(), &deletion(&old, 1)?.resource().version())?;
    let actions = world.actions(old.id()).await?;
    let last_two = actions[actions.len().saturating_sub(2)..].to_vec();
    let expected = vec![AuditAction::DeletionRequested, AuditAction::Replaced];
    same("the last audited actions of the old resource", &last_two, &expected)?;
    let line = world.last_line(old.id()).await?.entry;
    same("the line names the new one", &line.event_data, &Some(new.id().to_string()))?;
    same("the attribution of the line", &line.attribution, &attribution())?;
    let leaving = Some(Phase::Deregistering);
    same("it tells of phases", &(line.previous_phase, line.new_phase), &(leaving, leaving))?;
    same_resource(&world.get(new.id()).await?, &new.build())?;
    let declared = vec![AuditAction::Declared];
    same("the audited actions of the new resource", &world.actions(new.id()).await?, &declared)?;
    for id in [old.id(), new.id()] {
        require(is_due(&world.entry(id).await?), "a replaced or new resource is not due")?;
    }
    let events = world.deliver_all().await?;
    let mut emitted: Vec<_> = events.iter().map(|it| (it.resource, it.event_type)).collect();
    emitted.sort_unstable_by_key(|(resource, _)| *resource);
    let expected = vec![(old.id(), EventType::Deleting), (new.id(), EventType::Requested)];
    same("the events are", &emitted, &expected)
}

async fn a_replacement_of_a_stale_version_stores_nothing(world: &World) -> Outcome {
    let (old, new) = (world.stored(&resource()).await?, new(2));
    world.commit(WriteKind::Phase, &to(&old, Phase::Provisioning, 1)?).await?;
    let before = world.facts(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 2)?).await?;
    same("the result from a stale version", &replaced, &Replaced::Stale)?;
    world.require_neither(&before, new.id()).await?;
    // The request id is still free.
    let read = world.get(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&read, &new, 3)?).await?;
    same("the result from the stored version", &replaced, &Replaced::Created(Created::Stored))
}

async fn a_repeated_replacement_is_a_replay(world: &World) -> Outcome {
    let old = world.stored(&resource().enrolling().with_token()).await?;
    let _ = world.repository().replace(&replacement(&old, &new(2), 1)?).await?;
    let before = world.facts(old.id()).await?;
    // From the version that is stale by now, and from the resource in teardown.
    for read in [old.clone(), world.get(old.id()).await?] {
        let replaced = world.repository().replace(&replacement(&read, &new(3), 2)?).await?;
        let Replaced::Created(Created::Replayed(first)) = replaced else {
            return Err(Violation::new(format!(
                "the result of a repeated replacement: {replaced:?}"
            )));
        };
        same_resource(&first, &new(2).build())?;
        world.require_neither(&before, id(3)).await?;
    }
    Ok(())
}

/// Refused for a missing reference, or in conflict with another declaration of its request id.
async fn a_refused_replacement_keeps_the_old_resource(world: &World) -> Outcome {
    let old = world.stored(&resource().ready()).await?;
    let before = world.facts(old.id()).await?;
    let absent = declaration().with_credential(99).requested_as("replace-1");
    let absent = numbered(2).declared_as(absent);
    let replaced = world.repository().replace(&replacement(&old, &absent, 1)?).await;
    require_refused(replaced, "credential_not_found", "")?;
    world.require_neither(&before, absent.id()).await?;
    let other = declaration().requested_as("replace-1").with_parameters(r#"{"a":1}"#);
    world.stored(&numbered(3).declared_as(other)).await?;
    let before = world.facts(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new(2), 1)?).await?;
    same("the result of another declaration", &replaced, &Replaced::Created(Created::Conflict))?;
    world.require_neither(&before, id(2)).await
}

async fn a_replacement_during_teardown_only_declares(world: &World) -> Outcome {
    let (old, new) = (world.stored(&resource().deregistering()).await?, new(2));
    let mut expected = world.actions(old.id()).await?;
    expected.push(AuditAction::Replaced);
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    same("the result of a replacement", &replaced, &Replaced::Created(Created::Stored))?;
    same("the old one is", &world.get(old.id()).await?, &old)?;
    same("the audited actions of the old resource", &world.actions(old.id()).await?, &expected)?;
    same_resource(&world.get(new.id()).await?, &new.build())
}
