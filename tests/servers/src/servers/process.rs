//! A started program. It ignores Ctrl-C and writes its output to a log of the run, which identifies its processes.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::{ports::PortTaken, run::Run, server::Program};
use crate::failure::cannot;

const LAUNCH: &str = include_str!("launch.sh");

/// The polling interval for conditions without a notification.
const POLL: Duration = Duration::from_millis(20);

/// How long a server may take to stop before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The number of log lines in an error.
const TAIL_LINES: usize = 8;
const TAIL_WIDTH: usize = 400;

/// A started program. Dropping it kills it and its descendants.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    /// The exit status. Until it is read, the kernel does not reuse the process id.
    status: Option<ExitStatus>,
    log: PathBuf,
    /// The start of this process's part of the log: a restarted server appends to the same file.
    log_start: u64,
    // Lives as long as any process in it.
    _run: Arc<Run>,
}

impl Process {
    /// Starts a program as the run's user, in the run's directory.
    ///
    /// # Errors
    ///
    /// The log or the process cannot be created.
    pub fn start(run: &Arc<Run>, program: &Program) -> Result<Self> {
        let log = run.directory().join(format!("{}.log", program.name));
        let log_file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(cannot("open", &log))?;
        let log_start = fs::metadata(&log).with_context(cannot("read", &log))?.len();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", LAUNCH, "provisioning-broker-launch"])
            .arg(&program.path)
            .args(&program.args)
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .current_dir(run.directory())
            .stdin(Stdio::null())
            .stdout(run.pipe().with_context(cannot("start", &program.path))?)
            .stderr(log_file)
            .process_group(0);
        run.user().apply_to(&mut command);
        let child = command.spawn().with_context(cannot("start", &program.path))?;
        Ok(Self { name: program.name, child, status: None, log, log_start, _run: Arc::clone(run) })
    }

    /// Its process id, which is also its group id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        read_from(&self.log, self.log_start).unwrap_or_default()
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    ///
    /// It exits, finds its port taken, or exceeds `timeout`.
    pub fn wait_until_ready(
        &mut self,
        timeout: Duration,
        ready: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            if self.has_ended()? {
                self.kill()?;
                let status = self.wait()?;
                return Err(self.exit_error(status));
            }
            if ready(self) {
                return Ok(());
            }
            if started.elapsed() > timeout {
                let (server, seconds, tail) = (self.name, timeout.as_secs(), self.log_tail());
                bail!("{server} was not ready after {seconds} s; its log ends: {tail}");
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until it exits successfully.
    ///
    /// # Errors
    ///
    /// It failed.
    pub fn wait_for_success(mut self) -> Result<()> {
        let status = self.wait()?;
        if status.success() { Ok(()) } else { Err(self.exit_error(status)) }
    }

    /// Sends a signal to the process only, not to its descendants.
    ///
    /// # Errors
    ///
    /// It has exited.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.status.is_none(), "{} is not running", self.name);
        kill_process(Pid::from_child(&self.child), signal).with_context(|| self.signal_error())
    }

    /// Sends a signal to the process and its descendants.
    ///
    /// # Errors
    ///
    /// It has exited.
    pub fn signal_all(&self, signal: Signal) -> Result<()> {
        // A stopped process cannot start another one during the scan.
        self.signal(Signal::STOP)?;
        self.signal_descendants(signal);
        self.signal(signal)?;
        if signal == Signal::STOP { Ok(()) } else { self.signal(Signal::CONT) }
    }

    /// Sends a signal and waits for the exit; then kills the remaining processes, at the latest after `GRACE`.
    ///
    /// # Errors
    ///
    /// It cannot be signalled or waited for.
    pub fn stop_with(&mut self, signal: Signal) -> Result<()> {
        if !self.has_ended()? {
            self.signal(signal)?;
            // A stopped process handles no signal except KILL until it is continued.
            self.signal_all(Signal::CONT)?;
        }
        let started = Instant::now();
        while !self.has_ended()? && started.elapsed() < GRACE {
            std::thread::sleep(POLL);
        }
        self.kill()
    }

    /// Kills it with its descendants and waits for its exit.
    ///
    /// # Errors
    ///
    /// It cannot be signalled or waited for.
    pub fn kill(&mut self) -> Result<()> {
        if self.status.is_none() {
            self.signal_all(Signal::KILL)?;
            self.wait()?;
        }
        // Descendants may outlive the process.
        let started = Instant::now();
        while self.signal_descendants(Signal::KILL) > 0 && started.elapsed() < GRACE {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Signals its descendants and returns their number. They are found by their standard error, the log: a Postgres
    /// session, for example, has its own process group and may outlive its parent.
    fn signal_descendants(&self, signal: Signal) -> usize {
        let own_pid = Pid::from_child(&self.child);
        let mut count = 0;
        for pid in processes_logging_to(&self.log).filter(|pid| *pid != own_pid) {
            // A process that has just exited needs no signal.
            let _ = kill_process(pid, signal);
            count += 1;
        }
        count
    }

    /// Whether it has exited. Does not reap it, so that its process id stays reserved.
    fn has_ended(&self) -> Result<bool> {
        if self.status.is_some() {
            return Ok(true);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)
            .with_context(|| self.signal_error())?;
        Ok(ended.is_some())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let status = match self.status {
            Some(status) => status,
            None => self.child.wait().with_context(|| self.signal_error())?,
        };
        self.status = Some(status);
        Ok(status)
    }

    fn signal_error(&self) -> String {
        format!("cannot signal {}", self.name)
    }

    fn exit_error(&self, status: ExitStatus) -> Error {
        let (server, tail) = (self.name, self.log_tail());
        if self.log().to_lowercase().contains("address already in use") {
            return PortTaken { server, tail }.into();
        }
        anyhow!("{server} ended with {status} before it was ready; its log ends: {tail}")
    }

    /// The end of its log in one line.
    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        let truncated = |line: &&str| line.chars().take(TAIL_WIDTH).collect::<String>();
        last.iter().map(truncated).collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A drop cannot report a failure; the reaper then kills the process.
        let _ = self.kill();
    }
}

fn processes_logging_to(log: &Path) -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(move |pid| {
        fs::read_link(format!("/proc/{}/fd/2", pid.as_raw_pid())).is_ok_and(|target| target == log)
    })
}

fn read_from(path: &Path, start: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that runs a shell script.
    fn script(text: &str) -> Program {
        Program {
            name: "script",
            path: "/bin/sh".into(),
            args: vec!["-c".into(), text.into()],
            env: Vec::new(),
            stop: Signal::TERM,
        }
    }

    #[test]
    fn failed_start_names_the_program_and_a_taken_port() {
        let run = Arc::new(Run::start().unwrap());
        let ended =
            "script ended with exit status: 7 before it was ready; its log ends: first | bad flag";
        for (text, is_taken, expected) in [
            ("echo 'bind: Address already in use' >&2; exit 1", true, "script found its port"),
            ("echo first; echo bad flag >&2; exit 7", false, ended),
        ] {
            let mut process = Process::start(&run, &script(text)).unwrap();
            let failed = process.wait_until_ready(GRACE, |_| false).unwrap_err();
            assert!(failed.to_string().contains(expected), "{failed}");
            assert_eq!(failed.is::<PortTaken>(), is_taken, "{failed}");
        }
    }
}
