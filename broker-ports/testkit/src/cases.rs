//! What the cases of every suite are written with.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::Violation;
use broker_ports::{FailureClass, PortError};

/// Cases from the functions `async fn(&dyn World) -> Result<(), Violation>` of a module, named like them.
macro_rules! suite_of {
    ($module:ident { $($name:ident),+ $(,)? }) => {
        vec![$($crate::Case::new(
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

/// So often a call is polled at the most before it is dropped: more than any needs that talks to a server a
/// few times.
pub(super) const MOST_POLLS: u32 = 100;

/// No call came to its end within [`MOST_POLLS`]. What became of those that were dropped then proves nothing
/// about one that is answered.
pub(super) fn never_answered() -> Violation {
    Violation::new(format!("no call is answered within {MOST_POLLS} polls"))
}

/// Polls a call so many times, each time that it asks to be, and then drops it, as whoever runs out of patience
/// does. Its answer, if it came to one.
///
/// What happens after how many polls is the adapter's affair. So a case drops a call after one poll, another
/// after two, and so on, until one is answered.
pub(super) async fn dropped_after<F: Future>(polls: u32, call: F) -> Option<F::Output> {
    let mut call = pin!(call);
    let mut left = polls;
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if left <= 1 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}
