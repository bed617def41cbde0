//! Child processes whose output matters only when they fail.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Result, bail};

use crate::progress::step;

/// As many lines as fit on a screen beside the error.
const TAIL_LINES: usize = 20;

/// Runs the command as the step `what`, its output appended to `log`.
pub(crate) fn run_logged(
    progress: &dyn Fn(&str),
    what: &str,
    command: &mut Command,
    log: &Path,
) -> Result<()> {
    let how = match step(progress, what, || append_output(command, log)) {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    bail!("{what} failed ({how}); the whole output is in {}", log.display())
}

/// Shows the end of a log, where a compiler says what it did not like.
pub(crate) fn show_tail(progress: &dyn Fn(&str), log: &Path) {
    // A log that cannot be read has no end to show; the error names it all the same.
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        progress(&format!("  {line}"));
    }
}

/// Adds to the log what did not get there by itself.
pub(crate) fn append(log: &Path, text: &[u8]) -> io::Result<()> {
    open(log)?.write_all(text)
}

fn open(log: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(log)
}

fn append_output(command: &mut Command, log: &Path) -> io::Result<ExitStatus> {
    let mut output = open(log)?;
    writeln!(output, "$ {command:?}")?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).status()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn output_goes_to_the_log_and_a_failure_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("counting.log");
        let lines = RefCell::new(Vec::new());
        let run = |script: &str| {
            let mut command = Command::new("sh");
            run_logged(&|line| panic!("{line}"), "counting", command.args(["-c", script]), &log)
        };
        run("echo out; echo err >&2").unwrap();
        assert!(std::fs::read_to_string(&log).unwrap().ends_with("out\nerr\n"));

        let error = run("seq 100; exit 3").unwrap_err().to_string();
        let expected = "counting failed (exit status: 3); the whole output is in ";
        assert_eq!(error, format!("{expected}{}", log.display()));
        show_tail(&|line| lines.borrow_mut().push(line.to_owned()), &log);
        assert_eq!(lines.borrow().len(), TAIL_LINES);
        assert_eq!(lines.borrow().last().map(String::as_str), Some("  100"));
    }
}
