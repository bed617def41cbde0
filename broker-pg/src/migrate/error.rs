//! Why a schema cannot be used, or not be changed: one line each, with what to do.

use broker_ports::PortError;

use super::lock::StepError;
use super::set::Migration;
use crate::error::{Lost, classify};

/// A schema that is not what it should be, or that could not be made so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The tables of the platform that the broker's tables refer to are missing. Nothing was changed.
    #[error(
        "the database has no {tables}, which the broker's tables refer to: run the platform's own migrations first, or \
         make minimal ones (`migrate up --reference`, in Rust `migrate::reference_up`)"
    )]
    NoReferences {
        /// The names of the missing tables.
        tables: String,
    },
    /// The schema was never made.
    #[error(
        "the database holds no schema of the broker; this release needs version {needed}: migrate up"
    )]
    Missing {
        /// The version that the code needs.
        needed: u32,
    },
    /// The schema is of an earlier release.
    #[error("the schema has version {found} and this release needs {needed}: migrate up")]
    Older {
        /// The version in the database.
        found: u32,
        /// The version that the code needs.
        needed: u32,
    },
    /// The schema is of a later release that does not allow this one, or this release was asked to take it back.
    #[error(
        "the schema has version {found} and this release knows up to {known}: run a later release"
    )]
    Newer {
        /// The version in the database.
        found: u32,
        /// The last version that the code knows.
        known: u32,
    },
    /// A migration was applied with another text than this release has.
    #[error(
        "migration {version} was applied as another text than this release holds; restore the one that was applied"
    )]
    Changed {
        /// Which one.
        version: u32,
    },
    /// A later migration is applied and this one is not.
    #[error("migration {version} is not applied although a later one is")]
    Gap {
        /// Which one.
        version: u32,
    },
    /// Steps of a migration are left.
    #[error("migration {version} is applied in part: migrate up")]
    Unfinished {
        /// Which one.
        version: u32,
    },
    /// Another process migrates, for longer than this one waits.
    #[error("the database is being migrated by {holder}; try again when it is done")]
    Busy {
        /// The server process and, if visible, what it runs.
        holder: String,
    },
    /// A step waited too long for a lock. Nothing of the step stays; the steps before it do.
    #[error("migration {version} ({name}) waited too long for {lock}; try again when it is free")]
    Locked {
        /// Which one.
        version: u32,
        /// Its name.
        name: &'static str,
        /// The lock, and the server process that held it with what is visible of it.
        lock: String,
    },
    /// A step was refused. Nothing of the step stays; the steps before it do.
    #[error("migration {version} ({name}) was refused")]
    Failed {
        /// Which one.
        version: u32,
        /// Its name.
        name: &'static str,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// The database could not be asked.
    #[error("the migrations of the database cannot be read or written")]
    Database(#[source] PortError),
}

impl Migration {
    /// A step of this migration did not happen.
    pub(super) fn failed(&self, error: StepError) -> MigrateError {
        let Self { version, name, .. } = *self;
        match error {
            StepError::Locked(lock) => MigrateError::Locked { version, name, lock },
            StepError::Refused(source) => MigrateError::Failed { version, name, source },
        }
    }
}

/// What was not answered may have happened. The next run reads from the record what is done, and repeating a step that
/// was not recorded is harmless.
impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(classify(error, Lost::Harmless))
    }
}
