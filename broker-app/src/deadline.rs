//! Adds a deadline to each call of a port, and the port's name to each error.
//!
//! A call that times out or panics fails: a read did not happen, a write may have happened. The error omits the panic's
//! payload, which may contain a secret. The process's panic hook runs first, and the standard hook prints the payload.
//! The crate documentation shows a hook that prints only the location.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use broker_ports::{
    AssignmentReader, AuditSink, BlueprintResolver, Clock, CloudResolver, Cluster,
    CredentialResolver, Deadlines, IdSource, NodeDeregistrar, Outbox, PortError, PortName, Ports,
    Repository, ResourceReader, Schedule, TokenIssuer,
};
use futures_util::FutureExt;

use crate::error::Error;

pub(crate) struct TimedPort<P: ?Sized> {
    port: Arc<P>,
    name: PortName,
    read: Duration,
    write: Duration,
}

#[derive(Clone)]
pub(crate) struct TimedPorts {
    pub(crate) repository: TimedPort<dyn Repository>,
    pub(crate) schedule: TimedPort<dyn Schedule>,
    pub(crate) outbox: TimedPort<dyn Outbox>,
    pub(crate) cluster: TimedPort<dyn Cluster>,
    pub(crate) tokens: TimedPort<dyn TokenIssuer>,
    pub(crate) nodes: TimedPort<dyn NodeDeregistrar>,
    pub(crate) blueprints: TimedPort<dyn BlueprintResolver>,
    pub(crate) clouds: TimedPort<dyn CloudResolver>,
    pub(crate) credentials: TimedPort<dyn CredentialResolver>,
    pub(crate) assignments: TimedPort<dyn AssignmentReader>,
    pub(crate) resources: TimedPort<dyn ResourceReader>,
    pub(crate) audit: TimedPort<dyn AuditSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
}

impl TimedPorts {
    pub(crate) fn new(ports: Ports, deadlines: &Deadlines) -> Self {
        let Deadlines { store, resolve, cluster_read, cluster_write, token, node, deliver: _ } =
            *deadlines;
        let mut cluster = TimedPort::new(ports.cluster, PortName::Cluster, cluster_read);
        cluster.write = cluster_write;
        Self {
            repository: TimedPort::new(ports.repository, PortName::Repository, store),
            schedule: TimedPort::new(ports.schedule, PortName::Schedule, store),
            outbox: TimedPort::new(ports.outbox, PortName::Outbox, store),
            cluster,
            tokens: TimedPort::new(ports.tokens, PortName::TokenIssuer, token),
            nodes: TimedPort::new(ports.nodes, PortName::NodeDeregistrar, node),
            blueprints: TimedPort::new(ports.blueprints, PortName::BlueprintResolver, resolve),
            clouds: TimedPort::new(ports.clouds, PortName::CloudResolver, resolve),
            credentials: TimedPort::new(ports.credentials, PortName::CredentialResolver, resolve),
            assignments: TimedPort::new(ports.assignments, PortName::AssignmentReader, resolve),
            resources: TimedPort::new(ports.resources, PortName::ResourceReader, resolve),
            audit: TimedPort::new(ports.audit, PortName::AuditSink, store),
            clock: ports.clock,
            ids: ports.ids,
        }
    }
}

impl<P: ?Sized> Clone for TimedPort<P> {
    fn clone(&self) -> Self {
        Self { port: Arc::clone(&self.port), ..*self }
    }
}

impl<P: ?Sized> TimedPort<P> {
    pub(crate) const fn new(port: Arc<P>, name: PortName, deadline: Duration) -> Self {
        Self { port, name, read: deadline, write: deadline }
    }

    /// The port without deadlines, for a call that runs until it is dropped.
    pub(crate) const fn without_deadline(&self) -> &Arc<P> {
        &self.port
    }

    /// The port with both deadlines capped at `limit`.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self { read: self.read.min(limit), write: self.write.min(limit), ..self.clone() }
    }

    /// The port with the read deadline of a batch of this many calls.
    pub(crate) fn for_batch(&self, calls: u32) -> Self {
        Self { read: self.read.saturating_mul(calls), ..self.clone() }
    }

    /// A call that changes nothing: after a failure, it did not happen.
    pub(crate) fn read<'a, T, F>(
        &'a self,
        call: impl FnOnce(&'a P) -> F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        let to_error = self.to_error();
        let no_result = |why| Err(PortError::transient(why));
        call_within(self.read, call(&self.port))
            .map(move |result| result.unwrap_or_else(no_result).map_err(to_error))
    }

    /// A call that may change something: after a failure, it may have happened.
    pub(crate) fn write<'a, T, F>(
        &'a self,
        call: impl FnOnce(&'a P) -> F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        let to_error = self.to_error();
        let no_result = |why| Err(PortError::unknown(why));
        call_within(self.write, call(&self.port))
            .map(move |result| result.unwrap_or_else(no_result).map_err(to_error))
    }

    pub(crate) fn to_error(&self) -> impl Fn(PortError) -> Error + Copy + use<P> {
        let port = self.name;
        move |source| Error::Port { port, source }
    }
}

/// The result of a call, or why it has none: a timeout or a panic.
///
/// Unwind safety: a call only reads its arguments, so a panic leaves none of them half-changed.
async fn call_within<T>(deadline: Duration, call: impl Future<Output = T>) -> Result<T, String> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_panic)) => Err("it panicked".to_owned()),
        Err(_elapsed) => Err(format!("no answer within {deadline:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn cluster() -> TimedPort<()> {
        TimedPort::new(Arc::new(()), PortName::Cluster, Duration::from_secs(5))
    }

    #[tokio::test(start_paused = true)]
    async fn port_that_hangs_fails_at_its_deadline() {
        let cluster = cluster();
        let read = cluster.read(|()| pending::<Result<(), PortError>>()).await.unwrap_err();
        let write = cluster.write(|()| pending::<Result<(), PortError>>()).await.unwrap_err();
        assert_eq!([read.reason(), write.reason()], ["cluster_transient", "cluster_unknown"]);
    }

    #[tokio::test(start_paused = true)]
    async fn limit_shortens_a_deadline_and_never_extends_it() {
        let started = tokio::time::Instant::now();
        for (limit, expected) in [(1, 1), (9, 6)] {
            let cluster = cluster().within(Duration::from_secs(limit));
            cluster.write(|()| pending::<Result<(), PortError>>()).await.unwrap_err();
            assert_eq!(started.elapsed().as_secs(), expected, "after a limit of {limit} s");
        }
    }

    #[tokio::test]
    async fn panic_of_a_port_is_an_error_without_its_payload() {
        let panicking = || async { panic!("a secret") };
        let cluster = cluster();
        let read = cluster.read::<(), _>(|()| panicking()).await.unwrap_err();
        let write = cluster.write::<(), _>(|()| panicking()).await.unwrap_err();
        assert_eq!([read.reason(), write.reason()], ["cluster_transient", "cluster_unknown"]);
        assert_eq!(crate::one_line(&write), "the cluster failed: it panicked");
    }
}
