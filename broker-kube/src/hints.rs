//! Observe: broadcasts the ids of resources whose objects changed.
//!
//! A listener that falls behind loses its oldest hints and never blocks the watch. A hint only wakes a pass, and the
//! next sweep finds what a lost hint reported.

use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_domain::ProvisionedResourceId;
use broker_ports::Hints;
use futures_util::stream;
use tokio::sync::broadcast::{self, error::RecvError};

/// Hints that a listener may fall behind: enough for a burst of changes.
const BACKLOG: usize = 1024;

#[derive(Debug)]
pub(crate) struct Broadcast {
    sender: Mutex<broadcast::Sender<ProvisionedResourceId>>,
}

impl Broadcast {
    pub(crate) fn new() -> Self {
        Self { sender: Mutex::new(broadcast::Sender::new(BACKLOG)) }
    }

    /// Hints after this call, until [`end`](Self::end).
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
        // Fails only without listeners, which is fine.
        let _ = self.lock().send(resource);
    }

    /// Ends every stream because the watch ended. A later listener receives the hints of the next run.
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
    fn listeners_receive_every_hint_after_they_subscribe() {
        let hints = Broadcast::new();
        let mut early = hints.listen();
        hints.send(id(1));
        let mut late = hints.listen();
        hints.send(id(2));
        assert_eq!(early.next().now_or_never(), Some(Some(id(1))));
        assert_eq!(early.next().now_or_never(), Some(Some(id(2))));
        assert_eq!(late.next().now_or_never(), Some(Some(id(2))));
        assert_eq!(late.next().now_or_never(), None, "no further hint was sent");
    }

    #[test]
    fn slow_listener_loses_the_oldest_hints() {
        let hints = Broadcast::new();
        let mut slow = hints.listen();
        for number in 0..BACKLOG + 2 {
            hints.send(id(number + 1));
        }
        assert_eq!(slow.next().now_or_never(), Some(Some(id(3))));
    }

    #[test]
    fn hints_end_with_the_run_and_restart() {
        let hints = Broadcast::new();
        let mut before = hints.listen();
        hints.end();
        assert_eq!(before.next().now_or_never(), Some(None));
        let mut after = hints.listen();
        hints.send(id(1));
        assert_eq!(after.next().now_or_never(), Some(Some(id(1))));
    }
}
