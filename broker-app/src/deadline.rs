//! Ports with a deadline per call and the port's name in each error.
//!
//! A call that times out or panics has failed: a read did not happen, a write may have happened. The error omits the
//! panic's payload, which may hold a secret. But the process's panic hook runs first, and the standard hook prints
//! the payload. A process whose output must not hold secrets installs a hook that prints only the location, as the
//! binary does.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use broker_ports::{
    AssignmentReader, AuditSink, BlueprintResolver, Clock, CloudResolver, Cluster,
    CredentialResolver, Deadlines, IdSource, LabelTagResolver, NodeDeregistrar, Outbox, PortError,
    PortName, Ports, Repository, Schedule, TokenIssuer,
};
use futures_util::FutureExt;

use crate::error::Error;

pub(crate) struct Timed<P: ?Sized> {
    port: Arc<P>,
    name: PortName,
    read: Duration,
    write: Duration,
}

#[derive(Clone)]
pub(crate) struct TimedPorts {
    pub(crate) repository: Timed<dyn Repository>,
    pub(crate) schedule: Timed<dyn Schedule>,
    pub(crate) outbox: Timed<dyn Outbox>,
    pub(crate) cluster: Timed<dyn Cluster>,
    pub(crate) tokens: Timed<dyn TokenIssuer>,
    pub(crate) nodes: Timed<dyn NodeDeregistrar>,
    pub(crate) blueprints: Timed<dyn BlueprintResolver>,
    pub(crate) clouds: Timed<dyn CloudResolver>,
    pub(crate) credentials: Timed<dyn CredentialResolver>,
    pub(crate) assignments: Timed<dyn AssignmentReader>,
    pub(crate) labels: Timed<dyn LabelTagResolver>,
    pub(crate) audit: Timed<dyn AuditSink>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
}

impl TimedPorts {
    pub(crate) fn new(ports: Ports, deadlines: &Deadlines) -> Self {
        let Deadlines { store, resolve, cluster_read, cluster_write, token, node, deliver: _ } =
            *deadlines;
        let mut cluster = Timed::new(ports.cluster, PortName::Cluster, cluster_read);
        cluster.write = cluster_write;
        Self {
            repository: Timed::new(ports.repository, PortName::Repository, store),
            schedule: Timed::new(ports.schedule, PortName::Schedule, store),
            outbox: Timed::new(ports.outbox, PortName::Outbox, store),
            cluster,
            tokens: Timed::new(ports.tokens, PortName::TokenIssuer, token),
            nodes: Timed::new(ports.nodes, PortName::NodeDeregistrar, node),
            blueprints: Timed::new(ports.blueprints, PortName::BlueprintResolver, resolve),
            clouds: Timed::new(ports.clouds, PortName::CloudResolver, resolve),
            credentials: Timed::new(ports.credentials, PortName::CredentialResolver, resolve),
            assignments: Timed::new(ports.assignments, PortName::AssignmentReader, resolve),
            labels: Timed::new(ports.labels, PortName::LabelTagResolver, resolve),
            audit: Timed::new(ports.audit, PortName::AuditSink, store),
            clock: ports.clock,
            ids: ports.ids,
        }
    }
}

impl<P: ?Sized> Clone for Timed<P> {
    fn clone(&self) -> Self {
        Self { port: Arc::clone(&self.port), ..*self }
    }
}

impl<P: ?Sized> Timed<P> {
    pub(crate) const fn new(port: Arc<P>, name: PortName, deadline: Duration) -> Self {
        Self { port, name, read: deadline, write: deadline }
    }

    /// The port without deadlines, for a long-running call.
    pub(crate) const fn port(&self) -> &Arc<P> {
        &self.port
    }

    /// The port with both deadlines capped at `limit`.
    pub(crate) fn within(&self, limit: Duration) -> Self {
        Self { read: self.read.min(limit), write: self.write.min(limit), ..self.clone() }
    }

    /// The port with its read deadline multiplied, for a batch read.
    pub(crate) fn times(&self, many: u32) -> Self {
        Self { read: self.read.saturating_mul(many), ..self.clone() }
    }

    /// A call that changes nothing: after a failure, it did not happen.
    pub(crate) fn read<'a, T, F>(
        &'a self,
        call: impl FnOnce(&'a P) -> F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        let failed = self.failed();
        let silent = |why| Err(PortError::transient(why));
        answered(self.read, call(&self.port))
            .map(move |it| it.unwrap_or_else(silent).map_err(failed))
    }

    /// A call that may change something: without an answer, it may have happened.
    pub(crate) fn write<'a, T, F>(
        &'a self,
        call: impl FnOnce(&'a P) -> F,
    ) -> impl Future<Output = Result<T, Error>>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        let failed = self.failed();
        let silent = |why| Err(PortError::unknown(why));
        answered(self.write, call(&self.port))
            .map(move |it| it.unwrap_or_else(silent).map_err(failed))
    }

    pub(crate) fn failed(&self) -> impl Fn(PortError) -> Error + Copy + use<P> {
        let port = self.name;
        move |source| Error::Port { port, source }
    }
}

/// The call's answer within its deadline, or the reason why there is none.
///
/// Unwind safety: the call only borrowed its arguments to read them, so a panic leaves none of them half-changed.
async fn answered<T>(deadline: Duration, call: impl Future<Output = T>) -> Result<T, String> {
    match tokio::time::timeout(deadline, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_panic)) => Err("it panicked".to_owned()),
        Err(_elapsed) => Err(format!("no answer within {deadline:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn cluster() -> Timed<()> {
        Timed::new(Arc::new(()), PortName::Cluster, Duration::from_secs(5))
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
    async fn port_that_panics_has_failed_without_its_payload() {
        let broken = || async { panic!("a secret") };
        let cluster = cluster();
        let read = cluster.read::<(), _>(|()| broken()).await.unwrap_err();
        let write = cluster.write::<(), _>(|()| broken()).await.unwrap_err();
        assert_eq!([read.reason(), write.reason()], ["cluster_transient", "cluster_unknown"]);
        assert_eq!(crate::one_line(&write), "the cluster failed: it panicked");
    }
}
