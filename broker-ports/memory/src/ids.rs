//! Ids that can be foretold, so that a run can be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_domain::{EventId, ProvisionedResourceId};
use uuid::{Builder, Uuid};

use broker_ports::IdSource;

/// Version 7 UUIDs in a row: the same seed gives the same ids, another seed gives others. Clones are
/// handles on the same row.
///
/// ```
/// use broker_ports::IdSource;
/// use broker_memory::SequentialIds;
///
/// let ids = SequentialIds::seeded(7);
/// let first = ids.provisioned_resource_id();
/// assert!(first < ids.provisioned_resource_id());
/// assert_eq!(first, SequentialIds::seeded(7).provisioned_resource_id());
/// ```
#[derive(Debug, Clone)]
pub struct SequentialIds {
    seed: u32,
    given: Arc<AtomicU64>,
}

/// The moment that the first id claims to be from, in Unix milliseconds; each later id claims the next.
const FIRST_MILLIS: u64 = 1_790_000_000_000;

impl SequentialIds {
    /// The row of a seed, from its beginning.
    pub fn seeded(seed: u32) -> Self {
        Self { seed, given: Arc::new(AtomicU64::new(0)) }
    }

    /// The next id of the row. The count stands in front, so ids grow; the seed stands at the end, so that
    /// rows of different seeds never meet.
    pub fn uuid(&self) -> Uuid {
        let nth = self.given.fetch_add(1, Ordering::Relaxed);
        let mut rest = [0; 10];
        rest[6..].copy_from_slice(&self.seed.to_be_bytes());
        Builder::from_unix_timestamp_millis(FIRST_MILLIS + nth, &rest).into_uuid()
    }
}

impl IdSource for SequentialIds {
    fn provisioned_resource_id(&self) -> ProvisionedResourceId {
        ProvisionedResourceId::new(self.uuid()).expect("a UUID with a version is not nil")
    }

    fn event_id(&self) -> EventId {
        EventId::new(self.uuid()).expect("a UUID with a version is not nil")
    }
}
