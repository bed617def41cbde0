//! A server: a program that can be started, stopped, killed, paused and restarted, with a readiness check. Postgres and
//! kube-apiserver differ only in their setup.

use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Error, Result, anyhow};
use rustix::process::Signal;

use super::{process::Process, run::Run};

/// The timeout for readiness, also on a machine that is busy with builds.
const READY_TIMEOUT: Duration = Duration::from_mins(2);

/// How to start a program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in messages and of its log.
    pub name: &'static str,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// The signal for a graceful shutdown.
    pub stop: Signal,
}

/// An option whose value is a path.
pub(super) fn option(name: &str, value: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push("=");
    argument.push(value);
    argument
}

/// The readiness check of a process.
type Ready = Box<dyn Fn(&Process) -> bool + Send + Sync>;

/// A server of a run. Dropping it stops it.
pub struct Server {
    run: Arc<Run>,
    program: Program,
    ready: Ready,
    process: Option<Process>,
}

impl Server {
    /// Starts a program and waits until it is ready.
    pub(super) fn start(
        run: &Arc<Run>,
        program: Program,
        ready: impl Fn(&Process) -> bool + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut server =
            Self { run: Arc::clone(run), program, ready: Box::new(ready), process: None };
        server.restart()?;
        Ok(server)
    }

    /// The process id of the running server.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Starts it again on the same ports and data and waits until it is ready.
    ///
    /// # Errors
    ///
    /// It does not become ready. A running server is stopped first.
    pub fn restart(&mut self) -> Result<()> {
        self.process = None;
        let mut process = Process::start(&self.run, &self.program)?;
        process.wait_until_ready(READY_TIMEOUT, &self.ready)?;
        self.process = Some(process);
        Ok(())
    }

    /// Stops it gracefully; kills it after a timeout.
    ///
    /// # Errors
    ///
    /// It is not running.
    pub fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().ok_or_else(|| self.not_running())?;
        process.stop_with(self.program.stop)
    }

    /// Kills it with its descendants, as a power cut would.
    ///
    /// # Errors
    ///
    /// It is not running.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().ok_or_else(|| self.not_running())?;
        process.kill()
    }

    /// Freezes it: connections stay open without responses.
    ///
    /// # Errors
    ///
    /// It is not running.
    pub fn pause(&self) -> Result<()> {
        self.running()?.signal_all(Signal::STOP)
    }

    /// Continues a paused server.
    ///
    /// # Errors
    ///
    /// It is not running.
    pub fn resume(&self) -> Result<()> {
        self.running()?.signal_all(Signal::CONT)
    }

    fn running(&self) -> Result<&Process> {
        self.process.as_ref().ok_or_else(|| self.not_running())
    }

    fn not_running(&self) -> Error {
        anyhow!("{} is not running", self.program.name)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Server")
            .field("program", &self.program)
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}
