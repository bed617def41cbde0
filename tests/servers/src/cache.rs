//! The cache of server binaries: outside the checkout, keyed by version, never half written.
//!
//! An artifact is a directory that appears by a rename, when it is complete. Who makes one holds a
//! lock on a file beside it: two runs at once build it once, and whatever a killed run left behind
//! belongs to nobody as soon as the lock is free.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::progress::step;
use crate::tools::{SetupError, others_can_run};

/// Anybody may read and run what is in here: root starts its servers as another user.
const OPEN: u32 = 0o755;

/// The directory that holds the artifacts.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `BROKER_CACHE_DIR`, or the place where caches of this user belong.
    pub(crate) fn from_environment() -> Result<Self, SetupError> {
        let variable =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = place(geteuid().is_root(), variable).ok_or(SetupError::NoCacheDir)?;
        // A child process may stand in another directory.
        let root = std::path::absolute(&root).map_err(io("resolve", &root))?;
        Ok(Self::at(root))
    }

    pub(crate) fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where the artifact stands, if it was ever made.
    pub(crate) fn artifact(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// An empty file for the output of the commands that make the artifact.
    pub(crate) fn log(&self, key: &str) -> Result<PathBuf, SetupError> {
        let logs = self.root.join("logs");
        create_open_directory(&logs)?;
        let log = logs.join(format!("{key}.log"));
        File::create(&log).map_err(io("create", &log))?;
        Ok(log)
    }

    /// The artifact `key`, made by `make` in an empty directory unless `is_complete` likes what is
    /// there.
    ///
    /// `make` runs at most once at a time on this machine; the others wait and find its result.
    pub(crate) fn provide(
        &self,
        key: &str,
        progress: &dyn Fn(&str),
        is_complete: impl Fn(&Path) -> bool,
        make: impl FnOnce(&Path) -> Result<(), SetupError>,
    ) -> Result<PathBuf, SetupError> {
        let artifact = self.artifact(key);
        if is_complete(&artifact) {
            return Ok(artifact);
        }
        create_open_directory(&self.root)?;
        if geteuid().is_root() && !others_can_run(&self.root) {
            // Learnt now rather than after minutes of building.
            return Err(SetupError::OutOfReach { path: self.root.clone() });
        }
        let _lock = self.lock(key, progress)?;
        if is_complete(&artifact) {
            return Ok(artifact);
        }
        self.remove_leftovers(key)?;
        // The process id keeps a build that outlived its killed parent from writing into ours.
        let partial = self.root.join(format!("{}{}", partial_prefix(key), std::process::id()));
        create_open_directory(&partial)?;
        make(&partial).inspect_err(|_| drop(fs::remove_dir_all(&partial)))?;
        flush(&partial)?;
        if artifact.exists() {
            fs::remove_dir_all(&artifact).map_err(io("remove", &artifact))?;
        }
        fs::rename(&partial, &artifact).map_err(io("rename", &partial))?;
        Ok(artifact)
    }

    /// Holds until the file is dropped. The file itself stays: removing it would let a third run
    /// lock a name that a second one still waits on.
    fn lock(&self, key: &str, progress: &dyn Fn(&str)) -> Result<File, SetupError> {
        let path = self.root.join(format!("{key}.lock"));
        let file = File::create(&path).map_err(io("create", &path))?;
        step(progress, &format!("waiting for another run that makes {key}"), || file.lock())
            .map_err(io("lock", &path))?;
        Ok(file)
    }

    /// Only under the lock: what is there now was left by a run that was killed.
    fn remove_leftovers(&self, key: &str) -> Result<(), SetupError> {
        let prefix = partial_prefix(key);
        for entry in fs::read_dir(&self.root).map_err(io("read", &self.root))? {
            let path = entry.map_err(io("read", &self.root))?.path();
            let is_leftover = path
                .file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with(&prefix));
            if is_leftover {
                fs::remove_dir_all(&path).map_err(io("remove", &path))?;
            }
        }
        Ok(())
    }
}

fn partial_prefix(key: &str) -> String {
    format!("{key}.partial-")
}

/// Root's own cache would be under its home, which nobody else may enter.
fn place(is_root: bool, variable: impl Fn(&'static str) -> Option<PathBuf>) -> Option<PathBuf> {
    const NAME: &str = "provisioning-broker";

    variable("BROKER_CACHE_DIR")
        .or_else(|| is_root.then(|| Path::new("/var/cache").join(NAME)))
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join(NAME)))
        .or_else(|| Some(variable("HOME")?.join(".cache").join(NAME)))
}

/// Creates the directory with the mode that the umask may have taken away.
pub(crate) fn create_open_directory(path: &Path) -> Result<(), SetupError> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(io("create", path))?;
    open_to_all(path)
}

/// Lets every user read and run the file, or enter the directory.
pub(crate) fn open_to_all(path: &Path) -> Result<(), SetupError> {
    fs::set_permissions(path, Permissions::from_mode(OPEN)).map_err(io("open to all users", path))
}

/// Brings the files to the disk before the rename does, so that a power cut leaves no empty ones.
fn flush(directory: &Path) -> Result<(), SetupError> {
    for entry in fs::read_dir(directory).map_err(io("read", directory))? {
        let entry = entry.map_err(io("read", directory))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(io("read", &path))?;
        if kind.is_dir() {
            flush(&path)?;
        } else if kind.is_file() {
            File::open(&path).and_then(|file| file.sync_all()).map_err(io("flush", &path))?;
        }
    }
    Ok(())
}

/// Turns a failed system call into an error that names its object.
pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> SetupError {
    let path = path.to_owned();
    move |source| SetupError::Io { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const KEY: &str = "thing-1.0";

    fn complete(artifact: &Path) -> bool {
        artifact.join("thing").is_file()
    }

    fn make(directory: &Path) -> Result<(), SetupError> {
        let thing = directory.join("thing");
        fs::write(&thing, "made").map_err(io("write", &thing))
    }

    fn silent(_: &str) {}

    /// Temporary directories are closed to others, and root's cache may not be.
    fn open_directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        open_to_all(directory.path()).unwrap();
        directory
    }

    #[test]
    fn the_place_of_the_cache() {
        let set = |names: &'static [&'static str]| {
            move |name: &'static str| {
                names.contains(&name).then(|| PathBuf::from(format!("/{name}")))
            }
        };
        let table: [(&str, bool, &'static [&'static str], Option<&str>); 5] = [
            (
                "what was asked for wins",
                true,
                &["BROKER_CACHE_DIR", "HOME"],
                Some("/BROKER_CACHE_DIR"),
            ),
            (
                "root's home is closed",
                true,
                &["XDG_CACHE_HOME"],
                Some("/var/cache/provisioning-broker"),
            ),
            (
                "the convention",
                false,
                &["XDG_CACHE_HOME", "HOME"],
                Some("/XDG_CACHE_HOME/provisioning-broker"),
            ),
            ("its default", false, &["HOME"], Some("/HOME/.cache/provisioning-broker")),
            ("nowhere", false, &[], None),
        ];
        for (why, is_root, variables, expected) in table {
            assert_eq!(place(is_root, set(variables)), expected.map(PathBuf::from), "{why}");
        }
    }

    #[test]
    fn what_is_complete_is_not_made_again() {
        let directory = open_directory();
        let cache = Cache::at(directory.path().join("cache"));
        let made = Cell::new(0);
        for _ in 0..2 {
            let artifact = cache
                .provide(KEY, &silent, complete, |partial| {
                    made.set(made.get() + 1);
                    make(partial)
                })
                .unwrap();
            assert_eq!(fs::read_to_string(artifact.join("thing")).unwrap(), "made");
        }
        assert_eq!(made.get(), 1);
    }

    #[test]
    fn a_failed_build_leaves_no_artifact() {
        let directory = open_directory();
        let cache = Cache::at(directory.path().to_owned());
        let failed = cache.provide(KEY, &silent, complete, |partial| {
            make(partial)?;
            Err(SetupError::NoCacheDir)
        });
        assert!(matches!(failed, Err(SetupError::NoCacheDir)));
        let names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, [OsStr::new("thing-1.0.lock")]);
    }

    #[test]
    fn what_a_killed_run_left_is_removed() {
        let directory = open_directory();
        let cache = Cache::at(directory.path().to_owned());
        let leftover = directory.path().join("thing-1.0.partial-1");
        fs::create_dir(&leftover).unwrap();
        fs::write(leftover.join("thing"), "half").unwrap();
        let incomplete = cache.artifact(KEY);
        fs::create_dir(&incomplete).unwrap();
        fs::write(incomplete.join("stale"), "").unwrap();

        let artifact = cache.provide(KEY, &silent, complete, make).unwrap();

        assert!(!leftover.exists());
        assert!(!artifact.join("stale").exists());
        assert_eq!(fs::read_to_string(artifact.join("thing")).unwrap(), "made");
    }

    #[test]
    fn runs_at_once_make_it_once() {
        let directory = open_directory();
        let cache = Cache::at(directory.path().to_owned());
        let made = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let artifact = cache
                        .provide(KEY, &silent, complete, |partial| {
                            made.fetch_add(1, Ordering::SeqCst);
                            make(partial)
                        })
                        .unwrap();
                    assert!(complete(&artifact));
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn everybody_may_enter_and_run() {
        let directory = open_directory();
        let cache = Cache::at(directory.path().join("cache"));
        let artifact = cache.provide(KEY, &silent, complete, make).unwrap();
        for path in [cache.artifact(""), artifact] {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, OPEN);
        }
    }
}
