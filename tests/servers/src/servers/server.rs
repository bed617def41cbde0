//! A server: a program that can be started, stopped, killed, paused and started again, and how to
//! tell that it is ready. What is special about Postgres or kube-apiserver is only how they are set
//! up.

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

/// A server that is not ready by then will never be, even on a machine that is busy with other
/// builds.
const PATIENCE: Duration = Duration::from_mins(2);

/// How a program is called.
#[derive(Debug, Clone)]
pub struct Program {
    /// What it is called in messages; also the name of its log.
    pub name: &'static str,
    /// The executable.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What is added to its environment.
    pub env: Vec<(String, String)>,
    /// The signal on which it ends in good order.
    pub stop: Signal,
}

/// An option whose value is a path.
pub(super) fn option(name: &str, value: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push("=");
    argument.push(value);
    argument
}

/// How to tell that a process is ready.
type Ready = Box<dyn Fn(&Process) -> bool + Send + Sync>;

/// A server of a run. Dropping it ends it.
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
        server.start_again()?;
        Ok(server)
    }

    /// The process id of the running server.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Starts it, on the same ports and data, after it was stopped or killed, and waits until it is
    /// ready.
    ///
    /// # Errors
    ///
    /// When it does not get ready. A server that runs is ended first.
    pub fn start_again(&mut self) -> Result<()> {
        self.process = None;
        let mut process = Process::start(&self.run, &self.program)?;
        process.wait_until_ready(PATIENCE, &self.ready)?;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it in good order; one that takes too long is killed.
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().ok_or_else(|| self.not_running())?;
        process.end_by(self.program.stop)
    }

    /// Kills it, with everything that it started, as a power cut would.
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().ok_or_else(|| self.not_running())?;
        process.kill()
    }

    /// Freezes it: connections stay open and nothing is answered.
    ///
    /// # Errors
    ///
    /// When it is not running.
    pub fn pause(&self) -> Result<()> {
        self.running()?.signal_all(Signal::STOP)
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    ///
    /// When it is not running.
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
