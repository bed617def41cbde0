//! One started program: deaf to Ctrl-C, its output in a log of the run, and findable by that log.

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

/// How often a condition is looked at that nothing announces.
const POLL: Duration = Duration::from_millis(20);

/// How long a server that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// How many of a log's last lines go into an error, and how much of each.
const TAIL_LINES: usize = 8;
const TAIL_WIDTH: usize = 400;

/// A started program. Dropping it ends it, with everything it started itself.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    /// How it ended. Until this is known its process number is ours, afterwards it may be
    /// anybody's.
    status: Option<ExitStatus>,
    log: PathBuf,
    /// Where this process's part of the log begins: a restarted server goes on in the same file.
    log_start: u64,
    // Lives as long as any process in it.
    _run: Arc<Run>,
}

impl Process {
    /// Starts a program as the run's user, with the run's directory as its own.
    ///
    /// # Errors
    ///
    /// When its log or the process cannot be had.
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
        run.user().run(&mut command);
        let child = command.spawn().with_context(cannot("start", &program.path))?;
        Ok(Self { name: program.name, child, status: None, log, log_start, _run: Arc::clone(run) })
    }

    /// Its process id, which is also that of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        read_from(&self.log, self.log_start).unwrap_or_default()
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    ///
    /// When it ends instead, finds its port taken, or takes longer than `patience`.
    pub fn wait_until_ready(
        &mut self,
        patience: Duration,
        ready: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        let started = Instant::now();
        loop {
            if self.has_ended()? {
                self.kill()?;
                let status = self.wait()?;
                return Err(self.ended(status));
            }
            if ready(self) {
                return Ok(());
            }
            if started.elapsed() > patience {
                let (server, seconds, tail) = (self.name, patience.as_secs(), self.tail());
                bail!("{server} was not ready after {seconds} s; its log ends: {tail}");
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until it has done its work and ended.
    ///
    /// # Errors
    ///
    /// When it failed.
    pub fn wait_for_success(mut self) -> Result<()> {
        let status = self.wait()?;
        if status.success() { Ok(()) } else { Err(self.ended(status)) }
    }

    /// Sends a signal to it alone, not to what it started itself.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.status.is_none(), "{} is not running", self.name);
        kill_process(Pid::from_child(&self.child), signal).with_context(|| self.lost())
    }

    /// Sends a signal to it and to everything that it started.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn signal_all(&self, signal: Signal) -> Result<()> {
        // While it is stopped it starts nothing that would be missed.
        self.signal(Signal::STOP)?;
        self.signal_others(signal);
        self.signal(signal)?;
        if signal == Signal::STOP { Ok(()) } else { self.signal(Signal::CONT) }
    }

    /// Asks it to end by a signal and waits for that; whatever is left after a grace is killed.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled or waited for.
    pub fn end_by(&mut self, signal: Signal) -> Result<()> {
        if !self.has_ended()? {
            self.signal(signal)?;
            // A stopped process takes no signal but KILL until it is continued.
            self.signal_all(Signal::CONT)?;
        }
        let started = Instant::now();
        while !self.has_ended()? && started.elapsed() < GRACE {
            std::thread::sleep(POLL);
        }
        self.kill()
    }

    /// Kills it, with everything that it started, and waits for its end.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled or waited for.
    pub fn kill(&mut self) -> Result<()> {
        if self.status.is_none() {
            self.signal_all(Signal::KILL)?;
            self.wait()?;
        }
        // What it started may outlive it for a moment, or longer if it ended by itself.
        let started = Instant::now();
        while self.signal_others(Signal::KILL) > 0 && started.elapsed() < GRACE {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Signals what it started, and says how many they were. They are found by their standard
    /// error, the log: a Postgres session, for one, has a process group of its own and may outlive
    /// its parent.
    fn signal_others(&self, signal: Signal) -> usize {
        let itself = Pid::from_child(&self.child);
        let mut count = 0;
        for pid in processes_logging_to(&self.log).filter(|pid| *pid != itself) {
            // One that has just ended by itself needs no signal.
            let _ = kill_process(pid, signal);
            count += 1;
        }
        count
    }

    /// Whether it has ended, without giving its process number back.
    fn has_ended(&self) -> Result<bool> {
        if self.status.is_some() {
            return Ok(true);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.child)), options)
            .with_context(|| self.lost())?;
        Ok(ended.is_some())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let status = match self.status {
            Some(status) => status,
            None => self.child.wait().with_context(|| self.lost())?,
        };
        self.status = Some(status);
        Ok(status)
    }

    fn lost(&self) -> String {
        format!("cannot signal {}", self.name)
    }

    fn ended(&self, status: ExitStatus) -> Error {
        let (server, tail) = (self.name, self.tail());
        if self.log().to_lowercase().contains("address already in use") {
            return PortTaken { server, tail }.into();
        }
        anyhow!("{server} ended with {status} before it was ready; its log ends: {tail}")
    }

    /// The end of its log in one line.
    fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        let cut = |line: &&str| line.chars().take(TAIL_WIDTH).collect::<String>();
        last.iter().map(cut).collect::<Vec<_>>().join(" | ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure, and the reaper comes after us.
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

    /// A server made of a shell script.
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
    fn children_of_a_process_end_with_it_even_if_it_ended_before() {
        for killed_before in [false, true] {
            let run = Arc::new(Run::start().unwrap());
            let parent = script("setsid sleep 1000 & echo $!; wait");
            let mut process = Process::start(&run, &parent).unwrap();
            process.wait_until_ready(GRACE, |process| process.log().ends_with('\n')).unwrap();
            let child = format!("/proc/{}/stat", process.log().trim());
            if killed_before {
                process.signal(Signal::KILL).unwrap();
                process.end_by(Signal::TERM).unwrap();
            }
            drop(process);
            let is_alive = || fs::read_to_string(&child).is_ok_and(|stat| !stat.contains(") Z "));
            let started = Instant::now();
            while is_alive() {
                assert!(started.elapsed() < Duration::from_mins(1), "{child} is still there");
                std::thread::sleep(POLL);
            }
        }
    }

    #[test]
    fn failed_start_names_the_program_and_tells_a_taken_port_from_another_reason() {
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
