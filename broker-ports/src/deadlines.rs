//! Deadlines for port calls. A port that hangs delays one pass, not the whole broker.

use std::time::Duration;

/// The timeout of each kind of port call.
///
/// The application enforces them. It drops a call at its deadline and counts it as [`Unknown`] if it may have changed
/// something, else as [`Transient`].
///
/// [`Unknown`]: crate::FailureClass::Unknown
/// [`Transient`]: crate::FailureClass::Transient
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "an embedder must choose a new deadline")]
pub struct Deadlines {
    /// One call of repository, schedule, outbox or audit sink.
    pub store: Duration,
    /// One call of a resolver or of the assignment reader.
    pub resolve: Duration,
    /// One read of the cluster, including a dry run, an inspection or a new subscription.
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

/// [`Deadlines::DEFAULT`].
impl Default for Deadlines {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Deadlines {
    /// 5 s for store, resolvers and token issuer; 15 s for the cluster; 10 s for the node deregistrar and a delivery.
    pub const DEFAULT: Self = Self {
        store: Duration::from_secs(5),
        resolve: Duration::from_secs(5),
        cluster_read: Duration::from_secs(15),
        cluster_write: Duration::from_secs(15),
        token: Duration::from_secs(5),
        node: Duration::from_secs(10),
        deliver: Duration::from_secs(10),
    };

    /// The same timeout for every call.
    pub const fn each(timeout: Duration) -> Self {
        Self {
            store: timeout,
            resolve: timeout,
            cluster_read: timeout,
            cluster_write: timeout,
            token: timeout,
            node: timeout,
            deliver: timeout,
        }
    }
}
