//! Limits the time that a sweep spends on a port that does not answer.
//!
//! Without a breaker, a port that does not answer would cost a sweep one deadline per resource. After three unanswered
//! calls in a row the breaker opens until the next sweep: each resource that needs the port gets the last failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_ports::{FailureClass, PortName};

use crate::error::Error;

/// The breaker of a port opens after this many unanswered calls in a row.
const MAX_FAILURES: u32 = 3;

/// Unanswered calls in a row, and the last failure, by port.
#[derive(Default)]
pub(super) struct CircuitBreaker(BTreeMap<PortName, (u32, Arc<Error>)>);

impl CircuitBreaker {
    /// The last failure of the port, if its breaker is open.
    pub(super) fn failure_if_open(&self, port: PortName) -> Option<Arc<Error>> {
        let (in_a_row, error) = self.0.get(&port)?;
        (*in_a_row >= MAX_FAILURES).then(|| Arc::clone(error))
    }

    /// Counts an unanswered call; any answer resets the count.
    pub(super) fn record<T>(&mut self, port: PortName, result: &Result<T, Arc<Error>>) {
        match result {
            Err(error) if is_unanswered(error) => {
                let in_a_row = self.0.get(&port).map_or(0, |(in_a_row, _)| *in_a_row);
                self.0.insert(port, (in_a_row + 1, Arc::clone(error)));
            }
            Ok(_) | Err(_) => drop(self.0.remove(&port)),
        }
    }
}

/// Whether the port did not answer; a rejection is an answer.
fn is_unanswered(error: &Error) -> bool {
    match error {
        Error::Port { source, .. } => source.class() != FailureClass::Rejected,
        Error::Domain(_) | Error::Platform(_) | Error::LeaseRanOut | Error::Internal(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use broker_ports::PortError;

    use super::*;

    fn failed(source: PortError) -> Result<(), Arc<Error>> {
        Err(Arc::new(Error::Port { port: PortName::CloudResolver, source }))
    }

    #[test]
    fn breaker_opens_after_three_failures_and_resets_on_an_answer() {
        let port = PortName::CloudResolver;
        let mut breaker = CircuitBreaker::default();
        for answer in [
            failed(PortError::transient("a")),
            failed(PortError::transient("b")),
            failed(PortError::rejected("an answer")),
            failed(PortError::transient("c")),
            failed(PortError::unknown("d")),
        ] {
            breaker.record(port, &answer);
            assert!(breaker.failure_if_open(port).is_none());
        }
        breaker.record(port, &failed(PortError::transient("e")));
        let error = breaker.failure_if_open(port).unwrap();
        assert_eq!(crate::one_line(&*error), "the cloud resolver failed: e");
        assert!(
            breaker.failure_if_open(PortName::Cluster).is_none(),
            "each port has its own count"
        );
    }
}
