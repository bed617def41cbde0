//! Starting, killing and stopping the host program.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_tests::until;

use crate::servers::processes::Killed;

/// A replica of the broker in a process of its own, which ends with its test.
pub(crate) struct Host {
    process: Killed,
    name: String,
}

/// Where a replica finds its servers, and how patient it is.
pub(crate) struct Place<'a> {
    pub(crate) dsn: &'a str,
    pub(crate) kubeconfig: &'a str,
    pub(crate) lease: Duration,
    /// How often it looks at everything: what no hint told is found then.
    pub(crate) sweep: Duration,
    /// How often it asks for what is due.
    pub(crate) poll: Duration,
}

impl Host {
    /// Starts a replica that has a name of its own.
    pub(crate) fn start(place: &Place<'_>) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(1);
        let name = format!("host-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let host = Command::new(env!("CARGO_BIN_EXE_host"))
            .args([name.as_str(), place.dsn, place.kubeconfig])
            .args([place.sweep, place.poll, place.lease].map(milliseconds))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process: Killed(host), name }
    }

    /// Kills it. Answers the name under which it held leases.
    pub(crate) fn kill(self) -> String {
        let Self { process, name } = self;
        drop(process);
        name
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Whether it has ended, killed or not.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.0.try_wait().unwrap().is_some()
    }

    /// Ends it in good order.
    pub(crate) async fn stop(mut self) {
        drop(self.process.0.stdin.take());
        let status = until("a replica to end", || {
            let ended = self.process.0.try_wait().unwrap();
            async move { ended }
        })
        .await;
        assert!(status.success(), "a replica ended with {status}");
    }
}
