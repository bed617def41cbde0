//! The description of the shared servers, which a test process reads.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::failure::cannot;

use super::{control_plane::ControlPlaneAccess, postgres::PostgresAccess, run::Run};

/// The environment variable with the directory of the run.
pub const SERVERS_VARIABLE: &str = "BROKER_TEST_SERVERS";

const FILE: &str = "servers.json";

/// The addresses of a run's servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The database.
    pub postgres: PostgresAccess,
    /// The Kubernetes API.
    pub control_plane: ControlPlaneAccess,
}

impl Description {
    /// Reads the description of the run in `directory`.
    ///
    /// # Errors
    ///
    /// The run does not exist, or another version of this crate started it.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(FILE);
        let text = fs::read_to_string(&path).with_context(cannot("read", &path))?;
        serde_json::from_str(&text).with_context(cannot("parse", &path))
    }

    pub(super) fn write(&self, run: &Run) -> Result<()> {
        run.write(FILE, &serde_json::to_string_pretty(self)?).map(drop)
    }
}
