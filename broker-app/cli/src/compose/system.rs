//! The machine's own clock and ids, which everything else gets through ports.

use broker_domain::{EventId, ProvisionedResourceId};
use broker_ports::{Clock, IdSource};
use time::OffsetDateTime;
use uuid::Uuid;

/// The machine's clock.
pub(super) struct SystemClock;

/// Version 7 UUIDs, which grow with the machine's clock.
pub(super) struct SystemIds;

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
        minted()
    }

    fn event_id(&self) -> EventId {
        minted()
    }
}

/// A new id.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the source that the IdSource port stands for"
)]
pub(super) fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// A new id of any kind; only the nil UUID is none, and that is never minted.
fn minted<T: TryFrom<Uuid>>() -> T {
    loop {
        if let Ok(id) = T::try_from(new_id()) {
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
    async fn they_keep_the_contract_of_an_id_source() {
        id_source_suite().run(async || Replicas).await.assert_passed();
    }

    #[tokio::test]
    async fn it_keeps_the_contract_of_a_clock() {
        clock_suite().run(async || SystemClock).await.assert_passed();
    }
}
