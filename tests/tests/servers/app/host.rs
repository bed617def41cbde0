//! Starting, killing and stopping the host program.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_tests::until;

use crate::servers::processes::Killed;

/// A replica of the broker in a process of its own, which ends with its test.
pub(crate) struct Host(Killed);

/// Where a replica finds its servers, and how patient it is.
pub(crate) struct Place<'a> {
    pub(crate) dsn: &'a str,
    pub(crate) kubeconfig: &'a str,
    pub(crate) lease: Duration,
}

/// How often a replica looks at everything. Quick, so that what no hint told is soon found.
const SWEEP: Duration = Duration::from_secs(1);

/// How often it asks for what is due.
const POLL: Duration = Duration::from_millis(100);

impl Host {
    /// Starts a replica that has a name of its own.
    pub(crate) fn start(place: &Place<'_>) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(1);
        let name = format!("host-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let host = Command::new(env!("CARGO_BIN_EXE_host"))
            .args([name.as_str(), place.dsn, place.kubeconfig])
            .args([SWEEP, POLL, place.lease].map(milliseconds))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(Killed(host))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.0.id()
    }

    /// Whether it has ended, killed or not.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.0.try_wait().unwrap().is_some()
    }

    /// Ends it in good order.
    pub(crate) async fn stop(mut self) {
        drop(self.0.0.stdin.take());
        let status = until("a replica to end", || {
            let ended = self.0.0.try_wait().unwrap();
            async move { ended }
        })
        .await;
        assert!(status.success(), "a replica ended with {status}");
    }
}
