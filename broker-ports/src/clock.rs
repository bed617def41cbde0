//! Time and ids come through ports, so that tests, replays and the model checker control them.

use broker_domain::{EventId, ProvisionedResourceId};
use time::OffsetDateTime;

/// Reads the current time.
///
/// **Implementer**: the wall clock, in UTC. It may jump: the broker never orders events by it. The store's own clock
/// counts leases and due times.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> OffsetDateTime;
}

/// Creates new ids.
///
/// **Implementer**: every id is unique across replicas and restarts. Resource ids are version 7 UUIDs, which grow with
/// time, so that the newest rows are adjacent in an index.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait IdSource: Send + Sync {
    /// A new resource id.
    fn provisioned_resource_id(&self) -> ProvisionedResourceId;

    /// A new event id.
    fn event_id(&self) -> EventId;
}
