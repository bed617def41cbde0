//! Observe: broadcasts the ids of resources whose objects changed.
//!
//! A listener that falls behind loses its oldest hints and never blocks the watch. A hint only wakes a pass, and the
//! next sweep finds what a lost hint reported.

use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_domain::ProvisionedResourceId;
use broker_ports::Hints;
use futures_util::stream;
use tokio::sync::broadcast::{self, error::RecvError};

/// Hints that a slow listener may have unread: enough for a burst of changes.
const BACKLOG: usize = 1024;

#[derive(Debug)]
pub(crate) struct HintBroadcast {
    sender: Mutex<broadcast::Sender<ProvisionedResourceId>>,
}

impl HintBroadcast {
    pub(crate) fn new() -> Self {
        Self { sender: Mutex::new(broadcast::Sender::new(BACKLOG)) }
    }

    /// Hints after this call, until [`end_streams`](Self::end_streams).
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
        // Fails only without listeners, so the error is ignored.
        let _ = self.lock().send(resource);
    }

    /// Ends every stream because the watch ended. A later listener receives the hints of the next run.
    pub(crate) fn end_streams(&self) {
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
    use crate::testing::resource_id as id;

    #[test]
    fn listener_receives_every_hint_after_it_subscribes() {
        let hints = HintBroadcast::new();
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
        let hints = HintBroadcast::new();
        let mut slow = hints.listen();
        for number in 0..BACKLOG + 2 {
            hints.send(id(number + 1));
        }
        assert_eq!(slow.next().now_or_never(), Some(Some(id(3))));
    }

    #[test]
    fn streams_end_with_the_run_and_new_ones_continue() {
        let hints = HintBroadcast::new();
        let mut before = hints.listen();
        hints.end_streams();
        assert_eq!(before.next().now_or_never(), Some(None));
        let mut after = hints.listen();
        hints.send(id(1));
        assert_eq!(after.next().now_or_never(), Some(Some(id(1))));
    }
}
