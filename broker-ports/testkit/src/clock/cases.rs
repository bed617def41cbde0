//! Cases for clock and ids.

use std::collections::BTreeSet;
use std::time::Duration;

use broker_ports::IdSource;
use uuid::{Uuid, Variant};

use super::{ClockUnderTest, IdSourceUnderTest};
use crate::prelude::*;

pub(super) fn clock_cases<W: ClockUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![clock_advances_in_utc,]
}

pub(super) fn id_source_cases<W: IdSourceUnderTest + 'static>() -> Vec<Case<W>> {
    suite_of![resource_ids_are_version_7_and_increase, ids_are_unique_across_replicas,]
}

/// The number of ids per source and type.
const DRAWS: usize = 10_000;

async fn clock_advances_in_utc(world: &dyn ClockUnderTest) -> Outcome {
    require(world.clock().now().offset().is_utc(), "the clock does not show UTC")?;
    let (before, step) = (world.clock().now(), Duration::from_millis(20));
    world.advance(step).await;
    require(world.clock().now() >= before + step, "the clock did not advance")
}

async fn resource_ids_are_version_7_and_increase(world: &dyn IdSourceUnderTest) -> Outcome {
    let source = world.replica();
    let ids: Vec<_> = (0..DRAWS).map(|_| source.provisioned_resource_id()).collect();
    let is_version_7 = |id: Uuid| id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122;
    require(ids.iter().all(|id| is_version_7(id.as_uuid())), "an id is not a version 7 UUID")?;
    require(ids.is_sorted_by(|a, b| a < b), "a later id sorts before an earlier one")
}

async fn ids_are_unique_across_replicas(world: &dyn IdSourceUnderTest) -> Outcome {
    let (first, second) = (world.replica(), world.replica());
    let ids: BTreeSet<_> = draw(&*first).chain(draw(&*second)).collect();
    require(ids.len() == 4 * DRAWS, "an id was used twice")
}

/// Resource ids and event ids, alternating.
fn draw(source: &dyn IdSource) -> impl Iterator<Item = Uuid> {
    let pair = || [source.provisioned_resource_id().as_uuid(), source.event_id().as_uuid()];
    (0..DRAWS).flat_map(move |_| pair())
}
