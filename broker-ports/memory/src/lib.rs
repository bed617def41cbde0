//! Adapters that keep all state in this process, for tests and demos.
//!
//! They keep the same guarantees as the real adapters and pass the same contract suites.

mod adapters;
mod clock;
mod cluster;
mod event_sink;
mod hints;
mod ids;
mod mesh;
mod platform;
mod resolvers;
mod store;
mod tokens;

/// The result of a port call.
type PortResult<T> = Result<T, broker_ports::PortError>;

pub use adapters::MemoryAdapters;
pub use clock::ManualClock;
pub use cluster::{
    Activity, AgentDocument, Behaviour, HintDelivery, KindScope, MemoryCluster, Part,
    StoredVersion, Verb,
};
pub use event_sink::RecordingEventSink;
pub use ids::SequentialIds;
pub use mesh::{EnrolError, JoinError, MemoryMesh};
pub use platform::MemoryPlatform;
pub use resolvers::{BlueprintDocuments, MemoryPlatformContexts};
pub use store::MemoryStore;
pub use tokens::MemoryTokens;

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
