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

/// A resource that was declared at a moment.
async fn declared_at(
    world: &World,
    builder: &ResourceBuilder,
    at: OffsetDateTime,
) -> Checked<ProvisionedResource> {
    let declaration = builder.declaration();
    let made = builder.build();
    let change = ProvisionedResource::new(
        builder.id(),
        &declaration,
        made.mesh_role(),
        made.parameters().clone(),
        Stamp::new(stamp(777, 0).event_id, at),
    )?;
    world.know(&declaration).await?;
    let admitted = admitted_as(&change, &declaration);
    let created = world.repository().create(&admitted).await?;
    same("the result of a creation", &created, &Created::Stored)?;
    world.get(builder.id()).await
}

async fn times_keep_their_microseconds(world: &World) -> Outcome {
    let fine = |micros| second(0) + Duration::microseconds(micros);
    let stored = declared_at(world, &resource(), fine(123_456)).await?;
    same("it was created at", &stored.created_at(), &fine(123_456))?;
    same("its phase began at", &stored.phase_entered_at(), &fine(123_456))?;
    let event = world.claim_event("relay").await?;
    same("its event occurred at", &event.occurred_at, &fine(123_456))?;
    // No change is older than the previous one, so this time starts at the store's last one.
    let at = stored.updated_at() + Duration::microseconds(234_567);
    let leaving = stored.request_deletion(Stamp::new(stamp(778, 0).event_id, at));
    let leaving = leaving.ok_or(Violation::new("it is leaving already"))?;
    world.commit(WriteKind::DeletionIntent, &leaving).await?;
    let asked = world.get(stored.id()).await?.deletion_requested_at();
    same("the time of the deletion request", &asked, &Some(at))?;
    let brake = Brake::new(11, 100, fine(345_678));
    world.schedule().set_brake(&cluster(1), &brake, &attribution()).await?;
    same("the brakes are", &world.schedule().brakes(&cluster(1)).await?, &vec![brake])
}

async fn a_change_is_never_older_than_its_resource(world: &World) -> Outcome {
    // The declaring client's clock is far ahead of the store's.
    let ahead = second(0) + Duration::days(100 * 365);
    let stored = declared_at(world, &resource(), ahead).await?;
    require(stored.updated_at() >= stored.created_at(), "the change is older than the creation")?;
    let change = stored.advance(Phase::Provisioning, Stamp::new(stamp(778, 0).event_id, ahead))?;
    let change = change.ok_or(Violation::new("it is there already"))?;
    world.commit(WriteKind::Phase, &change).await?;
    let changed = world.get(stored.id()).await?;
    require(changed.updated_at() >= changed.created_at(), "the change is older than the creation")
}

/// The changes since a watermark, and the next watermark.
async fn since(
    world: &World,
    watermark: Watermark,
) -> Checked<(Vec<ProvisionedResourceId>, Watermark)> {
    let query = ListQuery::new(rows(100)).updated_since(watermark);
    let page = world.repository().list(&query).await?;
    Ok((page.resources.iter().map(ProvisionedResource::id).collect(), page.watermark))
}

async fn the_watermark_waits_for_open_transactions(world: &World) -> Outcome {
    let first = world.stored(&resource()).await?;
    let late = numbered(2);
    world.know(&late.declaration()).await?;
    let open = world.begin_create(&late.admitted()).await?;
    // Meanwhile a follower sees other commits and nothing of the open transaction.
    let page = world.repository().list(&ListQuery::new(rows(100))).await?;
    let seen: Vec<_> = page.resources.iter().map(ProvisionedResource::id).collect();
    same("before the commit there is", &seen, &vec![first.id()])?;
    world.commit(WriteKind::DeletionIntent, &deletion(&first, 1)?).await?;
    let (changed, watermark) = since(world, page.watermark).await?;
    require(changed.contains(&first.id()), "a change during an open transaction is not listed")?;
    require(!changed.contains(&late.id()), "an uncommitted row is listed")?;
    open.commit().await?;
    let (changed, watermark) = since(world, watermark).await?;
    require(changed.contains(&late.id()), "a late commit lies below an earlier watermark")?;
    // A follower that continues from there misses nothing either.
    let next = world.stored(&numbered(3)).await?;
    let (changed, _) = since(world, watermark).await?;
    require(changed.contains(&next.id()), "the next change is not listed")?;
    world.get(late.id()).await.map(drop)
}
