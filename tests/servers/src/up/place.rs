//! Where a checkout remembers what is up: a file in cargo's target directory, and a lock beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::failure::cannot;
use crate::servers::Run;

/// Another place, for whoever wants two in one checkout.
const VARIABLE: &str = "BROKER_UP_DIR";

/// A checkout's own place.
pub(crate) struct Place {
    directory: PathBuf,
}

/// What is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    /// The directory of its run.
    pub(crate) directory: PathBuf,
    /// The process that holds it.
    pub(crate) keeper: u32,
    /// What a shell has to know of it.
    pub(crate) exports: Vec<(String, String)>,
}

impl Place {
    pub(crate) fn of(target: &Path) -> Self {
        let chosen = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let usual = || target.join("up");
        Self { directory: chosen.map_or_else(usual, PathBuf::from) }
    }

    /// Waits until nobody else brings servers up or down here; until it is dropped, nobody else does.
    pub(crate) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.directory).with_context(cannot("create", &self.directory))?;
        let path = self.directory.join("lock");
        let lock = File::create(&path).with_context(cannot("create", &path))?;
        lock.lock().with_context(cannot("lock", &path))?;
        Ok(lock)
    }

    /// What is up; what ended by itself is not.
    pub(crate) fn standing(&self) -> Result<Option<Standing>> {
        let path = self.file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot("read", &path)),
        };
        // Written by another version of this crate: there is nothing that we could do with it.
        let standing: Standing =
            serde_json::from_str(&text).with_context(cannot("understand", &path))?;
        Ok(Some(standing).filter(|standing| Run::is_alive(&standing.directory)))
    }

    pub(super) fn remember(&self, standing: &Standing) -> Result<()> {
        let path = self.file();
        fs::write(&path, serde_json::to_string_pretty(standing)?)
            .with_context(cannot("write", &path))
    }

    pub(crate) fn forget(&self) -> Result<()> {
        let path = self.file();
        fs::remove_file(&path).with_context(cannot("remove", &path))
    }

    fn file(&self) -> PathBuf {
        self.directory.join("standing.json")
    }
}

impl Standing {
    /// Whether the process of that number is still the keeper: it alone holds the run's lock open, beside the
    /// reaper.
    pub(crate) fn has_its_keeper(&self) -> bool {
        let lock = Run::lock_file(&self.directory);
        let files = fs::read_dir(format!("/proc/{}/fd", self.keeper)).into_iter().flatten();
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == lock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let directory = tempfile::tempdir().unwrap();
        let place = Place { directory: directory.path().join("up") };
        (directory, place)
    }

    #[test]
    fn what_is_alive_stands_and_what_ended_does_not() {
        let (_directory, place) = place();
        let _lock = place.lock().unwrap();
        assert_eq!(place.standing().unwrap(), None, "nothing was ever up");

        let run = Run::start().unwrap();
        let exports = vec![("NAME".to_owned(), "value".to_owned())];
        let directory = run.directory().to_owned();
        let standing = Standing { directory, keeper: std::process::id(), exports };
        place.remember(&standing).unwrap();
        assert_eq!(place.standing().unwrap().as_ref(), Some(&standing));
        assert!(standing.has_its_keeper());
        assert!(!Standing { keeper: 1, ..standing.clone() }.has_its_keeper(), "somebody else");

        drop(run);
        assert_eq!(place.standing().unwrap(), None, "its run has ended");
        place.forget().unwrap();
    }

    #[test]
    fn what_cannot_be_understood_is_said_by_name() {
        let (_directory, place) = place();
        let _lock = place.lock().unwrap();
        fs::write(place.file(), "{").unwrap();
        let told = crate::one_line(&*place.standing().unwrap_err());
        let start = format!("cannot understand {}: ", place.file().display());
        assert!(told.starts_with(&start), "{told}");
    }
}
