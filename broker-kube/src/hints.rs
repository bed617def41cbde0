//! Observe: ids of resources whose objects changed, for whoever listens.
//!
//! A listener that falls behind loses the oldest hints, and none of them holds up the watch: a hint only
//! wakes a pass, and what was lost is found by the next sweep.

use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_domain::ProvisionedResourceId;
use broker_ports::Hints;
use futures_util::stream;
use tokio::sync::broadcast::{self, error::RecvError};

/// How far a listener may fall behind: a burst of changes, not a day of them.
const BACKLOG: usize = 1024;

/// Sends hints to all who listen.
#[derive(Debug)]
pub(crate) struct Broadcast {
    sender: Mutex<broadcast::Sender<ProvisionedResourceId>>,
}

impl Broadcast {
    pub(crate) fn new() -> Self {
        Self { sender: Mutex::new(broadcast::Sender::new(BACKLOG)) }
    }

    /// Hints from now on, until [`end`](Self::end).
    pub(crate) fn listen(&self) -> Hints {
        let receiver = self.lock().subscribe();
        Box::pin(stream::unfold(receiver, |mut receiver| async move {
            loop {
                match receiver.recv().await {
                    Ok(resource) => return Some((resource, receiver)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        }))
    }

    pub(crate) fn send(&self, resource: ProvisionedResourceId) {
        // Nobody needs to listen.
        let _ = self.lock().send(resource);
    }

    /// Ends every stream: what fed them has ended. Whoever listens next waits for the next one.
    pub(crate) fn end(&self) {
        *self.lock() = broadcast::Sender::new(BACKLOG);
    }

    fn lock(&self) -> MutexGuard<'_, broadcast::Sender<ProvisionedResourceId>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::*;
    use crate::testing::resource as id;

    #[test]
    fn everybody_hears_everything_from_when_they_listen() {
        let hints = Broadcast::new();
        let mut early = hints.listen();
        hints.send(id(1));
        let mut late = hints.listen();
        hints.send(id(2));
        assert_eq!(early.next().now_or_never(), Some(Some(id(1))));
        assert_eq!(early.next().now_or_never(), Some(Some(id(2))));
        assert_eq!(late.next().now_or_never(), Some(Some(id(2))));
        assert_eq!(late.next().now_or_never(), None, "nothing more was said");
    }

    #[test]
    fn who_falls_behind_loses_the_oldest_and_holds_up_nobody() {
        let hints = Broadcast::new();
        let mut slow = hints.listen();
        for number in 0..BACKLOG + 2 {
            hints.send(id(number + 1));
        }
        assert_eq!(slow.next().now_or_never(), Some(Some(id(3))));
    }

    #[test]
    fn hints_end_with_what_feeds_them_and_begin_anew() {
        let hints = Broadcast::new();
        let mut before = hints.listen();
        hints.end();
        assert_eq!(before.next().now_or_never(), Some(None));
        let mut after = hints.listen();
        hints.send(id(1));
        assert_eq!(after.next().now_or_never(), Some(Some(id(1))));
    }
}
