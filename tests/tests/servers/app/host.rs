//! Starting, killing and stopping the host program.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use broker_tests::until;

use crate::servers::processes::KilledOnDrop;

/// A replica in its own process, which ends with its test.
pub(crate) struct Host {
    process: KilledOnDrop,
    name: String,
}

pub(crate) struct HostConfig<'a> {
    pub(crate) dsn: &'a str,
    pub(crate) kubeconfig: &'a str,
    pub(crate) lease: Duration,
    /// The sweep interval.
    pub(crate) sweep: Duration,
    pub(crate) poll: Duration,
}

impl Host {
    pub(crate) fn start(config: &HostConfig<'_>) -> Self {
        static STARTED: AtomicU64 = AtomicU64::new(1);
        let name = format!("host-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        let milliseconds = |time: Duration| time.as_millis().to_string();
        let host = Command::new(env!("CARGO_BIN_EXE_host"))
            .args([name.as_str(), config.dsn, config.kubeconfig])
            .args([config.sweep, config.poll, config.lease].map(milliseconds))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { process: KilledOnDrop(host), name }
    }

    /// Kills the process. Returns its name as a lease owner.
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
