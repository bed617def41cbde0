//! What the cases of every suite are written with.

use crate::error::{FailureClass, PortError};
use crate::testing::Violation;

/// Cases from the functions `async fn(&dyn World) -> Result<(), Violation>` of a module, named like them.
macro_rules! suite_of {
    ($module:ident { $($name:ident),+ $(,)? }) => {
        vec![$($crate::testing::Case::new(
            stringify!($name),
            |world| Box::pin($module::$name(world)),
        ),)+]
    };
}
pub(super) use suite_of;

/// The promise holds, or it was broken in these words.
pub(super) fn require(holds: bool, promise: &str) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(promise)) }
}

/// It was refused for good, and nothing else: not `Transient`, for trying again does not help, and not
/// `Unknown`, for it is known that nothing happened.
pub(super) fn require_rejected<T>(
    answer: Result<T, PortError>,
    what: &str,
) -> Result<(), Violation> {
    match answer {
        Ok(_) => Err(Violation::new(format!("{what} went through"))),
        Err(error) if error.class() == FailureClass::Rejected => Ok(()),
        Err(error) => {
            Err(Violation::new(format!("{what} is {} instead of rejected", error.class())))
        }
    }
}

/// It failed without a verdict: neither an answer nor a rejection. Whoever cannot reach the other side knows
/// nothing of it.
pub(super) fn require_outage<T>(answer: Result<T, PortError>, what: &str) -> Result<(), Violation> {
    match answer {
        Ok(_) => Err(Violation::new(format!("{what} is answered while it is cut off"))),
        Err(error) if error.class() == FailureClass::Rejected => {
            Err(Violation::new(format!("{what} is rejected while it is cut off")))
        }
        Err(_) => Ok(()),
    }
}
