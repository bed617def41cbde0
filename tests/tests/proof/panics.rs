//! Captures panics of this thread. Tasks turn panics into errors, so a test would not notice them.

use std::cell::{Cell, RefCell};
use std::panic::{set_hook, take_hook};
use std::sync::Once;

use async_trait::async_trait;
use broker_domain::BootstrapTokenId;
use broker_ports::{NodeDeregistrar, PortError};

thread_local! {
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, panics of this thread are recorded and not printed.
pub(crate) struct Listening(());

pub(crate) fn listen() -> Listening {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if LISTENS.get() {
                HEARD.with_borrow_mut(|heard| heard.push(panic.to_string()));
            } else {
                others(panic);
            }
        }));
    });
    drop(heard());
    LISTENS.set(true);
    Listening(())
}

/// Every distinct panic since then, with its place.
pub(crate) fn heard() -> Vec<String> {
    HEARD.take()
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENS.set(false);
    }
}

/// A mesh that panics on every call.
pub(crate) enum BrokenMesh {
    Aloud,
    /// With this payload, past the panic hook.
    Saying(String),
}

impl BrokenMesh {
    fn break_down(&self) -> ! {
        match self {
            Self::Aloud => panic!("the mesh panicked"),
            // Bypasses the hook: a port may print its own panic; the test checks what the broker
            // makes of it.
            Self::Saying(words) => std::panic::resume_unwind(Box::new(words.clone())),
        }
    }
}

#[async_trait]
impl NodeDeregistrar for BrokenMesh {
    async fn deregister(&self, _: BootstrapTokenId) -> Result<(), PortError> {
        self.break_down()
    }

    async fn node_registered(&self, _: BootstrapTokenId) -> Result<bool, PortError> {
        self.break_down()
    }
}
