//! Why a schema cannot be used, or not be changed: one line each, with what to do.

use broker_ports::PortError;

use crate::error::{Lost, classify};

/// A schema that is not what it should be, or that could not be made so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
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
    /// The schema is of a later release.
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
    /// A migration was refused. Nothing of it stays.
    #[error("migration {version} ({name}) was refused and taken back")]
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

/// Every statement of a migration lies in a transaction, so what was not answered did not happen; but for the
/// commit, of which the next run sees what became.
impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(classify(error, Lost::Harmless))
    }
}
