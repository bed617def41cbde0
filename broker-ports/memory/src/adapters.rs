//! One in-memory adapter per port, wired together.

use std::sync::Arc;

use broker_domain::ClusterId;
use broker_ports::Ports;
use time::OffsetDateTime;

use crate::{
    ManualClock, MemoryCluster, MemoryMesh, MemoryPlatformContexts, MemoryStore, MemoryTokens,
    RecordingEventSink, SequentialIds,
};

/// An adapter for each port. Clones are handles on the same state.
///
/// ```
/// use broker_domain::ClusterId;
/// use broker_memory::MemoryAdapters;
/// use time::OffsetDateTime;
///
/// let cluster = ClusterId::new("kube-system-uid").unwrap();
/// let adapters = MemoryAdapters::new(7, OffsetDateTime::UNIX_EPOCH, cluster);
/// assert_eq!(adapters.ports().clock.now(), OffsetDateTime::UNIX_EPOCH);
/// ```
#[derive(Clone)]
pub struct MemoryAdapters {
    /// The clock of every adapter.
    pub clock: ManualClock,
    /// Rows, events, audit and schedule.
    pub store: MemoryStore,
    /// The management cluster, with a Crossplane.
    pub cluster: MemoryCluster,
    /// The token issuer.
    pub tokens: MemoryTokens,
    /// The mesh in which agents enrol and Nodes live.
    pub mesh: MemoryMesh,
    /// The platform's other contexts: catalog, inventory, assignments and labels.
    pub platform: MemoryPlatformContexts,
    /// The receiver of events.
    pub sink: RecordingEventSink,
    /// The source of ids.
    pub ids: SequentialIds,
}

impl MemoryAdapters {
    /// Empty adapters whose clock shows `now`, over a cluster of this identity. The seed determines ids and tokens.
    pub fn new(seed: u32, now: OffsetDateTime, cluster: ClusterId) -> Self {
        let clock = ManualClock::at(now);
        let shared_clock = Arc::new(clock.clone());
        let tokens = MemoryTokens::seeded(seed, shared_clock.clone());
        Self {
            store: MemoryStore::new(shared_clock.clone()),
            cluster: MemoryCluster::new(shared_clock, cluster),
            mesh: MemoryMesh::of(&tokens),
            tokens,
            platform: MemoryPlatformContexts::default(),
            sink: RecordingEventSink::default(),
            ids: SequentialIds::seeded(seed),
            clock,
        }
    }

    /// All ports of the broker.
    pub fn ports(&self) -> Ports {
        let store = Arc::new(self.store.clone());
        let platform = Arc::new(self.platform.clone());
        Ports {
            repository: store.clone(),
            schedule: store.clone(),
            outbox: store.clone(),
            audit: store,
            cluster: Arc::new(self.cluster.clone()),
            tokens: Arc::new(self.tokens.clone()),
            nodes: Arc::new(self.mesh.deregistrar()),
            blueprints: platform.clone(),
            clouds: platform.clone(),
            credentials: platform.clone(),
            assignments: platform.clone(),
            labels: platform,
            sink: Arc::new(self.sink.clone()),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(self.ids.clone()),
        }
    }
}
