//! The contracts of [`Clock`] and [`IdSource`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::{Uuid, Variant};

use super::cases::{require, suite_of};
use crate::clock::{Clock, IdSource};
use crate::testing::{Suite, Violation};

/// A clock, and a way to let time pass.
#[async_trait]
pub trait ClockUnderTest: Send + Sync {
    /// The clock.
    fn clock(&self) -> &dyn Clock;

    /// Lets at least this time pass: by turning the clock, or by waiting.
    async fn advance(&self, by: Duration);
}

/// Where ids come from, in two replicas.
pub trait IdSourceUnderTest: Send + Sync {
    /// The source of one replica; another replica each time.
    fn replica(&self) -> Arc<dyn IdSource>;
}

/// Every promise of [`Clock`].
pub fn clock_suite<W: ClockUnderTest + 'static>() -> Suite<W> {
    Suite::new(suite_of!(cases { the_time_is_utc, time_passes }))
}

/// Every promise of [`IdSource`].
pub fn id_source_suite<W: IdSourceUnderTest + 'static>() -> Suite<W> {
    Suite::new(suite_of!(cases {
        ids_of_resources_are_version_7,
        ids_of_resources_grow,
        no_id_is_given_twice,
        replicas_never_give_the_same_id,
    }))
}

mod cases {
    use super::*;

    type Outcome = Result<(), Violation>;

    const DRAWS: usize = 10_000;

    pub(super) async fn the_time_is_utc(world: &dyn ClockUnderTest) -> Outcome {
        require(world.clock().now().offset().is_utc(), "the clock shows local time")
    }

    pub(super) async fn time_passes(world: &dyn ClockUnderTest) -> Outcome {
        let (before, step) = (world.clock().now(), Duration::from_millis(20));
        world.advance(step).await;
        require(world.clock().now() >= before + step, "time passes and the clock does not show it")
    }

    pub(super) async fn ids_of_resources_are_version_7(world: &dyn IdSourceUnderTest) -> Outcome {
        let id = world.replica().provisioned_resource_id().as_uuid();
        require(
            id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122,
            &format!("{id} is not a version 7 UUID"),
        )
    }

    pub(super) async fn ids_of_resources_grow(world: &dyn IdSourceUnderTest) -> Outcome {
        let source = world.replica();
        let ids: Vec<_> = (0..DRAWS).map(|_| source.provisioned_resource_id()).collect();
        require(ids.is_sorted_by(|a, b| a < b), "a later id sorts before an earlier one")
    }

    pub(super) async fn no_id_is_given_twice(world: &dyn IdSourceUnderTest) -> Outcome {
        let ids: BTreeSet<_> = draw(&*world.replica()).collect();
        require(ids.len() == 2 * DRAWS, "an id was given twice")
    }

    pub(super) async fn replicas_never_give_the_same_id(world: &dyn IdSourceUnderTest) -> Outcome {
        let (one, other) = (world.replica(), world.replica());
        let ids: BTreeSet<_> = draw(&*one).collect();
        require(!draw(&*other).any(|id| ids.contains(&id)), "two replicas gave the same id")
    }

    /// Ids of resources and of events, in turn.
    fn draw(source: &dyn IdSource) -> impl Iterator<Item = Uuid> {
        let pair = || [source.provisioned_resource_id().as_uuid(), source.event_id().as_uuid()];
        (0..DRAWS).flat_map(move |_| pair())
    }
}
