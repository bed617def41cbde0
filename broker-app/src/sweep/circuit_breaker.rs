//! How long a sweep goes on asking somebody who does not answer.
//!
//! One resource whose labels cannot be had costs a sweep one deadline. A collaborator that is dead would cost
//! one per resource; after a few in a row it is not asked again until the next sweep, and every resource that
//! would have needed it is in trouble with the last failure.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker_ports::{FailureClass, PortName};

use crate::error::Error;

/// So many calls in a row that were not answered are enough.
const ENOUGH: u32 = 3;

/// Who did not answer lately.
#[derive(Default)]
pub(super) struct CircuitBreaker(BTreeMap<PortName, (u32, Arc<Error>)>);

impl CircuitBreaker {
    /// The failure of a port that is not asked any more.
    pub(super) fn open_with(&self, port: PortName) -> Option<Arc<Error>> {
        let (in_a_row, error) = self.0.get(&port)?;
        (*in_a_row >= ENOUGH).then(|| Arc::clone(error))
    }

    /// Takes in an answer.
    pub(super) fn note<T>(&mut self, port: PortName, answer: &Result<T, Arc<Error>>) {
        match answer {
            Err(error) if is_silence(error) => {
                let in_a_row = self.0.get(&port).map_or(0, |(in_a_row, _)| *in_a_row);
                self.0.insert(port, (in_a_row + 1, Arc::clone(error)));
            }
            Ok(_) | Err(_) => drop(self.0.remove(&port)),
        }
    }
}

/// Whoever refuses has answered.
fn is_silence(error: &Error) -> bool {
    match error {
        Error::Port { source, .. } => source.class() != FailureClass::Rejected,
        Error::Domain(_) | Error::LeaseRanOut => false,
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
    fn three_in_a_row_are_enough_and_an_answer_begins_anew() {
        let port = PortName::CloudResolver;
        let mut breaker = CircuitBreaker::default();
        for answer in [
            failed(PortError::transient("a")),
            failed(PortError::transient("b")),
            failed(PortError::rejected("an answer, if not a nice one")),
            failed(PortError::transient("c")),
            failed(PortError::unknown("d")),
        ] {
            breaker.note(port, &answer);
            assert!(breaker.open_with(port).is_none());
        }
        breaker.note(port, &failed(PortError::transient("e")));
        let error = breaker.open_with(port).unwrap();
        assert_eq!(crate::one_line(&*error), "the cloud resolver failed: e");
        assert!(breaker.open_with(PortName::Cluster).is_none(), "each port by itself");
    }
}
