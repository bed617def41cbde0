//! A checkout's record of its running servers: a file in cargo's target directory, with a lock.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::cache::lock_file;
use crate::failure::cannot;
use crate::servers::Run;

/// The environment variable that selects another directory, for a second set of servers in one checkout.
const VARIABLE: &str = "BROKER_UP_DIR";

/// The directory that holds the record and its lock.
pub(super) struct RecordDirectory {
    directory: PathBuf,
}

/// The content of the record: one run of servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningServers {
    /// The directory of their run.
    pub(super) directory: PathBuf,
    /// The process id of the [keeper](super::keeper), which owns the run.
    pub(super) keeper: u32,
    /// Whether Crossplane runs with them.
    pub(super) crossplane: bool,
    /// Names and values of the environment variables that `up` prints.
    pub(super) exports: Vec<(String, String)>,
}

impl RecordDirectory {
    pub(super) fn in_target(target: &Path) -> Self {
        let configured = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        let default = || target.join("up");
        Self { directory: configured.map_or_else(default, PathBuf::from) }
    }

    /// Excludes other `up` and `down` calls of this checkout until the file is dropped.
    pub(super) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.directory).with_context(cannot("create", &self.directory))?;
        let waiting = "waiting for another `up` or `down` of this checkout";
        lock_file(&self.directory.join("lock"), waiting)
    }

    /// The running servers; `None` if they have stopped.
    pub(super) fn running(&self) -> Result<Option<RunningServers>> {
        let path = self.file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(cannot("read", &path)),
        };
        // A record of another version of this crate may not parse.
        let servers: RunningServers =
            serde_json::from_str(&text).with_context(cannot("parse", &path))?;
        Ok(Some(servers).filter(|servers| Run::is_alive(&servers.directory)))
    }

    pub(super) fn save(&self, servers: &RunningServers) -> Result<()> {
        let path = self.file();
        fs::write(&path, serde_json::to_string_pretty(servers)?)
            .with_context(cannot("write", &path))
    }

    pub(super) fn delete(&self) -> Result<()> {
        let path = self.file();
        fs::remove_file(&path).with_context(cannot("remove", &path))
    }

    fn file(&self) -> PathBuf {
        self.directory.join("servers.json")
    }
}

impl RunningServers {
    /// Whether the keeper's process id still belongs to the keeper, not to a later process. The keeper holds the run's
    /// lock open; of all other processes, only the reaper does.
    pub(super) fn keeper_is_alive(&self) -> bool {
        let lock = Run::lock_file(&self.directory);
        let files = fs::read_dir(format!("/proc/{}/fd", self.keeper)).into_iter().flatten();
        files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == lock))
    }
}
