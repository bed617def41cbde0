//! What the cases of every suite are written with.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

pub(crate) use crate::{Case, Suite, Violation};
pub(crate) use broker_ports::{FailureClass, PortError};

/// What a case learnt on its way.
pub(crate) type Checked<T> = Result<T, Violation>;

/// The result of a case.
pub(crate) type Outcome = Checked<()>;

/// Cases from functions `async fn(&dyn World) -> Outcome`, named like them. With the name of a type before them the
/// functions take what that type makes of the world by `new`.
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

/// Whether the call that a case dropped was answered before.
pub(crate) type Dropped = Checked<bool>;

/// Cases that drop a call, from functions `async fn(&dyn World, polls: u32) -> Dropped`. What happens after how many
/// polls is the adapter's affair. So a case drops a call after one poll, another after two, and so on, until one is
/// answered.
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

/// The promise holds, or it was broken in these words.
pub(crate) fn require(holds: bool, promise: &str) -> Outcome {
    if holds { Ok(()) } else { Err(Violation::new(promise)) }
}

/// It was refused for good, and nothing else: not `Transient`, for trying again does not help, and not
/// `Unknown`, for it is known that nothing happened.
pub(crate) fn require_rejected<T>(answer: Result<T, PortError>, what: &str) -> Outcome {
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
pub(crate) fn require_outage<T>(answer: Result<T, PortError>, what: &str) -> Outcome {
    match answer {
        Ok(_) => Err(Violation::new(format!("{what} is answered while it is cut off"))),
        Err(error) if error.class() == FailureClass::Rejected => {
            Err(Violation::new(format!("{what} is rejected while it is cut off")))
        }
        Err(_) => Ok(()),
    }
}

/// So often a call is polled at the most before it is dropped: more than any needs that talks to a server a few
/// times.
pub(crate) const MOST_POLLS: u32 = 100;

/// No call came to its end within [`MOST_POLLS`]. What became of those that were dropped then proves nothing
/// about one that is answered.
pub(crate) fn never_answered() -> Violation {
    Violation::new(format!("no call is answered within {MOST_POLLS} polls"))
}

/// Polls a call so many times, each time that it asks to be, and then drops it, as whoever runs out of patience
/// does. Its answer, if it came to one.
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
