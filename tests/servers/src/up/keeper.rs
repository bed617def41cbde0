//! The process that holds the servers after `cargo xtask up` has ended.
//!
//! Both sides speak over pipes, so that neither is left alone: the keeper says where its servers are, or why there are
//! none; `up` says that everything went well. A keeper that never hears so, because `up` failed or was
//! interrupted, ends, and its servers with it.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::agents;
use crate::failure::cannot_run;
use crate::servers::{Crossplane, start_shared};
use crate::tools::{CrossplaneTools, Tools};

/// What `up` says when it succeeded.
const KEEP: &str = "keep";

/// How a task that failed begins its last line.
const ERROR: &str = "error: ";

/// A keeper whose servers are ready. Dropping it ends them, unless it was told to keep them.
pub(super) struct Keeper {
    process: Child,
    /// Taken when it was told.
    tell: Option<ChildStdin>,
    directory: PathBuf,
}

impl Keeper {
    /// Starts one in a session of its own, so that no terminal takes it along, and waits for its servers.
    pub(super) fn start(crossplane: bool) -> Result<Self> {
        let itself = std::env::current_exe().context("cannot find cargo xtask")?;
        let mut command = Command::new("setsid");
        command.arg(itself).arg("keep").current_dir("/");
        if crossplane {
            command.arg("--crossplane");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().with_context(cannot_run(&command))?;
        let tell = process.stdin.take();
        let progress = process.stderr.take().map(|stderr| std::thread::spawn(|| relay(stderr)));
        let mut said = String::new();
        if let Some(stdout) = process.stdout.take() {
            BufReader::new(stdout).read_line(&mut said).with_context(cannot_run(&command))?;
        }
        if let Some(directory) = said.strip_suffix('\n') {
            return Ok(Self { process, tell, directory: directory.into() });
        }
        // It ended without a word on its standard output, so it says why on the other.
        let how = progress.and_then(|progress| progress.join().ok()).unwrap_or_default();
        process.wait().with_context(cannot_run(&command))?;
        bail!("starting the servers failed ({how})")
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Lets the servers outlive this process.
    pub(super) fn keep(mut self) -> Result<()> {
        let Some(mut tell) = self.tell.take() else { return Ok(()) };
        writeln!(tell, "{KEEP}").context("cannot tell the servers' keeper")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.tell.take().is_some() {
            // Its input has ended without the word; its servers end before it does.
            let _ = self.process.wait();
        }
    }
}

/// Shows what a keeper is at, and answers why it failed.
fn relay(stderr: impl Read) -> String {
    let mut why = String::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        match line.strip_prefix(ERROR) {
            Some(error) => why.push_str(error),
            None => eprintln!("{line}"),
        }
    }
    why
}

/// The keeper itself: `cargo xtask keep`, which `up` starts.
///
/// # Errors
///
/// The servers cannot be found, built or started.
pub fn run(crossplane: bool) -> Result<()> {
    // From the start: `up` can be gone before the servers are ready, while this process waits for another run.
    std::thread::spawn(end_without_word);
    let tools = Tools::find_or_build()?;
    let servers = start_shared(&tools)?;
    // Lives as long as this process.
    let _crossplane = if crossplane {
        let access = servers.description().control_plane;
        let of_crossplane = CrossplaneTools::find_or_build()?;
        let crossplane = Crossplane::start(&of_crossplane, servers.run(), &access)?;
        agents::boot(tools, servers.description());
        Some(crossplane)
    } else {
        None
    };
    println!("{}", servers.directory().display());
    loop {
        // Until a signal ends this process, and the reaper the servers.
        std::thread::park();
    }
}

/// Ends this process if `up` ends without the word. The reaper ends the servers.
fn end_without_word() {
    let mut word = String::new();
    let _ = std::io::stdin().read_line(&mut word);
    if word.trim() != KEEP {
        std::process::exit(1);
    }
}
