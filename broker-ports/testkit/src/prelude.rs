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
    ($fixture:ident { $($name:ident),+ $(,)? }) => {
        vec![$(Case::new(stringify!($name), |world| {
            Box::pin(async move { $name(&$fixture::new(world).await?).await })
        })),+]
    };
}
pub(crate) use suite_of;

/// Whether the call returned before it was dropped.
pub(crate) type Dropped = Checked<bool>;

/// Builds cases that drop a call, from functions `async fn(&dyn World, polls: u32) -> Dropped`. The effect after n
/// polls depends on the adapter. So a case drops a call after one poll, the next call after two polls, and so on,
/// until a call returns.
macro_rules! dropping_suite_of {
    ($($name:ident),+ $(,)?) => {
        dropping_suite_of!(@ world { world } $($name),+)
    };
    ($fixture:ident { $($name:ident),+ $(,)? }) => {
        dropping_suite_of!(@ world { &$fixture::new(world).await? } $($name),+)
    };
    (@ $world:ident { $fixture:expr } $($name:ident),+) => {
        vec![$(Case::new(stringify!($name), |$world| Box::pin(async move {
            for polls in 1..=MAX_POLLS {
                if $name($fixture, polls).await? {
                    return Ok(());
                }
            }
            Err(never_returned())
        }))),+]
    };
}
pub(crate) use dropping_suite_of;

/// Checks a condition; `violation` is the message if it does not hold.
pub(crate) fn require(holds: bool, violation: &str) -> Outcome {
    if holds { Ok(()) } else { Err(Violation::new(violation)) }
}

/// Checks that the call was rejected. `Transient` would be wrong because a retry fails; `Unknown` because the call has
/// no effect.
pub(crate) fn require_rejected<T>(result: Result<T, PortError>, what: &str) -> Outcome {
    match result {
        Ok(_) => Err(Violation::new(format!("{what} succeeded"))),
        Err(error) if error.class() == FailureClass::Rejected => Ok(()),
        Err(error) => {
            Err(Violation::new(format!("{what} is {} instead of rejected", error.class())))
        }
    }
}

/// Checks that the call failed as unreachable: it neither succeeded nor was rejected.
pub(crate) fn require_outage<T>(result: Result<T, PortError>, what: &str) -> Outcome {
    match result {
        Ok(_) => Err(Violation::new(format!("{what} succeeded during an outage"))),
        Err(error) if error.class() == FailureClass::Rejected => {
            Err(Violation::new(format!("{what} is rejected during an outage")))
        }
        Err(_) => Ok(()),
    }
}

/// The maximum number of polls before a drop; more than a call with a few round trips needs.
pub(crate) const MAX_POLLS: u32 = 100;

/// No call returned within [`MAX_POLLS`], so the case never saw a complete call.
pub(crate) fn never_returned() -> Violation {
    Violation::new(format!("no call returns within {MAX_POLLS} polls"))
}

/// Polls a call this many times, each time after a wake-up, and then drops it, as a caller does at its deadline.
/// Returns the result of a call that completed.
pub(crate) async fn dropped_after<F: Future>(polls: u32, call: F) -> Option<F::Output> {
    let mut call = pin!(call);
    let mut remaining = polls;
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if remaining <= 1 => Poll::Ready(None),
        Poll::Pending => {
            remaining -= 1;
            Poll::Pending
        }
    })
    .await
}
