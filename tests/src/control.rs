//! Kills, stops and restarts a server of one test.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use broker_test_servers::servers::{Server, ServersError};

use crate::failure::OrFail;

/// A handle on one server of a dedicated group. Clones control the same server.
#[derive(Clone)]
pub struct Control {
    name: &'static str,
    act: Arc<dyn Fn(Action) -> Result<(), ServersError> + Send + Sync>,
}

#[derive(Clone, Copy)]
enum Action {
    Kill,
    Stop,
    Restart,
}

impl Control {
    /// Controls the server that `pick` finds in `owner`.
    pub(crate) fn new<Owner: Send + 'static>(
        name: &'static str,
        owner: &Arc<Mutex<Owner>>,
        pick: fn(&mut Owner) -> &mut Server,
    ) -> Self {
        let owner = Arc::clone(owner);
        let act = move |action| {
            let mut owner = owner.lock().unwrap_or_else(PoisonError::into_inner);
            let server = pick(&mut owner);
            match action {
                Action::Kill => server.kill(),
                Action::Stop => server.stop(),
                Action::Restart => server.restart(),
            }
        };
        Self { name, act: Arc::new(act) }
    }

    /// Kills the server and its children, as a power cut does, and waits until they have exited.
    pub async fn kill(&self) {
        self.perform(Action::Kill).await;
    }

    /// Stops the server gracefully.
    pub async fn stop(&self) {
        self.perform(Action::Stop).await;
    }

    /// Restarts the server on the same port and data, also if it does not run, and waits until it is ready.
    pub async fn restart(&self) {
        self.perform(Action::Restart).await;
    }

    async fn perform(&self, action: Action) {
        let act = Arc::clone(&self.act);
        tokio::task::spawn_blocking(move || act(action))
            .await
            .or_fail(self.name)
            .or_fail(format_args!("cannot control {}", self.name));
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Control").field("name", &self.name).finish_non_exhaustive()
    }
}
