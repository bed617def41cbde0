//! Cases for times: their source, their precision, and the watermark of a listing.

use time::{Duration, OffsetDateTime};

use super::prelude::*;
use crate::builders::stamp;

pub(super) fn cases<W: StoreUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![
        times_keep_their_microseconds,
        a_change_is_never_older_than_its_resource,
        the_watermark_waits_for_open_transactions,
    ]
}

/// Stores a resource that was declared at this time.
async fn declare_at(
    world: &World,
    builder: &ResourceBuilder,
    at: OffsetDateTime,
) -> Checked<ProvisionedResource> {
    let declaration = builder.declaration();
    let resource = builder.build();
    let change = ProvisionedResource::new(
        builder.id(),
        &declaration,
        resource.mesh_role(),
        resource.parameters().clone(),
        Stamp::new(stamp(777, 0).event_id, at),
    )?;
    world.register_references(&declaration).await?;
    let admitted = admitted_as(&change, &declaration);
    let created = world.repository().create(&admitted).await?;
    equal("the result of a creation", &created, &Created::Stored)?;
    world.get(builder.id()).await
}

async fn times_keep_their_microseconds(world: &World) -> Outcome {
    let time = |micros| second(0) + Duration::microseconds(micros);
    let stored = declare_at(world, &resource(), time(123_456)).await?;
    equal("the creation time", &stored.created_at(), &time(123_456))?;
    equal("the start of the phase", &stored.phase_entered_at(), &time(123_456))?;
    let event = world.claim_event("relay").await?;
    equal("the time of the event", &event.occurred_at, &time(123_456))?;
    // A change must not be older than the previous one, so this time follows the stored one.
    let at = stored.updated_at() + Duration::microseconds(234_567);
    let deletion = stored.request_deletion(Stamp::new(stamp(778, 0).event_id, at));
    let deletion = deletion.ok_or(Violation::new("the deletion was already requested"))?;
    world.commit(WriteKind::DeletionIntent, &deletion).await?;
    let requested_at = world.get(stored.id()).await?.deletion_requested_at();
    equal("the time of the deletion request", &requested_at, &Some(at))?;
    let brake = Brake::new(11, 100, time(345_678));
    world.schedule().set_brake(&cluster(1), &brake, &attribution()).await?;
    equal("the brakes", &world.schedule().brakes(&cluster(1)).await?, &vec![brake])
}

async fn a_change_is_never_older_than_its_resource(world: &World) -> Outcome {
    // The declaring client's clock is far ahead of the store's.
    let future = second(0) + Duration::days(100 * 365);
    let stored = declare_at(world, &resource(), future).await?;
    require(stored.updated_at() >= stored.created_at(), "the change is older than the creation")?;
    let change = stored.advance(Phase::Provisioning, Stamp::new(stamp(778, 0).event_id, future))?;
    let change = change.ok_or(Violation::new("the resource is already in the phase"))?;
    world.commit(WriteKind::Phase, &change).await?;
    let changed = world.get(stored.id()).await?;
    require(changed.updated_at() >= changed.created_at(), "the change is older than the creation")
}

/// The changes since a watermark, and the next watermark.
async fn changes_since(
    world: &World,
    watermark: Watermark,
) -> Checked<(Vec<ProvisionedResourceId>, Watermark)> {
    let query = ListQuery::new(rows(100)).updated_since(watermark);
    let page = world.repository().list(&query).await?;
    Ok((page.resources.iter().map(ProvisionedResource::id).collect(), page.watermark))
}

async fn the_watermark_waits_for_open_transactions(world: &World) -> Outcome {
    let first = world.store(&resource()).await?;
    let uncommitted = nth_resource(2);
    world.register_references(&uncommitted.declaration()).await?;
    let open = world.begin_create(&uncommitted.admitted()).await?;
    // A follower sees other commits, but nothing of the open transaction.
    let page = world.repository().list(&ListQuery::new(rows(100))).await?;
    let listed: Vec<_> = page.resources.iter().map(ProvisionedResource::id).collect();
    equal("the rows listed before the commit", &listed, &vec![first.id()])?;
    world.commit(WriteKind::DeletionIntent, &deletion_request(&first, 1)?).await?;
    let (changed, watermark) = changes_since(world, page.watermark).await?;
    require(changed.contains(&first.id()), "a change during an open transaction is not listed")?;
    require(!changed.contains(&uncommitted.id()), "an uncommitted row is listed")?;
    open.commit().await?;
    let (changed, watermark) = changes_since(world, watermark).await?;
    require(changed.contains(&uncommitted.id()), "a row of a later commit is not listed")?;
    // A follower that continues from the new watermark misses no change.
    let next = world.store(&nth_resource(3)).await?;
    let (changed, _) = changes_since(world, watermark).await?;
    require(changed.contains(&next.id()), "the next change is not listed")?;
    world.get(uncommitted.id()).await.map(drop)
}
