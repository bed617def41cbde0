//! Reading `/proc`, and starting processes that a test kills.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A process of [the victim program](../../src/bin/victim.rs), with its output piped.
pub(crate) fn victim(arguments: &[&str]) -> Command {
    // A shell may have started the tests with Ctrl-C ignored, or with `nohup`; the child would
    // inherit either.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=INT,HUP,TERM", env!("CARGO_BIN_EXE_victim")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// A child process that is killed when it is dropped.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ids of all processes whose working directory is this one or below. Servers work in their
/// run's directory.
pub(crate) fn processes_in(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let works_there = |id: &u32| {
        fs::read_link(format!("/proc/{id}/cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    };
    ids.filter(works_there).collect()
}
