//! Executes the commands of a documentation page as written, and compares their output with the page.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::failure::OrFail;

/// A block of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The heading above it.
    pub heading: String,
    /// The commands.
    pub script: String,
    /// The expected lines of its output, in order: those of a `text` block that follows in the same section. `…` stands
    /// for any text.
    pub expected: Vec<String>,
}

/// The `sh` blocks of a page.
#[must_use]
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut heading, mut language) = (String::new(), None);
    for line in page.lines() {
        match (language, line.strip_prefix("```")) {
            (None, Some("sh")) => {
                let (script, expected) = (String::new(), Vec::new());
                steps.push(Step { heading: heading.clone(), script, expected });
                language = Some("sh");
            }
            (None, Some(other)) => language = Some(other),
            (Some(_), Some(_)) => language = None,
            (Some(language), None) => {
                let Some(step) = steps.last_mut().filter(|step| step.heading == heading) else {
                    continue;
                };
                match language {
                    "sh" => step.script = format!("{}{line}\n", step.script),
                    "text" => step.expected.push(line.to_owned()),
                    _ => {}
                }
            }
            (None, None) => {
                if let Some(text) = line.strip_prefix("## ") {
                    text.clone_into(&mut heading);
                }
            }
        }
    }
    steps
}

/// The first expected line that the output lacks, in order.
fn missing_line<'a>(expected: &'a [String], output: &str) -> Option<&'a str> {
    let mut lines = output.lines();
    let absent = expected.iter().find(|line| !lines.any(|printed| matches(line, printed)));
    absent.map(String::as_str)
}

/// Whether a line matches a pattern in which `…` stands for any text.
fn matches(pattern: &str, line: &str) -> bool {
    let (pattern, line) = (pattern.trim_end(), line.trim_end());
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            let Some((_, after)) = rest.split_once(before) else { return false };
            rest = after;
        }
    }
    last.map_or(rest.is_empty(), |last| rest.ends_with(last))
}

/// The fresh home directory of a new user. It shares the caches of cargo and of server binaries, which take
/// minutes to fill.
pub struct Home {
    directory: TempDir,
    root: PathBuf,
}

/// The result of a script.
#[derive(Debug, Clone)]
pub struct ScriptOutput {
    /// The shell's exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Home {
    /// An empty home directory.
    #[must_use]
    pub fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Self { directory: tempfile::tempdir().or_fail("cannot create a directory"), root }
    }

    /// Executes steps in one shell session and compares their output. After a failure, ends the started servers.
    ///
    /// # Panics
    ///
    /// When a command fails, or prints other lines than the page shows.
    pub async fn follow(&self, steps: &[Step]) -> String {
        const END: &str = "--- end of the step ---";
        let mut script = String::new();
        for step in steps {
            let _ = writeln!(script, "{}echo '{END}'", step.script);
        }
        let ScriptOutput { code, out, err } = self.run_script(&script).await;
        let mut outputs = out.split(END);
        let unexpected = steps.iter().find_map(|step| {
            let output = outputs.next().unwrap_or_default();
            let line = missing_line(&step.expected, output)?;
            Some(format!("{}: no line {line:?} in\n{output}", step.heading))
        });
        if code != Some(0) || unexpected.is_some() {
            self.run_script("cargo xtask down").await;
        }
        assert_eq!(code, Some(0), "{out}\n{err}");
        assert_eq!(unexpected, None, "{err}");
        out
    }

    /// Executes a script; stops at the first command that fails.
    ///
    /// # Panics
    ///
    /// When no shell can be started.
    pub async fn run_script(&self, script: &str) -> ScriptOutput {
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
        let path_or_in_home = |name: &str, usual: &str| {
            std::env::var_os(name).map_or_else(|| home.join(usual), PathBuf::from)
        };
        command
            .env("HOME", self.directory.path())
            .env("CARGO_HOME", path_or_in_home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", path_or_in_home("RUSTUP_HOME", ".rustup"))
            .env("XDG_CACHE_HOME", path_or_in_home("XDG_CACHE_HOME", ".cache"))
            .env("BROKER_UP_DIR", self.directory.path().join("up"))
            .env_remove("KUBECONFIG");
        if let Some(cache) = std::env::var_os("BROKER_CACHE_DIR") {
            command.env("BROKER_CACHE_DIR", cache);
        }
        let file = |name| File::create(self.directory.path().join(name)).or_fail(name);
        command.stdout(file("out")).stderr(file("err")).process_group(0);
        let mut shell = command.spawn().or_fail("cannot run a shell");
        let group = Pid::from_child(&shell);
        let status = tokio::task::spawn_blocking(move || shell.wait()).await;
        let status = status.or_fail("cannot run a shell").or_fail("cannot run a shell");
        // Ends processes that a failed script left in the background; usually there are none.
        let _ = kill_process_group(group, Signal::KILL);
        let text = |name| fs::read_to_string(self.directory.path().join(name)).or_fail(name);
        ScriptOutput { code: status.code(), out: text("out"), err: text("err") }
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_has_the_output_that_follows_in_its_section() {
        let page = "# T\n\n## One\n\n```sh\na\nb\n```\n\nText.\n\n```text\nc\n```\n\n## Two\n\n\
                    ```text\nd\n```\n\n```rust\ne\n```\n";
        let step =
            Step { heading: "One".into(), script: "a\nb\n".into(), expected: vec!["c".into()] };
        assert_eq!(steps(page), [step]);
    }

    #[test]
    fn expected_lines_are_found_in_order() {
        let expected =
            |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        for (lines, absent) in [
            (&["one", "three"] as &[_], None),
            (&["o…", "…hr…", "…e…e"], Some("…e…e")),
            (&["…wo", "one"], Some("one")),
            (&["on"], Some("on")),
            (&["t…o…"], None),
        ] {
            let lines = expected(lines);
            assert_eq!(missing_line(&lines, "one\ntwo \nthree\n"), absent);
        }
    }
}
