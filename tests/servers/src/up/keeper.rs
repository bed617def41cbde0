//! The process that keeps the servers running after `cargo xtask up` has exited.
//!
//! Two pipes connect the processes. The keeper reports its directory or an error; `up` sends `KEEP` when it has
//! succeeded. A keeper without this message exits when `up` does, and its servers stop.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::agents;
use crate::failure::cannot_run;
use crate::servers::{Crossplane, start_shared};
use crate::tools::{CrossplaneTools, Tools};

/// The file with the URL at which agents enrol, in the directory of the servers.
const CONTROL_PLANE: &str = "control-plane";

/// The message of `up` after its success.
const KEEP: &str = "keep";

/// The prefix of a failed task's last line.
const ERROR: &str = "error: ";

/// A keeper with ready servers. Dropping it stops them, unless [`Self::keep`] was called.
pub(super) struct Keeper {
    process: Child,
    /// Taken by [`Self::keep`].
    control: Option<ChildStdin>,
    directory: PathBuf,
}

impl Keeper {
    /// Starts a keeper in its own session, so that it survives the terminal, and waits for its servers.
    pub(super) fn start(crossplane: bool) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find cargo xtask")?;
        let mut command = Command::new("setsid");
        command.arg(program).arg("keep").current_dir("/");
        if crossplane {
            command.arg("--crossplane");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(cannot_run(&command))?;
        let control = process.stdin.take();
        let progress =
            process.stderr.take().map(|stderr| std::thread::spawn(|| copy_progress(stderr)));
        let mut first_line = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut first_line).with_context(cannot_run(&command))?;
        }
        if let Some(directory) = first_line.strip_suffix('\n') {
            return Ok(Self { process, control, directory: directory.into() });
        }
        // The keeper exited without a directory, so its standard error has the reason.
        let error = progress.and_then(|progress| progress.join().ok()).unwrap_or_default();
        process.wait().with_context(cannot_run(&command))?;
        bail!("starting the servers failed ({error})")
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The URL at which agents enrol, if this keeper runs them.
    pub(super) fn api_url(&self) -> Option<String> {
        fs::read_to_string(self.directory.join(CONTROL_PLANE)).ok()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Lets the servers outlive this process.
    pub(super) fn keep(mut self) -> Result<()> {
        let Some(mut control) = self.control.take() else { return Ok(()) };
        writeln!(control, "{KEEP}").context("cannot send the message to the keeper")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.control.take().is_some() {
            // Its input ended without the message, so the keeper stops its servers and exits.
            let _ = self.process.wait();
        }
    }
}

/// Copies the keeper's progress to the terminal; returns its error message.
fn copy_progress(stderr: impl Read) -> String {
    let mut message = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        match line.strip_prefix(ERROR) {
            Some(error) => message.push_str(error),
            None => eprintln!("{line}"),
        }
    }
    message
}

/// The keeper itself: `cargo xtask keep`, which `up` starts.
///
/// # Errors
///
/// The servers cannot be found, built or started.
pub fn run(crossplane: bool) -> Result<()> {
    // Before the servers start, because `up` may exit while this process waits for another run.
    std::thread::spawn(exit_unless_kept);
    let tools = Tools::find_or_build()?;
    let servers = start_shared(&tools)?;
    // Lives as long as this process.
    let _crossplane = if crossplane {
        let access = servers.description().control_plane;
        let crossplane_tools = CrossplaneTools::find_or_build()?;
        let crossplane = Crossplane::start(&crossplane_tools, servers.run(), &access)?;
        let url = agents::boot(&tools, servers.description())?;
        // Before `up` reads the directory.
        fs::write(servers.directory().join(CONTROL_PLANE), url)?;
        Some(crossplane)
    } else {
        None
    };
    println!("{}", servers.directory().display());
    loop {
        // Until a signal ends this process; the reaper then stops the servers.
        std::thread::park();
    }
}

/// Exits this process if `up` exits without the message. The reaper stops the servers.
fn exit_unless_kept() {
    let mut message = String::new();
    let _ = std::io::stdin().read_line(&mut message);
    if message.trim() != KEEP {
        std::process::exit(1);
    }
}
