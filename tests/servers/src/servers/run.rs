//! The lifecycle of a run. Everything that its servers write is in one directory. A lock marks the run as alive. A reaper
//! process stops the servers and removes the directory when the run's owner is gone.
//!
//! Guarantees:
//!
//! - The reaper has its own session and waits for the end of a pipe, so it acts after success, panic, Ctrl-C and
//!   SIGKILL alike. Every process of [`super::Process::start`] holds the pipe until the reaper can find it by its log,
//!   so the reaper misses none.
//! - The owner holds the lock, and the reaper holds it as its standard output: it is free only when the servers are
//!   gone. No server inherits it.
//! - A directory with a free lock is left over from a power cut; the next run removes it.

use std::{
    fs::{self, DirEntry, File, Permissions, TryLockError},
    io,
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::Duration,
};

use anyhow::{Context as _, Result};

use super::user::User;
use crate::failure::cannot;

/// The directory name of a run is this prefix and six random characters.
const PREFIX: &str = "provisioning-broker-run-";

/// The name before the lock is taken; the directory must not look like a leftover.
const PREFIX_UNLOCKED: &str = "provisioning-broker-new-";

const LOCK: &str = "lock";

const REAPER: &str = include_str!("reaper.sh");

/// A run. Dropping it stops its processes and removes its directory.
#[derive(Debug)]
pub struct Run {
    directory: PathBuf,
    user: User,
    reaper: Mutex<Child>,
    _lock: File,
}

impl Run {
    /// Removes leftovers of power cuts, creates and locks a directory below the system's temporary one, and starts its
    /// reaper.
    ///
    /// # Errors
    ///
    /// The directory, its lock or the reaper cannot be created; or root finds no unprivileged user.
    pub fn start() -> Result<Self> {
        Self::start_below(&std::env::temp_dir())
    }

    fn start_below(parent: &Path) -> Result<Self> {
        // The reaper compares it with paths of open files, which are canonical.
        let parent = &parent.canonicalize().with_context(cannot("find", parent))?;
        remove_leftovers(parent);
        let user = User::for_servers()?;
        let (directory, lock) = create_locked(parent)?;
        user.make_owner(&directory)?;
        let reaper = Command::new("setsid")
            .args(["/bin/sh", "-c", REAPER, "provisioning-broker-reaper"])
            .arg(&directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(lock.try_clone().with_context(cannot("share", &directory.join(LOCK)))?)
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start setsid")?;
        Ok(Self { directory, user, reaper: Mutex::new(reaper), _lock: lock })
    }

    /// The directory of this run.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until the run in this directory and its servers have ended; returns at once if it does not exist.
    pub fn wait_for_end(directory: &Path) {
        if let Ok(lock) = File::open(directory.join(LOCK)) {
            // An error of the lock also means that the run is gone.
            let _ = lock.lock_shared();
        }
    }

    /// Whether the run in this directory, or one of its servers, is alive.
    pub fn is_alive(directory: &Path) -> bool {
        directory.exists() && !is_abandoned(directory)
    }

    /// The lock file of the run in this directory; its owner holds it open.
    pub(crate) fn lock_file(directory: &Path) -> PathBuf {
        directory.join(LOCK)
    }

    /// Creates a directory that the run's servers may write to.
    pub(super) fn subdirectory(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        fs::create_dir_all(&path).with_context(cannot("create", &path))?;
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .with_context(cannot("restrict", &path))?;
        self.user.make_owner(&path)?;
        Ok(path)
    }

    /// Creates a file that only the run's servers may read.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, content).with_context(cannot("write", &path))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))
            .with_context(cannot("restrict", &path))?;
        self.user.make_owner(&path)?;
        Ok(path)
    }

    /// The user of the servers.
    pub(super) fn user(&self) -> &User {
        &self.user
    }

    /// The write end of the reaper's pipe; a new process holds it until the reaper can find it.
    pub(super) fn pipe(&self) -> io::Result<Stdio> {
        let reaper = self.reaper.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let pipe = reaper.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(pipe.as_fd().try_clone_to_owned()?.into())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let reaper = self.reaper.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // `wait` closes the pipe first; the reaper waits for that.
        let _ = reaper.wait();
    }
}

/// Creates a directory that already holds its locked lock file when it gets its final name.
fn create_locked(parent: &Path) -> Result<(PathBuf, File)> {
    let unlocked = tempfile::Builder::new()
        .prefix(PREFIX_UNLOCKED)
        .tempdir_in(parent)
        .with_context(cannot("create a directory in", parent))?;
    let path = unlocked.path().join(LOCK);
    let lock = File::create(&path).with_context(cannot("create", &path))?;
    lock.lock().with_context(cannot("lock", &path))?;
    let unlocked = unlocked.keep();
    let random =
        unlocked.file_name().map(|name| name.to_string_lossy().replace(PREFIX_UNLOCKED, ""));
    let directory = parent.join(format!("{PREFIX}{}", random.unwrap_or_default()));
    fs::rename(&unlocked, &directory).with_context(cannot("rename", &unlocked))?;
    Ok((directory, lock))
}

/// Best effort: skips directories of other users and those that another run removes concurrently.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_run = name.starts_with(PREFIX) && is_abandoned(&entry.path());
        let is_unlocked = name.starts_with(PREFIX_UNLOCKED) && is_old(&entry);
        if is_run || is_unlocked {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A run takes its lock within moments; an unlocked directory that is an hour old is a leftover.
fn is_old(entry: &DirEntry) -> bool {
    let created = entry.metadata().and_then(|metadata| metadata.modified());
    let age = created.ok().and_then(|created| created.elapsed().ok());
    age.is_some_and(|age| age > Duration::from_hours(1))
}

fn is_abandoned(directory: &Path) -> bool {
    match File::open(directory.join(LOCK)) {
        Ok(lock) => match lock.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
        },
        // A run has its lock before its name, so a directory without a lock is half removed.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_removes_leftovers_and_spares_live_runs() {
        let parent = tempfile::tempdir().unwrap();
        let live_run = Run::start_below(parent.path()).unwrap();
        let leftover = parent.path().join(format!("{PREFIX}left"));
        fs::create_dir(&leftover).unwrap();
        File::create(leftover.join(LOCK)).unwrap();
        let half_removed = parent.path().join(format!("{PREFIX}half"));
        fs::create_dir(&half_removed).unwrap();
        let other_directory = parent.path().join("of-another-program");
        fs::create_dir(&other_directory).unwrap();

        let _run = Run::start_below(parent.path()).unwrap();

        assert!(!leftover.exists());
        assert!(!half_removed.exists());
        assert!(live_run.directory().exists());
        assert!(other_directory.exists());
    }
}
