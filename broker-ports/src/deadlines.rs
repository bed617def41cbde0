//! How long each collaborator may take. A hung one costs one pass, not the broker.

use std::time::Duration;

/// The patience of the broker with each of its collaborators.
///
/// There is no default: only the composition root knows how slow its store or its cloud may be. Whoever
/// calls a port enforces these; a call that runs out is dropped and counts as [`Unknown`] if it could have
/// changed something, else as [`Transient`].
///
/// [`Unknown`]: crate::FailureClass::Unknown
/// [`Transient`]: crate::FailureClass::Transient
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadlines {
    /// One call of repository, schedule, outbox or audit sink.
    pub store: Duration,
    /// One call of a resolver or of the assignment reader.
    pub resolve: Duration,
    /// One read of the cluster, a dry run and an inspection included; and how long a subscription may take.
    pub cluster_read: Duration,
    /// One apply or delete on the cluster.
    pub cluster_write: Duration,
    /// One call of the token issuer.
    pub token: Duration,
    /// One call of the node deregistrar.
    pub node: Duration,
    /// One delivery by the event sink.
    pub deliver: Duration,
}

impl Deadlines {
    /// The same patience with everybody.
    pub const fn each(patience: Duration) -> Self {
        Self {
            store: patience,
            resolve: patience,
            cluster_read: patience,
            cluster_write: patience,
            token: patience,
            node: patience,
            deliver: patience,
        }
    }
}
