//! Shared helpers of the cases of every suite.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

pub(crate) use crate::{Case, Suite, Violation};
pub(crate) use broker_ports::{FailureClass, PortError};

/// An intermediate result of a case.
pub(crate) type Checked<T> = Result<T, Violation>;

/// The result of a case.
pub(crate) type Outcome = Checked<()>;

/// Builds cases from functions `async fn(&dyn World) -> Outcome` under their names. With a leading type, the functions
/// take the result of that type's `new`.
macro_rules! suite_of {
    ($($name:ident),+ $(,)?) => {
        vec![$(Case::new(stringify!($name), |world| Box::pin($name(world)))),+]
    };
    ($scene:ident { $($name:ident),+ $(,)? }) => {
        vec![$(Case::new(stringify!($name), |world| {
            Box::pin(async move { $name(&$scene::new(world).await?).await })
        })),+]
    };
}
pub(crate) use suite_of;

/// Whether the dropped call had returned before.
pub(crate) type Dropped = Checked<bool>;

/// Builds cases that drop a call, from functions `async fn(&dyn World, polls: u32) -> Dropped`. The effect after n
/// polls depends on the adapter. So a case drops a call after one poll, another one after two, and so on, until one
/// returns.
macro_rules! dropping_suite_of {
    ($($name:ident),+ $(,)?) => {
        dropping_suite_of!(@ world { world } $($name),+)
    };
    ($scene:ident { $($name:ident),+ $(,)? }) => {
        dropping_suite_of!(@ world { &$scene::new(world).await? } $($name),+)
    };
    (@ $world:ident { $scene:expr } $($name:ident),+) => {
        vec![$(Case::new(stringify!($name), |$world| Box::pin(async move {
            for polls in 1..=MOST_POLLS {
                if $name($scene, polls).await? {
                    return Ok(());
                }
            }
            Err(never_answered())
        }))),+]
    };
}
pub(crate) use dropping_suite_of;

/// Checks a guarantee, with a message for its violation.
pub(crate) fn require(holds: bool, promise: &str) -> Outcome {
    if holds { Ok(()) } else { Err(Violation::new(promise)) }
}

/// The call was rejected. `Transient` is wrong because a retry fails; `Unknown` is wrong because nothing happened.
pub(crate) fn require_rejected<T>(answer: Result<T, PortError>, what: &str) -> Outcome {
    match answer {
        Ok(_) => Err(Violation::new(format!("{what} succeeded"))),
        Err(error) if error.class() == FailureClass::Rejected => Ok(()),
        Err(error) => {
            Err(Violation::new(format!("{what} is {} instead of rejected", error.class())))
        }
    }
}

/// The call failed without a result: neither an answer nor a rejection.
pub(crate) fn require_outage<T>(answer: Result<T, PortError>, what: &str) -> Outcome {
    match answer {
        Ok(_) => Err(Violation::new(format!("{what} succeeded during an outage"))),
        Err(error) if error.class() == FailureClass::Rejected => {
            Err(Violation::new(format!("{what} is rejected during an outage")))
        }
        Err(_) => Ok(()),
    }
}

/// The maximum number of polls before a drop; more than a call with a few round trips needs.
pub(crate) const MOST_POLLS: u32 = 100;

/// No call returned within [`MOST_POLLS`], so the dropped ones prove nothing about a complete one.
pub(crate) fn never_answered() -> Violation {
    Violation::new(format!("no call returns within {MOST_POLLS} polls"))
}

/// Polls a call this many times, each time after a wake-up, and then drops it, as a caller does at its deadline.
/// Returns the result, if there was one.
pub(crate) async fn dropped_after<F: Future>(polls: u32, call: F) -> Option<F::Output> {
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
