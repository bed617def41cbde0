//! Time and ids, from outside: so that a test, a replay and a model checker see the same world.

use broker_domain::{EventId, ProvisionedResourceId};
use time::OffsetDateTime;

/// What time it is.
///
/// **Implementer**: the wall clock, in UTC. It may jump; nothing in the broker orders events by it. Leases
/// and due times are counted by the store's own clock instead.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> OffsetDateTime;
}

/// Where new ids come from.
///
/// **Implementer**: every id is new, over all replicas and restarts. Ids of resources are version 7 UUIDs,
/// which grow with time, so that the newest rows lie together in an index.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait IdSource: Send + Sync {
    /// An id for a declared resource.
    fn provisioned_resource_id(&self) -> ProvisionedResourceId;

    /// An id for a lifecycle event.
    fn event_id(&self) -> EventId;
}
