//! Panics of this thread, heard: what runs in tasks turns them into errors, and a test would never know.

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

/// While it lives, panics of this thread are kept and not printed.
pub(crate) struct Listening(());

/// Begins to listen, and forgets what was heard before.
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

/// Every panic since then, with its place, each of them once.
pub(crate) fn heard() -> Vec<String> {
    HEARD.take()
}

impl Drop for Listening {
    fn drop(&mut self) {
        LISTENS.set(false);
    }
}

/// A mesh that breaks down whatever it is asked.
pub(crate) enum BrokenMesh {
    /// With a panic like any other.
    Aloud,
    /// With words that nobody hears who is not told them.
    Saying(String),
}

impl BrokenMesh {
    fn break_down(&self) -> ! {
        match self {
            Self::Aloud => panic!("the mesh broke down"),
            // Without the hook: what a port says in its own panic is its own, what we make of it is ours.
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
