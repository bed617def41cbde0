//! Observe and persist: hints and wakeups for subscribers in this process.

use std::pin::Pin;
use std::task::{Context, Poll};

use broker_domain::ProvisionedResourceId;
use futures_core::Stream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The subscribers to one source of hints.
#[derive(Default)]
pub(crate) struct Listeners(Vec<UnboundedSender<ProvisionedResourceId>>);

impl Listeners {
    pub(crate) fn subscribe(&mut self) -> Listener {
        let (sender, receiver) = unbounded_channel();
        self.0.push(sender);
        Listener(receiver)
    }

    pub(crate) fn notify(&mut self, resource: ProvisionedResourceId) {
        self.0.retain(|listener| listener.send(resource).is_ok());
    }

    /// Ends every stream, as a lost connection does.
    pub(crate) fn end(&mut self) {
        self.0.clear();
    }
}

/// One subscription.
pub(crate) struct Listener(UnboundedReceiver<ProvisionedResourceId>);

impl Stream for Listener {
    type Item = ProvisionedResourceId;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
