//! The cache of server binaries: outside the checkout, keyed by version, never half written.
//!
//! An artifact is a directory that appears by a rename, when it is complete. Who makes one holds a
//! lock on a file beside it: two runs at once build it once, and whatever a killed run left behind
//! belongs to nobody as soon as the lock is free.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::process::geteuid;

use crate::failure::cannot;
use crate::progress::step;
use crate::tools::check_others_can_run;

/// Anybody may read and run what is in here: root starts its servers as another user.
const OPEN: u32 = 0o755;

/// The directory that holds the artifacts.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `BROKER_CACHE_DIR`, or the place where caches of this user belong.
    pub(crate) fn from_environment() -> Result<Self> {
        let variable =
            |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = place(geteuid().is_root(), variable)
            .context("no place for the cache: set BROKER_CACHE_DIR, XDG_CACHE_HOME or HOME")?;
        // A child process may stand in another directory.
        let root = std::path::absolute(&root).with_context(cannot("resolve", &root))?;
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
    pub(crate) fn log(&self, key: &str) -> Result<PathBuf> {
        let logs = self.root.join("logs");
        create_open_directory(&logs)?;
        let log = logs.join(format!("{key}.log"));
        File::create(&log).with_context(cannot("create", &log))?;
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
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let artifact = self.artifact(key);
        if is_complete(&artifact) {
            return Ok(artifact);
        }
        create_open_directory(&self.root)?;
        // Learnt now rather than after minutes of building.
        check_others_can_run(&self.root)?;
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
            fs::remove_dir_all(&artifact).with_context(cannot("remove", &artifact))?;
        }
        fs::rename(&partial, &artifact).with_context(cannot("rename", &partial))?;
        Ok(artifact)
    }

    /// Holds until the file is dropped. The file itself stays: removing it would let a third run
    /// lock a name that a second one still waits on.
    fn lock(&self, key: &str, progress: &dyn Fn(&str)) -> Result<File> {
        let path = self.root.join(format!("{key}.lock"));
        let file = File::create(&path).with_context(cannot("create", &path))?;
        step(progress, &format!("waiting for another run that makes {key}"), || file.lock())
            .with_context(cannot("lock", &path))?;
        Ok(file)
    }

    /// Only under the lock: what is there now was left by a run that was killed.
    fn remove_leftovers(&self, key: &str) -> Result<()> {
        let prefix = partial_prefix(key);
        for entry in fs::read_dir(&self.root).with_context(cannot("read", &self.root))? {
            let path = entry.with_context(cannot("read", &self.root))?.path();
            let is_leftover = path
                .file_name()
                .and_then(OsStr::to_str)
                .is_some_and(|name| name.starts_with(&prefix));
            if is_leftover {
                fs::remove_dir_all(&path).with_context(cannot("remove", &path))?;
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
pub(crate) fn create_open_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(path).with_context(cannot("create", path))?;
    open_to_all(path)
}

/// Lets every user read and run the file, or enter the directory.
pub(crate) fn open_to_all(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(OPEN))
        .with_context(cannot("open to all users", path))
}

/// Brings the files to the disk before the rename does, so that a power cut leaves no empty ones.
fn flush(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory).with_context(cannot("read", directory))? {
        let entry = entry.with_context(cannot("read", directory))?;
        let path = entry.path();
        let kind = entry.file_type().with_context(cannot("read", &path))?;
        if kind.is_dir() {
            flush(&path)?;
        } else if kind.is_file() {
            File::open(&path)
                .and_then(|file| file.sync_all())
                .with_context(cannot("flush", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    const KEY: &str = "thing-1.0";

    fn complete(artifact: &Path) -> bool {
        artifact.join("thing").is_file()
    }

    /// Temporary directories are closed to others, and root's cache may not be.
    fn cache() -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        open_to_all(directory.path()).unwrap();
        let cache = Cache::at(directory.path().join("cache"));
        (directory, cache)
    }

    #[test]
    fn place_follows_the_environment_and_the_user() {
        let table: [(&str, bool, &[&str], Option<&str>); 5] = [
            ("a request wins", true, &["BROKER_CACHE_DIR", "HOME"], Some("/BROKER_CACHE_DIR")),
            ("root's home is closed", true, &["XDG_CACHE_HOME"], Some("/var/cache/")),
            ("the convention", false, &["XDG_CACHE_HOME", "HOME"], Some("/XDG_CACHE_HOME/")),
            ("its default", false, &["HOME"], Some("/HOME/.cache/")),
            ("nowhere", false, &[], None),
        ];
        for (why, is_root, set, expected) in table {
            let variable = |name| set.contains(&name).then(|| PathBuf::from(format!("/{name}")));
            let named = |place: &str| match place.strip_suffix('/') {
                Some(parent) => Path::new(parent).join("provisioning-broker"),
                None => PathBuf::from(place),
            };
            assert_eq!(place(is_root, variable), expected.map(named), "{why}");
        }
    }

    #[test]
    fn artifact_is_made_once_by_concurrent_runs_and_open_to_all_users() {
        let (_directory, cache) = cache();
        let count = AtomicUsize::new(0);
        let make = |partial: &Path| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(fs::write(partial.join("thing"), "made")?)
        };
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    assert!(complete(&cache.provide(KEY, &|_| {}, complete, make).unwrap()));
                });
            }
        });
        assert_eq!(count.load(Ordering::SeqCst), 1);
        for path in [cache.artifact(""), cache.artifact(KEY)] {
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, OPEN);
        }
    }

    #[test]
    fn failed_or_killed_build_leaves_nothing_to_the_next() {
        let (_directory, cache) = cache();
        let failed = cache.provide(KEY, &|_| {}, complete, |partial| {
            fs::write(partial.join("thing"), "half")?;
            anyhow::bail!("no compiler")
        });
        assert_eq!(failed.unwrap_err().to_string(), "no compiler");
        let names = fs::read_dir(cache.artifact("")).unwrap().map(|it| it.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["thing-1.0.lock"]);

        let leftover = cache.artifact("thing-1.0.partial-1");
        for (directory, file) in [(&leftover, "thing"), (&cache.artifact(KEY), "stale")] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join(file), "half").unwrap();
        }
        let make = |partial: &Path| Ok(fs::write(partial.join("thing"), "made")?);
        let artifact = cache.provide(KEY, &|_| {}, complete, make).unwrap();
        assert!(!leftover.exists() && !artifact.join("stale").exists());
        assert_eq!(fs::read_to_string(artifact.join("thing")).unwrap(), "made");
    }
}
