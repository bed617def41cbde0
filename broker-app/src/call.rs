//! How the application calls a port: with a deadline, and with the port's name on every failure.

use std::future::Future;
use std::time::Duration;

use broker_ports::{PortError, PortName};

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
pub(crate) async fn call<T>(
    port: PortName,
    kind: Kind,
    deadline: Duration,
    work: impl Future<Output = Result<T, PortError>>,
) -> Result<T, Error> {
    let failed = |source| Error::Port { port, source };
    if let Ok(answer) = tokio::time::timeout(deadline, work).await {
        return answer.map_err(failed);
    }
    let message = format!("no answer within {deadline:?}");
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
}
