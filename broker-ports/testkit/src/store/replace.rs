//! Promises of `replace`: the deletion request and the creation are one transaction.

use broker_ports::Replaced;

use super::prelude::*;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        replacement_commits_deletion_and_creation,
        replacement_from_an_older_version_stores_nothing,
        repeated_replacement_is_answered_with_the_first,
        replacement_under_a_used_request_id_is_a_conflict,
        refused_replacement_leaves_the_old_one_as_it_was,
        replacement_of_a_leaving_resource_only_declares,
        of_16_replacements_with_one_request_id_one_stores,
        dropped_replacement_is_whole_or_nothing,
    ]
}

/// The request id that the replacements of these cases come under.
const REQUEST: &str = "replace-1";

/// What takes the place of the old one.
fn new() -> ResourceBuilder {
    resource().numbered(2).declared_as(declaration().requested_as(REQUEST))
}

/// A replacement of what was read, with an event id of its own.
fn replacement(
    old: &ProvisionedResource,
    new: &ResourceBuilder,
    number: u128,
) -> Result<Replacement, Violation> {
    Ok(Replacement::new(old, new.admitted(), fresh_stamp(number))?)
}

impl dyn StoreUnderTest + '_ {
    /// Both halves are there, each with its audit lines and due at once.
    async fn require_both(&self, old: &ProvisionedResource, new: &ResourceBuilder) -> Outcome {
        let expected = old.request_deletion(fresh_stamp(1));
        let expected = expected.ok_or(Violation::new("it is leaving already"))?;
        same("the old one is in", &self.get(old.id()).await?.phase(), &Phase::Deregistering)?;
        same(
            "its version is",
            &self.get(old.id()).await?.version(),
            &expected.resource().version(),
        )?;
        let actions = self.actions(old.id()).await?;
        let last_two = &actions[actions.len().saturating_sub(2)..];
        same(
            "the audit of the old one ends with",
            &last_two.to_vec(),
            &vec![AuditAction::DeletionRequested, AuditAction::Replaced],
        )?;
        let line = self.last_line(old.id()).await?.entry;
        same("the line names the new one", &line.event_data, &Some(new.id().to_string()))?;
        same("the line came by", &line.attribution, &attribution())?;
        let leaving = Some(Phase::Deregistering);
        same("it tells of phases", &(line.previous_phase, line.new_phase), &(leaving, leaving))?;
        same_resource(&self.get(new.id()).await?, &new.build())?;
        let declared = vec![AuditAction::Declared];
        same("the audit of the new one says", &self.actions(new.id()).await?, &declared)?;
        for id in [old.id(), new.id()] {
            require(is_due(&self.entry(id).await?), "what was replaced or is new is not due")?;
        }
        Ok(())
    }
}

async fn replacement_commits_deletion_and_creation(world: &dyn StoreUnderTest) -> Outcome {
    let (old, new) = (world.stored(&resource().ready()).await?, new());
    world.deliver_all().await?;
    world.pass(&old, &asked_to_wait(HOUR)).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    same("a replacement is answered", &replaced, &Replaced::Created(Created::Stored))?;
    world.require_both(&old, &new).await?;
    let events = world.deliver_all().await?;
    let mut told: Vec<_> = events.iter().map(|it| (it.resource, it.event_type)).collect();
    told.sort_unstable_by_key(|(resource, _)| *resource);
    let expected = vec![(old.id(), EventType::Deleting), (new.id(), EventType::Requested)];
    same("the events are", &told, &expected)
}

async fn replacement_from_an_older_version_stores_nothing(world: &dyn StoreUnderTest) -> Outcome {
    let (old, new) = (world.stored(&resource()).await?, new());
    world.commit(WriteKind::Phase, &to(&old, Phase::Provisioning, 1)?).await?;
    let before = world.facts(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new, 2)?).await?;
    same("an old version is answered", &replaced, &Replaced::Stale)?;
    world.require_untouched(old.id(), &before).await?;
    same("the new one is", &world.repository().get_by_id(new.id()).await?, &None)?;
    // The request id is still free.
    let read = world.get(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&read, &new, 3)?).await?;
    same("the stored version is answered", &replaced, &Replaced::Created(Created::Stored))
}

async fn repeated_replacement_is_answered_with_the_first(world: &dyn StoreUnderTest) -> Outcome {
    let (old, new) = (world.stored(&resource().enrolling().with_token()).await?, new());
    let _ = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    let before = world.facts(old.id()).await?;
    let again = resource().numbered(3).declared_as(declaration().requested_as(REQUEST));
    // Once from the version that is stale by now, once from what is in teardown.
    for read in [old.clone(), world.get(old.id()).await?] {
        let replaced = world.repository().replace(&replacement(&read, &again, 2)?).await?;
        let Replaced::Created(Created::Replayed(first)) = replaced else {
            return Err(Violation::new(format!("a repeated replacement is answered {replaced:?}")));
        };
        same_resource(&first, &new.build())?;
        world.require_untouched(old.id(), &before).await?;
    }
    same("the second one is", &world.repository().get_by_id(again.id()).await?, &None)
}

async fn replacement_under_a_used_request_id_is_a_conflict(world: &dyn StoreUnderTest) -> Outcome {
    let old = world.stored(&resource().ready()).await?;
    let other = declaration().requested_as(REQUEST).with_parameters(r#"{"a":1}"#);
    world.stored(&resource().numbered(3).declared_as(other)).await?;
    let before = world.facts(old.id()).await?;
    let replaced = world.repository().replace(&replacement(&old, &new(), 1)?).await?;
    same("another declaration is answered", &replaced, &Replaced::Created(Created::Conflict))?;
    world.require_untouched(old.id(), &before).await?;
    same("the new one is", &world.repository().get_by_id(id(2)).await?, &None)
}

async fn refused_replacement_leaves_the_old_one_as_it_was(world: &dyn StoreUnderTest) -> Outcome {
    let old = world.stored(&resource().ready()).await?;
    let before = world.facts(old.id()).await?;
    let absent = new().declared_as(declaration().with_credential(99).requested_as(REQUEST));
    let replaced = world.repository().replace(&replacement(&old, &absent, 1)?).await;
    require_refused(replaced, "credential_not_found", "")?;
    world.require_untouched(old.id(), &before).await?;
    same("the new one is", &world.repository().get_by_id(absent.id()).await?, &None)
}

async fn replacement_of_a_leaving_resource_only_declares(world: &dyn StoreUnderTest) -> Outcome {
    let (old, new) = (world.stored(&resource().deregistering()).await?, new());
    let mut expected = world.actions(old.id()).await?;
    expected.push(AuditAction::Replaced);
    let replaced = world.repository().replace(&replacement(&old, &new, 1)?).await?;
    same("a replacement is answered", &replaced, &Replaced::Created(Created::Stored))?;
    same("the old one is", &world.get(old.id()).await?, &old)?;
    same("the audit of the old one says", &world.actions(old.id()).await?, &expected)?;
    same_resource(&world.get(new.id()).await?, &new.build())
}

async fn of_16_replacements_with_one_request_id_one_stores(world: &dyn StoreUnderTest) -> Outcome {
    let old = world.stored(&resource().ready()).await?;
    let replacements = (2..=17)
        .map(|number| {
            let shared = declaration().requested_as(REQUEST);
            replacement(&old, &resource().numbered(number).declared_as(shared), number)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let calls = replacements.iter().map(|replacement| world.repository().replace(replacement));
    let mut stored = Vec::new();
    for (replacement, answer) in replacements.iter().zip(try_join_all(calls).await?) {
        match answer {
            Replaced::Created(Created::Stored) => {
                stored.push(replacement.admitted().change().resource().id());
            }
            Replaced::Created(Created::Replayed(_)) => {}
            other @ (Replaced::Created(Created::Conflict) | Replaced::Stale) => {
                return Err(Violation::new(format!("an equal replacement is answered {other:?}")));
            }
        }
    }
    let [winner] = stored[..] else {
        return Err(Violation::new(format!("{} of 16 were stored", stored.len())));
    };
    let lines = world.actions(old.id()).await?;
    let replaced = lines.iter().filter(|action| **action == AuditAction::Replaced).count();
    same("the old one was replaced so often", &replaced, &1)?;
    same("the new one is in", &world.get(winner).await?.phase(), &Phase::Pending)
}

async fn dropped_replacement_is_whole_or_nothing(world: &dyn StoreUnderTest) -> Outcome {
    for polls in 1..=MOST_POLLS {
        let number = u128::from(polls) * 2;
        let old = world.stored(&resource().numbered(number).ready()).await?;
        let shared = declaration().requested_as(&format!("replace-{polls}"));
        let new = resource().numbered(number + 1).declared_as(shared);
        world.know(&new.declaration()).await?;
        world.deliver_all().await?;
        let replacement = replacement(&old, &new, number)?;
        let answer = dropped_after(polls, world.repository().replace(&replacement)).await;
        match world.repository().replace(&replacement).await? {
            Replaced::Created(Created::Stored) => {
                require(answer.is_none(), "what was stored is stored again")?;
            }
            Replaced::Created(Created::Replayed(first)) => same_resource(&first, &new.build())?,
            other @ (Replaced::Created(Created::Conflict) | Replaced::Stale) => {
                return Err(Violation::new(format!("the same replacement is answered {other:?}")));
            }
        }
        world.require_both(&old, &new).await?;
        same("there are events", &world.deliver_all().await?.len(), &2)?;
        if answer.is_some() {
            return Ok(());
        }
    }
    Err(never_answered())
}
