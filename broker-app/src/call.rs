//! How the application calls a port: with a deadline, and with the port's name on every failure.
//!
//! A collaborator that panics has failed, and no more than that: it must not take a sweep over everybody's
//! resources along. The error does not repeat the panic's payload, which may hold anything. The process's panic hook
//! runs before this catches the panic, and the standard hook prints the payload: a process whose output must not hold
//! secrets installs a hook that prints the location only, as the binary does.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use broker_ports::{PortError, PortName};
use futures_util::FutureExt;

use crate::error::Error;

/// What a call could have changed, which decides what running out of time means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing: it did not happen.
    Read,
    /// Something: it may have happened.
    Write,
}

/// Waits for a port, but not for longer than its deadline.
///
/// After a panic nothing of ours is used that the call could have left half done: it had borrowed its
/// arguments only to read them.
pub(crate) async fn call<T>(
    port: PortName,
    kind: Kind,
    deadline: Duration,
    work: impl Future<Output = Result<T, PortError>>,
) -> Result<T, Error> {
    let failed = |source| Error::Port { port, source };
    let message = match tokio::time::timeout(deadline, AssertUnwindSafe(work).catch_unwind()).await
    {
        Ok(Ok(answer)) => return answer.map_err(failed),
        Ok(Err(_panic)) => "it panicked".to_owned(),
        Err(_elapsed) => format!("no answer within {deadline:?}"),
    };
    Err(failed(match kind {
        Kind::Read => PortError::transient(message),
        Kind::Write => PortError::unknown(message),
    }))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_port_that_hangs_costs_its_deadline() {
        for (kind, reason) in [(Kind::Read, "cluster_transient"), (Kind::Write, "cluster_unknown")]
        {
            let hung = pending::<Result<(), PortError>>();
            let error =
                call(PortName::Cluster, kind, Duration::from_secs(5), hung).await.unwrap_err();
            assert_eq!(error.reason(), reason);
        }
    }

    #[tokio::test]
    async fn a_port_that_panics_has_failed_and_no_more() {
        for (kind, reason) in [(Kind::Read, "cluster_transient"), (Kind::Write, "cluster_unknown")]
        {
            let broken = async { panic!("a secret") };
            let call = call::<()>(PortName::Cluster, kind, Duration::from_secs(5), broken);
            let error = call.await.unwrap_err();
            assert_eq!(error.reason(), reason);
            assert_eq!(crate::one_line(&error), "the cluster failed: it panicked");
        }
    }
}
