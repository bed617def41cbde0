//! Where a checkout remembers what is up: a file in cargo's target directory, and a lock beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::cache::lock_file;
use crate::failure::cannot;
use crate::servers::Run;

/// Another place, for whoever wants two in one checkout.
const VARIABLE: &str = "BROKER_UP_DIR";

/// A checkout's own place.
pub(super) struct Place {
    directory: PathBuf,
}

/// What is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningServers {
    /// The directory of its run.
    pub(super) directory: PathBuf,
    /// The process that holds it.
    pub(super) keeper: u32,
    /// What a shell has to know of it.
    pub(super) exports: Vec<(String, String)>,
}

impl Place {
    pub(super) fn of(target: &Path) -> Self {
        let chosen = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let usual = || target.join("up");
        Self { directory: chosen.map_or_else(usual, PathBuf::from) }
    }

    /// Waits until nobody else brings servers up or down here; until it is dropped, nobody else does.
    pub(super) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.directory).with_context(cannot("create", &self.directory))?;
        let waiting = "waiting for another `up` or `down` of this checkout";
        lock_file(&self.directory.join("lock"), waiting)
    }

    /// What is up; what ended by itself is not.
    pub(super) fn standing(&self) -> Result<Option<RunningServers>> {
        let path = self.file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot("read", &path)),
        };
        // Written by another version of this crate: there is nothing that we could do with it.
        let standing: RunningServers =
            serde_json::from_str(&text).with_context(cannot("understand", &path))?;
        Ok(Some(standing).filter(|standing| Run::is_alive(&standing.directory)))
    }

    pub(super) fn remember(&self, standing: &RunningServers) -> Result<()> {
        let path = self.file();
        fs::write(&path, serde_json::to_string_pretty(standing)?)
            .with_context(cannot("write", &path))
    }

    pub(super) fn forget(&self) -> Result<()> {
        let path = self.file();
        fs::remove_file(&path).with_context(cannot("remove", &path))
    }

    fn file(&self) -> PathBuf {
        self.directory.join("standing.json")
    }
}

impl RunningServers {
    /// Whether the process of that number is still the keeper: it alone holds the run's lock open, beside the
    /// reaper.
    pub(super) fn has_its_keeper(&self) -> bool {
        let lock = Run::lock_file(&self.directory);
        let files = fs::read_dir(format!("/proc/{}/fd", self.keeper)).into_iter().flatten();
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == lock))
    }
}
