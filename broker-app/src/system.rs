//! The default adapters of the ports [`Clock`] and [`IdSource`].

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
    #[expect(clippy::disallowed_methods, reason = "this is the adapter behind the Clock port")]
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

/// A name for this replica, unique per replica and per start.
pub(crate) fn new_worker() -> WorkerId {
    WorkerId::of_replica(new_uuid())
}

#[expect(clippy::disallowed_methods, reason = "this is the adapter behind the IdSource port")]
fn new_uuid() -> Uuid {
    Uuid::now_v7()
}

/// A new id of any kind. The loop ends at once: an id refuses only the nil UUID, which `new_uuid` never returns.
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

    struct SystemIdReplicas;

    impl IdSourceUnderTest for SystemIdReplicas {
        fn replica(&self) -> Arc<dyn IdSource> {
            Arc::new(SystemIds)
        }
    }

    #[tokio::test]
    async fn system_ids_pass_the_id_source_contract() {
        id_source_suite().run(async || SystemIdReplicas).await.assert_passed();
    }

    #[tokio::test]
    async fn system_clock_passes_the_clock_contract() {
        clock_suite().run(async || SystemClock).await.assert_passed();
    }
}
