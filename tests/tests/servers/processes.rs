//! What the tests look at in `/proc`, and how they start processes to kill.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A process that does what [the victim](../../src/bin/victim.rs) is told, with its output
/// readable.
pub(crate) fn victim(arguments: &[&str]) -> Command {
    // A shell may have started the tests with Ctrl-C ignored, `nohup` with a hang-up; either would be inherited.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT,HUP,TERM", env!("CARGO_BIN_EXE_victim")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Ends with its test, so that a failed one leaves nothing behind.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ids of all processes that stand in this directory or below it. Servers stand in that of
/// their run.
pub(crate) fn standing_in(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let stands_there = |id: &u32| {
        fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    };
    ids.filter(stands_there).collect()
}
