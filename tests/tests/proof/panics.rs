//! Captures panics of this thread. Tasks turn panics into errors, so a test would not notice them.

use std::cell::{Cell, RefCell};
use std::panic::{set_hook, take_hook};
use std::sync::Once;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{NodeDeregistrar, PortError};

thread_local! {
    static CAPTURED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static CAPTURING: Cell<bool> = const { Cell::new(false) };
}

/// Until this guard is dropped, panics of this thread are recorded and not printed.
pub(crate) struct PanicCapture(());

pub(crate) fn capture() -> PanicCapture {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous_hook = take_hook();
        set_hook(Box::new(move |panic| {
            if CAPTURING.get() {
                CAPTURED.with_borrow_mut(|panics| panics.push(panic.to_string()));
            } else {
                previous_hook(panic);
            }
        }));
    });
    drop(take_captured());
    CAPTURING.set(true);
    PanicCapture(())
}

/// Removes and returns the recorded panics, each with its source location.
pub(crate) fn take_captured() -> Vec<String> {
    CAPTURED.take()
}

impl Drop for PanicCapture {
    fn drop(&mut self) {
        CAPTURING.set(false);
    }
}

/// A mesh that panics on every call.
pub(crate) enum PanickingMesh {
    ThroughHook,
    /// With this payload, without the panic hook.
    WithPayload(String),
}

impl PanickingMesh {
    fn panic_now(&self) -> ! {
        match self {
            Self::ThroughHook => panic!("the mesh panicked"),
            // Bypasses the hook, because a port may print its own panic. The test checks the output
            // of the broker.
            Self::WithPayload(payload) => std::panic::resume_unwind(Box::new(payload.clone())),
        }
    }
}

#[async_trait]
impl NodeDeregistrar for PanickingMesh {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        self.panic_now()
    }

    async fn node_registered(&self, _: BootstrapTokenId) -> Result<bool, PortError> {
        self.panic_now()
    }
}
