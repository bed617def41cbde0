//! README's commands, typed as they stand there.
//!
//! The blocks of a section are one session of a shell. Only the command that runs all tests is left to whoever runs
//! this one.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

const README: &str = include_str!("../../../../README.md");

/// It would run itself.
const TESTS: &str = "cargo xtask test\n";

/// A heading, and the lines of its shell blocks.
type Section = (&'static str, String);

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut language = None;
    for line in README.lines() {
        match (language, line.strip_prefix("```")) {
            (None, Some(begins)) => language = Some(begins),
            (Some(_), Some(_)) => language = None,
            (Some("sh"), None) => {
                let section = sections.last_mut().unwrap();
                section.1.push_str(line);
                section.1.push('\n');
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

/// A home of its own: what a machine has before anybody has used this repository, but for the caches of cargo and of
/// server binaries, which would take minutes to fill.
struct Home {
    directory: TempDir,
    root: PathBuf,
}

impl Home {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
        Self { directory: tempfile::tempdir().unwrap(), root }
    }

    /// Runs a script to its end, and stops it at the first command that fails.
    #[expect(clippy::disallowed_methods, reason = "a test knows where the machine's caches are")]
    async fn type_in(&self, script: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", script]).current_dir(&self.root);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            // Neither where this run's servers are, nor what cargo told this test about its package.
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
        let file = |name| File::create(self.directory.path().join(name)).unwrap();
        command.stdout(file("out")).stderr(file("err")).process_group(0);
        let mut shell = command.spawn().unwrap();
        let group = Pid::from_child(&shell);
        let status = tokio::task::spawn_blocking(move || shell.wait()).await.unwrap().unwrap();
        // What a script that stopped half-way left in the background; usually there is nothing.
        let _ = kill_process_group(group, Signal::KILL);
        let text = |name| fs::read_to_string(self.directory.path().join(name)).unwrap();
        (status.code(), text("out"), text("err"))
    }
}

#[tokio::test]
async fn every_command_works_as_written() {
    let home = Home::new();
    let mut typed = Vec::new();
    for (heading, script) in sections() {
        if script == TESTS {
            continue;
        }
        let (code, out, err) = home.type_in(&script).await;
        if code != Some(0) {
            // What it started must not outlive the test.
            home.type_in("cargo xtask down").await;
        }
        assert_eq!(code, Some(0), "{heading}: {script}\n{out}\n{err}");
        typed.push((heading, out));
    }
    let (headings, outputs): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
    assert_eq!(headings, ["See it work", "Quick start on real servers"]);
    assert!(outputs[0].contains("Every event was told once and in order"), "{}", outputs[0]);
    for part in ["  Provisioning\n", "  Deleted\n", "ended the servers in "] {
        assert!(outputs[1].contains(part), "{part:?} is not in {}", outputs[1]);
    }

    let (code, out, err) = home.type_in("cargo xtask down").await;
    assert_eq!((code, out.as_str()), (Some(0), "nothing is up\n"), "{err}");
}

#[test]
fn the_command_that_is_left_out_is_the_one_that_ci_runs() {
    let left_out: Vec<_> = sections().into_iter().filter(|(_, script)| script == TESTS).collect();
    assert_eq!(left_out.len(), 1);
    let ci = include_str!("../../../../.ci/run");
    assert!(ci.contains("run cargo xtask test"), "{ci}");
}
