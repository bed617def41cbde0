//! Executes README's commands as written.
//!
//! The blocks of one section are one shell session.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::failure::OrFail;

const README: &str = include_str!("../../README.md");

/// A heading, and the lines of its shell blocks.
pub type Section = (&'static str, String);

/// Every section that has commands.
#[must_use]
pub fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut language = None;
    for line in README.lines() {
        match (language, line.strip_prefix("```")) {
            (None, Some(begins)) => language = Some(begins),
            (Some(_), Some(_)) => language = None,
            (Some("sh"), None) => {
                if let Some((_, script)) = sections.last_mut() {
                    script.push_str(line);
                    script.push('\n');
                }
            }
            (Some(_), None) => {}
            (None, None) => {
                if let Some(heading) = line.strip_prefix("## ") {
                    sections.push((heading, String::new()));
                }
            }
        }
    }
    sections.retain(|(_, script)| !script.is_empty());
    sections
}

/// A fresh home directory: the machine of a new user, except for the caches of cargo and of server
/// binaries, which would take minutes to fill.
pub struct Home {
    directory: TempDir,
    root: PathBuf,
}

/// The result of a script.
#[derive(Debug, Clone)]
pub struct Typed {
    /// The shell's exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Home {
    /// A home without any history.
    #[must_use]
    pub fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Self { directory: tempfile::tempdir().or_fail("a directory"), root }
    }

    /// Executes the commands of a section. Processes that a failed section started do not outlive it.
    ///
    /// # Panics
    ///
    /// When one of them fails.
    pub async fn follow(&self, (heading, script): &Section) -> String {
        let Typed { code, out, err } = self.type_in(script).await;
        if code != Some(0) {
            self.type_in("cargo xtask down").await;
        }
        assert_eq!(code, Some(0), "{heading}: {script}\n{out}\n{err}");
        out
    }

    /// Executes a script; stops at the first command that fails.
    ///
    /// # Panics
    ///
    /// When there is no shell.
    pub async fn type_in(&self, script: &str) -> Typed {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", script]).current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            // Removes the addresses of this run's servers, and what cargo set for this test's package.
            if ["BROKER_", "PLEXSPHERE_", "CARGO_PKG_", "CARGO_MANIFEST_"]
                .iter()
                .any(|prefix| text.starts_with(prefix))
            {
                command.env_remove(&name);
            }
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let or_in_home = |name: &str, usual: &str| {
            std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from)
        };
        command
            .env("HOME", self.directory.path())
            .env("CARGO_HOME", or_in_home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", or_in_home("RUSTUP_HOME", ".rustup"))
            .env("XDG_CACHE_HOME", or_in_home("XDG_CACHE_HOME", ".cache"))
            .env("BROKER_UP_DIR", self.directory.path().join("up"))
            .env_remove("KUBECONFIG");
        if let Some(cache) = std::env::var_os("BROKER_CACHE_DIR") {
            command.env("BROKER_CACHE_DIR", cache);
        }
        let file = |name| File::create(self.directory.path().join(name)).or_fail(name);
        command.stdout(file("out")).stderr(file("err")).process_group(0);
        let mut shell = command.spawn().or_fail("a shell");
        let group = Pid::from_child(&shell);
        let status = tokio::task::spawn_blocking(move || shell.wait()).await;
        let status = status.or_fail("a shell").or_fail("a shell");
        // Ends processes that a failed script left in the background; usually there are none.
        let _ = kill_process_group(group, Signal::KILL);
        let text = |name| fs::read_to_string(self.directory.path().join(name)).or_fail(name);
        Typed { code: status.code(), out: text("out"), err: text("err") }
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}
