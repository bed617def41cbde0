//! Promises of `replace`: the deletion request and the creation are one transaction.

use broker_ports::Replaced;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        replacement_commits_deletion_and_creation,
        replacement_from_an_older_version_stores_nothing,
        repeated_replacement_is_answered_with_the_first,
        refused_replacement_leaves_the_old_one_as_it_was,
        replacement_of_a_leaving_resource_only_declares,
    ]
}

/// What takes the place of the old one, under the request id that the replacements of these cases come under.
fn new(number: u128) -> ResourceBuilder {
    numbered(number).declared_as(declaration().requested_as("replace-1"))
}

/// A replacement of what was read, with an event id of its own.
fn replacement(
    old: &ProvisionedResource,
    new: &ResourceBuilder,
    number: u128,
) -> Checked<Replacement> {
    Ok(Replacement::new(old, new.admitted(), fresh_stamp(number))?)
}

impl World {
    /// The new one is not there, and the old one is as it was.
    async fn require_neither(&self, old: &Facts, id: ProvisionedResourceId) -> Outcome {
        self.require_untouched(numbered(1).id(), old).await?;
        same("the new one is", &self.repository().get_by_id(id).await?, &None)
    }
}

async fn replacement_commits_deletion_and_creation(world: &World) -> Outcome {
    let (old, new) = (world.stored(&resource().ready()).await?, new(2));
    world.deliver_all().await?;
    world.pass(&old, &asked_to_wait(HOUR)).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    same("a replacement is answered", &replaced, &Replaced::Created(Created::Stored))?;
    let left = world.get(old.id()).await?;
    same("the old one is in", &left.phase(), &Phase::Deregistering)?;
    same("its version is", &left.version(), &deletion(&old, 1)?.resource().version())?;
    let actions = world.actions(old.id()).await?;
    let last_two = actions[actions.len().saturating_sub(2)..].to_vec();
    let expected = vec![AuditAction::DeletionRequested, AuditAction::Replaced];
    same("the audit of the old one ends with", &last_two, &expected)?;
    let line = world.last_line(old.id()).await?.entry;
    same("the line names the new one", &line.event_data, &Some(new.id().to_string()))?;
    same("the line came by", &line.attribution, &attribution())?;
    let leaving = Some(Phase::Deregistering);
    same("it tells of phases", &(line.previous_phase, line.new_phase), &(leaving, leaving))?;
    same_resource(&world.get(new.id()).await?, &new.build())?;
    let declared = vec![AuditAction::Declared];
    same("the audit of the new one says", &world.actions(new.id()).await?, &declared)?;
    for id in [old.id(), new.id()] {
        require(is_due(&world.entry(id).await?), "what was replaced or is new is not due")?;
    }
    let events = world.deliver_all().await?;
    let mut told: Vec<_> = events.iter().map(|it| (it.resource, it.event_type)).collect();
    told.sort_unstable_by_key(|(resource, _)| *resource);
    let expected = vec![(old.id(), EventType::Deleting), (new.id(), EventType::Requested)];
    same("the events are", &told, &expected)
}

async fn replacement_from_an_older_version_stores_nothing(world: &World) -> Outcome {
    let (old, new) = (world.stored(&resource()).await?, new(2));
    world.commit(WriteKind::Phase, &to(&old, Phase::Provisioning, 1)?).await?;
    let before = world.facts(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 2)?).await?;
    same("an old version is answered", &replaced, &Replaced::Stale)?;
    world.require_neither(&before, new.id()).await?;
    // The request id is still free.
    let read = world.get(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&read, &new, 3)?).await?;
    same("the stored version is answered", &replaced, &Replaced::Created(Created::Stored))
}

async fn repeated_replacement_is_answered_with_the_first(world: &World) -> Outcome {
    let old = world.stored(&resource().enrolling().with_token()).await?;
    let _ = world.repository().replace(&replacement(&old, &new(2), 1)?).await?;
    let before = world.facts(old.id()).await?;
    // Once from the version that is stale by now, once from what is in teardown.
    for read in [old.clone(), world.get(old.id()).await?] {
        let replaced = world.repository().replace(&replacement(&read, &new(3), 2)?).await?;
        let Replaced::Created(Created::Replayed(first)) = replaced else {
            return Err(Violation::new(format!("a repeated replacement is answered {replaced:?}")));
        };
        same_resource(&first, &new(2).build())?;
        world.require_neither(&before, id(3)).await?;
    }
    Ok(())
}

/// It is refused because of what it refers to, or conflicts because another declaration used its request id.
async fn refused_replacement_leaves_the_old_one_as_it_was(world: &World) -> Outcome {
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
    same("another declaration is answered", &replaced, &Replaced::Created(Created::Conflict))?;
    world.require_neither(&before, id(2)).await
}

async fn replacement_of_a_leaving_resource_only_declares(world: &World) -> Outcome {
    let (old, new) = (world.stored(&resource().deregistering()).await?, new(2));
    let mut expected = world.actions(old.id()).await?;
    expected.push(AuditAction::Replaced);
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    same("a replacement is answered", &replaced, &Replaced::Created(Created::Stored))?;
    same("the old one is", &world.get(old.id()).await?, &old)?;
    same("the audit of the old one says", &world.actions(old.id()).await?, &expected)?;
    same_resource(&world.get(new.id()).await?, &new.build())
}
