//! Why a schema cannot be used or changed. Each message is one line that says what to do.

use broker_domain::ErrorKind;
use broker_ports::PortError;

use super::lock::StepError;
use super::set::Migration;
use crate::error::{LostResponse, classify};

/// A schema that does not fit, or a failed migration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// Platform tables that the broker's tables refer to are missing. Nothing was changed.
    #[error(
        "the database has no {tables}, which the broker's tables refer to: run the platform's own migrations first, or \
         create minimal ones (`migrate up --reference`, in Rust `migrate::reference_up`)"
    )]
    NoReferences {
        /// The names of the missing tables.
        tables: String,
    },
    /// The database has no broker schema.
    #[error(
        "the database holds no schema of the broker; this release needs version {needed}: migrate up"
    )]
    Missing {
        /// The version that the code needs.
        needed: u32,
    },
    /// The schema belongs to an earlier release.
    #[error("the schema has version {found} and this release needs {needed}: migrate up")]
    Older {
        /// The version in the database.
        found: u32,
        /// The version that the code needs.
        needed: u32,
    },
    /// The schema belongs to a later release that does not allow this one, or this release was asked to revert it.
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
        "migration {version} was applied with another text than this release has; restore the applied text"
    )]
    Changed {
        /// The changed migration.
        version: u32,
    },
    /// A later migration is applied and this one is not.
    #[error("migration {version} is not applied although a later one is")]
    Gap {
        /// The missing migration.
        version: u32,
    },
    /// A migration has unfinished steps.
    #[error("migration {version} is applied in part: migrate up")]
    Unfinished {
        /// The unfinished migration.
        version: u32,
    },
    /// Another process holds the migration lock for too long.
    #[error("the database is being migrated by {holder}; try again when it is done")]
    Busy {
        /// The server process and, if visible, its activity.
        holder: String,
    },
    /// A step timed out waiting for a lock. The step is rolled back; earlier steps stay.
    #[error("migration {version} ({name}) waited too long for {lock}; try again when it is free")]
    Locked {
        /// The migration of the step.
        version: u32,
        /// The name of the migration.
        name: &'static str,
        /// The lock, and the server process that held it with its visible activity.
        lock: String,
    },
    /// The database refused a step. The step is rolled back; earlier steps stay.
    #[error("migration {version} ({name}) was refused")]
    Failed {
        /// The migration of the step.
        version: u32,
        /// The name of the migration.
        name: &'static str,
        /// The database error.
        #[source]
        source: sqlx::Error,
    },
    /// A statement on the record failed.
    #[error("the migration record cannot be read or written")]
    Database(#[source] PortError),
}

impl MigrateError {
    /// The kind. A retry without a change helps only if it is [`ErrorKind::Unavailable`].
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Busy { .. } | Self::Locked { .. } => ErrorKind::Unavailable,
            Self::Database(error) => error.class().kind(),
            Self::Failed { .. } => ErrorKind::Internal,
            Self::NoReferences { .. }
            | Self::Missing { .. }
            | Self::Older { .. }
            | Self::Newer { .. }
            | Self::Changed { .. }
            | Self::Gap { .. }
            | Self::Unfinished { .. } => ErrorKind::Conflict,
        }
    }
}

impl Migration {
    pub(super) fn step_failure(&self, error: StepError) -> MigrateError {
        let Self { version, name, .. } = *self;
        match error {
            StepError::Locked(lock) => MigrateError::Locked { version, name, lock },
            StepError::Refused(source) => MigrateError::Failed { version, name, source },
        }
    }
}

/// A lost response is harmless: the next run reads the finished steps from the record, and every unrecorded step may
/// run again.
impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(classify(error, LostResponse::Harmless))
    }
}
