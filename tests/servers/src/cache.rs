//! The cache of server binaries: outside the checkout, keyed by version, atomic.
//!
//! An artifact is a directory that a rename publishes when it is complete. A builder holds a lock on a file next to it:
//! concurrent runs build an artifact once, and while a run holds the lock, leftovers come from a killed run.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use rustix::process::geteuid;

use crate::failure::{cannot, cannot_run};
use crate::progress::report_progress;
use crate::tools::check_others_can_run;

/// The log lines that fit on a screen with the error.
const TAIL_LINES: usize = 20;

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `BROKER_CACHE_DIR`, or the user's cache directory. For root it is outside root's home, which other users cannot
    /// enter.
    pub(crate) fn from_environment() -> Result<Self> {
        const NAME: &str = "provisioning-broker";
        let variable =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = variable("BROKER_CACHE_DIR")
            .or_else(|| geteuid().is_root().then(|| Path::new("/var/cache").join(NAME)))
            .or_else(|| Some(variable("XDG_CACHE_HOME")?.join(NAME)))
            .or_else(|| Some(variable("HOME")?.join(".cache").join(NAME)))
            .context("the cache has no directory: set BROKER_CACHE_DIR, XDG_CACHE_HOME or HOME")?;
        // A child process may have another working directory.
        let root = std::path::absolute(&root).with_context(cannot("resolve", &root))?;
        Ok(Self { root })
    }

    /// The path of an artifact, built or not.
    pub(crate) fn artifact(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// Creates an empty log for the commands that build the artifact.
    pub(crate) fn log(&self, key: &str) -> Result<PathBuf> {
        let logs = self.root.join("logs");
        create_open_directory(&logs)?;
        let log = logs.join(format!("{key}.log"));
        File::create(&log).with_context(cannot("create", &log))?;
        Ok(log)
    }

    /// Returns the artifact `key`. Unless `is_complete` accepts the existing one, `make` builds it in an empty
    /// directory.
    ///
    /// On this machine, one run at a time calls `make`; others wait and use its result.
    pub(crate) fn provide(
        &self,
        key: &str,
        is_complete: impl Fn(&Path) -> bool,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let artifact = self.artifact(key);
        if is_complete(&artifact) {
            return Ok(artifact);
        }
        create_open_directory(&self.root)?;
        // Fails now instead of after minutes of building.
        check_others_can_run(&self.root)?;
        // The lock file stays: after its removal, a third run would lock another file than the one a second run waits
        // for.
        let lock = self.root.join(format!("{key}.lock"));
        let _lock = lock_file(&lock, &format!("waiting for another run that builds {key}"))?;
        if is_complete(&artifact) {
            return Ok(artifact);
        }
        self.remove_leftovers(&format!("{key}.partial-"))?;
        // The process id separates this build from one that outlived its killed parent.
        let partial = self.root.join(format!("{key}.partial-{}", std::process::id()));
        create_open_directory(&partial)?;
        make(&partial).inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
        // Syncs the files before the rename, so that a power cut leaves no empty ones.
        rustix::fs::sync();
        if artifact.exists() {
            fs::remove_dir_all(&artifact).with_context(cannot("remove", &artifact))?;
        }
        fs::rename(&partial, &artifact).with_context(cannot("rename", &partial))?;
        Ok(artifact)
    }

    /// Removes leftovers of killed runs. The caller holds the lock.
    fn remove_leftovers(&self, prefix: &str) -> Result<()> {
        for entry in fs::read_dir(&self.root).with_context(cannot("read", &self.root))? {
            let entry = entry.with_context(cannot("read", &self.root))?;
            if entry.file_name().to_string_lossy().starts_with(prefix) {
                fs::remove_dir_all(entry.path()).with_context(cannot("remove", &entry.path()))?;
            }
        }
        Ok(())
    }
}

/// Takes a lock until the file is dropped. Prints `waiting` before it blocks.
pub(crate) fn lock_file(path: &Path, waiting: &str) -> Result<File> {
    let file = File::create(path).with_context(cannot("create", path))?;
    if file.try_lock().is_err() {
        report_progress(waiting);
        file.lock().with_context(cannot("lock", path))?;
    }
    Ok(file)
}

/// Creates the directory and sets the mode bits that the umask removed.
fn create_open_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).with_context(cannot("create", path))?;
    make_accessible(path)
}

/// Lets every user read and execute the file, or enter the directory: root starts its servers as another user.
pub(crate) fn make_accessible(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o755))
        .with_context(cannot("make accessible", path))
}

/// Runs the command as the step `what` and appends its output to `log`. The error contains the end of the log.
pub(crate) fn run_logged(what: &str, command: &mut Command, log: &Path) -> Result<()> {
    report_progress(what);
    let output = File::options().create(true).append(true).open(log);
    let output = output.with_context(cannot("open", log))?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let status = command.status().with_context(cannot_run(command))?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().for_each(|line| report_progress(line));
    bail!("{what} failed ({status}); the whole output is in {}", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_or_killed_build_leaves_no_artifact() {
        const KEY: &str = "thing-1.0";
        let directory = tempfile::tempdir().unwrap();
        // Temporary directories are private; root's cache must be readable.
        make_accessible(directory.path()).unwrap();
        let cache = Cache { root: directory.path().join("cache") };
        let complete = |artifact: &Path| artifact.join("thing").is_file();
        let failed = cache.provide(KEY, complete, |partial| {
            fs::write(partial.join("thing"), "half")?;
            bail!("no compiler")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no compiler");
        let names =
            fs::read_dir(cache.artifact("")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["thing-1.0.lock"]);

        let leftover = cache.artifact("thing-1.0.partial-1");
        for (directory, file) in [(&leftover, "thing"), (&cache.artifact(KEY), "stale")] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join(file), "half").unwrap();
        }
        let make = |partial: &Path| Ok(fs::write(partial.join("thing"), "made")?);
        let artifact = cache.provide(KEY, complete, make).unwrap();
        assert!(!leftover.exists() && !artifact.join("stale").exists());
        assert_eq!(fs::read_to_string(artifact.join("thing")).unwrap(), "made");
    }
}
