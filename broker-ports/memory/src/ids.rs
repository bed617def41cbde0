//! Predictable ids, so that a run is repeatable.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use broker_domain::{EventId, ProvisionedResourceId};
use uuid::{Builder, Uuid};

use broker_ports::IdSource;

/// A sequence of version 7 UUIDs, determined by the seed. Clones are handles on the same sequence.
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
    issued: Arc<AtomicU64>,
}

/// The timestamp of the first id, in Unix milliseconds. Each later id uses the next millisecond.
const FIRST_MILLIS: u64 = 1_790_000_000_000;

impl SequentialIds {
    /// The sequence of a seed, from its start.
    pub fn seeded(seed: u32) -> Self {
        Self { seed, issued: Arc::new(AtomicU64::new(0)) }
    }

    /// The next id. Its timestamp counts up, so ids increase. Its last bytes are the seed, so sequences of different
    /// seeds never collide.
    pub fn uuid(&self) -> Uuid {
        let position = self.issued.fetch_add(1, Ordering::Relaxed);
        let mut random_bytes = [0; 10];
        random_bytes[6..].copy_from_slice(&self.seed.to_be_bytes());
        Builder::from_unix_timestamp_millis(FIRST_MILLIS + position, &random_bytes).into_uuid()
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
