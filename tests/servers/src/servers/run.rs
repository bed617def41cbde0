//! The life of a run: one directory that holds everything its servers write, one lock that says
//! that the run is alive, and one reaper process that ends both when the run's owner is gone.
//!
//! Guarantees:
//!
//! - The reaper lives in a session of its own and waits for the end of a pipe, so it acts on
//!   success, panic, Ctrl-C and SIGKILL alike. Every process that [`super::Process::start`] makes
//!   holds the pipe until it can be found by its log, so there is none that the reaper would miss.
//! - The lock is held by the owner and, as its standard output, by the reaper: it is free only when
//!   the servers are gone. No server inherits it.
//! - A directory whose lock is free was left by a power cut; the next run removes it.

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

/// Every run's directory is called this and six random characters.
const PREFIX: &str = "provisioning-broker-run-";

/// While a run has no lock yet, its directory must not look like one that was left behind.
const PREFIX_UNLOCKED: &str = "provisioning-broker-new-";

const LOCK: &str = "lock";

const REAPER: &str = include_str!("reaper.sh");

/// A run: dropping it ends what is left of it and removes its directory.
#[derive(Debug)]
pub struct Run {
    directory: PathBuf,
    user: User,
    reaper: Mutex<Child>,
    _lock: File,
}

impl Run {
    /// Removes what power cuts left, then creates a directory below the system's temporary one,
    /// locks it and starts its reaper.
    ///
    /// # Errors
    ///
    /// When the directory, its lock or the reaper cannot be had, and for root when there is no
    /// unprivileged user.
    pub fn start() -> Result<Self> {
        Self::start_below(&std::env::temp_dir())
    }

    fn start_below(parent: &Path) -> Result<Self> {
        // Open files are compared with it, and those are known by their real names.
        let parent = &parent.canonicalize().with_context(cannot("find", parent))?;
        remove_leftovers(parent);
        let user = User::for_servers()?;
        let (directory, lock) = create_locked(parent)?;
        user.give(&directory)?;
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

    /// Where everything of this run is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until the run in this directory has ended, its servers included. At once if there is
    /// none.
    pub fn wait_for_end(directory: &Path) {
        if let Ok(lock) = File::open(directory.join(LOCK)) {
            // Whatever goes wrong with the lock, the caller's question is answered: nobody holds it
            // for us.
            let _ = lock.lock_shared();
        }
    }

    /// Whether the run in this directory, or a server of it, is still there.
    pub fn is_alive(directory: &Path) -> bool {
        directory.exists() && !is_abandoned(directory)
    }

    /// The lock of the run in this directory, which its owner holds open.
    pub(crate) fn lock_file(directory: &Path) -> PathBuf {
        directory.join(LOCK)
    }

    /// A directory of this run that its servers may write to.
    pub(super) fn subdirectory(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        fs::create_dir_all(&path).with_context(cannot("create", &path))?;
        fs::set_permissions(&path, Permissions::from_mode(0o700))
            .with_context(cannot("restrict", &path))?;
        self.user.give(&path)?;
        Ok(path)
    }

    /// A file of this run that its servers may read, and nobody else.
    pub(super) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.directory.join(name);
        fs::write(&path, content).with_context(cannot("write", &path))?;
        fs::set_permissions(&path, Permissions::from_mode(0o600))
            .with_context(cannot("restrict", &path))?;
        self.user.give(&path)?;
        Ok(path)
    }

    /// Whom the servers run as.
    pub(super) fn user(&self) -> &User {
        &self.user
    }

    /// The write end of the reaper's pipe, for a process to hold until it can be found.
    pub(super) fn pipe(&self) -> io::Result<Stdio> {
        let reaper = self.reaper.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let pipe = reaper.stdin.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(pipe.as_fd().try_clone_to_owned()?.into())
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let reaper = self.reaper.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // `wait` closes the pipe first, which is what the reaper waits for.
        let _ = reaper.wait();
    }
}

/// A new directory that already holds a locked lock when it gets the name that others look for.
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

/// Best effort: what belongs to another user, or is removed by somebody else meanwhile, is left
/// alone.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_run = name.starts_with(PREFIX) && is_abandoned(&entry.path());
        let is_beginning = name.starts_with(PREFIX_UNLOCKED) && is_old(&entry);
        if is_run || is_beginning {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A run gets its lock within moments; a directory that has waited for an hour waits for ever.
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
        // A run has its lock before it has its name, so one without was half removed.
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustix::process::Signal;

    use super::*;
    use crate::servers::{Process, Program};

    /// A process that sleeps for ever after it did what `script` says.
    fn sleeper(run: &Arc<Run>, script: &str) -> Process {
        let script = format!("{script}; echo asleep; while :; do sleep 1; done");
        let program = Program {
            name: "sleeper",
            path: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: Vec::new(),
            stop: Signal::TERM,
        };
        let mut process = Process::start(run, &program).unwrap();
        let asleep = |process: &Process| process.log().contains("asleep");
        process.wait_until_ready(Duration::from_mins(1), asleep).unwrap();
        process
    }

    fn is_alive(id: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{id}/stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn reaper_ends_what_its_owner_left_and_spares_others() {
        // A name that would be a pattern, were it taken for one.
        let parent = tempfile::Builder::new().prefix("a[b]*? \\").tempdir().unwrap();
        let run = Arc::new(Run::start_below(parent.path()).unwrap());
        let deaf = sleeper(&run, "trap '' HUP INT QUIT TERM");
        let parental = sleeper(&run, "setsid sleep 1000 & echo child $!");
        let log = parental.log();
        let child = log.split_whitespace().nth(1).unwrap().parse().unwrap();
        let paused = sleeper(&run, "true");
        paused.signal_all(Signal::STOP).unwrap();
        let processes = [deaf.id(), parental.id(), child, paused.id()];
        assert!(processes.into_iter().all(is_alive));
        let mut visitor = Command::new("sleep");
        let mut visitor = visitor.arg("1000").current_dir(run.directory()).spawn().unwrap();

        // What the death of the owner looks like to the reaper: only the pipe ends, and no code of the owner runs.
        run.reaper.lock().unwrap().wait().unwrap();

        assert!(!processes.into_iter().any(is_alive));
        assert!(!run.directory().exists());
        assert!(is_alive(visitor.id()), "a process that only looks around is spared");
        visitor.kill().unwrap();
        visitor.wait().unwrap();
    }

    #[test]
    fn a_run_removes_what_a_power_cut_left_and_spares_the_living() {
        let parent = tempfile::tempdir().unwrap();
        let living = Run::start_below(parent.path()).unwrap();
        let left = parent.path().join(format!("{PREFIX}left"));
        fs::create_dir(&left).unwrap();
        File::create(left.join(LOCK)).unwrap();
        let half_removed = parent.path().join(format!("{PREFIX}half"));
        fs::create_dir(&half_removed).unwrap();
        let foreign = parent.path().join("somebody-elses");
        fs::create_dir(&foreign).unwrap();

        let _run = Run::start_below(parent.path()).unwrap();

        assert!(!left.exists());
        assert!(!half_removed.exists());
        assert!(living.directory().exists());
        assert!(foreign.exists());
    }
}
