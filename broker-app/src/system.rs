//! The machine's own clock and ids, for the ports [`Clock`] and [`IdSource`].

use broker_domain::{EventId, ProvisionedResourceId};
use broker_ports::{Clock, IdSource, WorkerId};
use time::OffsetDateTime;
use uuid::Uuid;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

/// Version 7 UUIDs, which grow with the machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that the Clock port stands for"
    )]
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }
}

impl IdSource for SystemIds {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        new_id()
    }

    fn event_id(&self) -> EventId {
        new_id()
    }
}

/// A name for this replica that no other replica and no other start has.
pub(crate) fn new_worker() -> WorkerId {
    WorkerId::of_replica(new_uuid())
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the source that the IdSource port stands for"
)]
fn new_uuid() -> Uuid {
    Uuid::now_v7()
}

/// A new id of any kind. Only the nil UUID is refused, and that is never minted.
fn new_id<T: TryFrom<Uuid>>() -> T {
    loop {
        if let Ok(id) = T::try_from(new_uuid()) {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use async_trait::async_trait;
    use broker_testkit::clock::{ClockUnderTest, IdSourceUnderTest, clock_suite, id_source_suite};

    use super::*;

    #[async_trait]
    impl ClockUnderTest for SystemClock {
        fn clock(&self) -> &dyn Clock {
            self
        }

        async fn advance(&self, by: Duration) {
            tokio::time::sleep(by).await;
        }
    }

    struct Replicas;

    impl IdSourceUnderTest for Replicas {
        fn replica(&self) -> Arc<dyn IdSource> {
            Arc::new(SystemIds)
        }
    }

    #[tokio::test]
    async fn the_ids_keep_the_contract_of_an_id_source() {
        id_source_suite().run(async || Replicas).await.assert_passed();
    }

    #[tokio::test]
    async fn the_clock_keeps_the_contract_of_a_clock() {
        clock_suite().run(async || SystemClock).await.assert_passed();
    }
}
