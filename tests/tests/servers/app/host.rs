//! Starting, killing and stopping the host program.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_tests::until;

use crate::servers::processes::Killed;

/// A replica in its own process, which ends with its test.
pub(crate) struct Host {
    process: Killed,
    name: String,
}

pub(crate) struct Place<'a> {
    pub(crate) dsn: &'a str,
    pub(crate) kubeconfig: &'a str,
    pub(crate) lease: Duration,
    /// The sweep interval: a sweep finds what no hint reported.
    pub(crate) sweep: Duration,
    pub(crate) poll: Duration,
}

impl Host {
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

    /// Kills it. Returns its name as a lease holder.
    pub(crate) fn kill(self) -> String {
        let Self { process, name } = self;
        drop(process);
        name
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.0.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.0.try_wait().unwrap().is_some()
    }

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
