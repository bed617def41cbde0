//! The migration record of a database, checked against the migrations of this release.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use time::OffsetDateTime;

use super::error::MigrateError;
use super::set::{Migration, MigrationSet};

pub(super) struct RecordLine {
    pub(super) version: u32,
    checksum: Vec<u8>,
    lowest_release: u32,
    steps_done: u32,
    /// `None` while steps are unfinished.
    pub(super) applied_at: Option<OffsetDateTime>,
}

/// The applied migrations of this release: a prefix of the set, with matching checksums.
pub(super) struct History {
    pub(super) known: Vec<RecordLine>,
    /// The last version, if a later release migrated the database and allows this one.
    pub(super) newer: Option<u32>,
}

/// An unfinished migration, and the number of its finished steps.
pub(super) struct PendingMigration {
    pub(super) migration: &'static Migration,
    pub(super) steps_done: usize,
}

impl History {
    /// Checks the record against the set.
    ///
    /// # Errors
    ///
    /// [`MigrateError::Newer`], [`MigrateError::Changed`], [`MigrateError::Gap`].
    pub(super) fn check(set: &MigrationSet, lines: Vec<RecordLine>) -> Result<Self, MigrateError> {
        let known = set.last();
        let (lines, later): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line.version <= known);
        let newer = later.last().map(|line| line.version);
        if let Some(found) = newer
            && later.iter().any(|line| line.lowest_release > known)
        {
            return Err(MigrateError::Newer { found, known });
        }
        for (position, line) in lines.iter().enumerate() {
            let Some(migration) =
                set.migrations.iter().find(|migration| migration.version == line.version)
            else {
                return Err(MigrateError::Changed { version: line.version });
            };
            if migration.checksum()[..] != line.checksum {
                return Err(MigrateError::Changed { version: line.version });
            }
            if let Some(expected) = set.migrations.get(position)
                && expected.version != line.version
            {
                return Err(MigrateError::Gap { version: expected.version });
            }
        }
        let history = Self { known: lines, newer };
        match (history.pending(set), newer) {
            (Some(pending), Some(_)) => {
                Err(MigrateError::Gap { version: pending.migration.version })
            }
            (None, _) | (Some(_), None) => Ok(history),
        }
    }

    /// The last fully applied version; 0 if there is none.
    pub(super) fn version(&self) -> u32 {
        let mut applied = self.known.iter().rev().filter(|line| line.applied_at.is_some());
        applied.next().map_or(0, |line| line.version)
    }

    /// The next migration to apply, and its first unfinished step.
    pub(super) fn pending(&self, set: &MigrationSet) -> Option<PendingMigration> {
        let unfinished = self.known.iter().position(|line| line.applied_at.is_none());
        let migration = set.migrations.get(unfinished.unwrap_or(self.known.len()))?;
        let steps_done =
            unfinished.and_then(|index| self.known.get(index)).map_or(0, |line| line.steps_done);
        Some(PendingMigration {
            migration,
            steps_done: usize::try_from(steps_done).unwrap_or(usize::MAX),
        })
    }

    /// The next migration to revert, newest first.
    ///
    /// # Errors
    ///
    /// [`MigrateError::Newer`], and [`MigrateError::Unfinished`]: a revert needs a finished migration.
    pub(super) fn next_to_revert(
        &self,
        set: &MigrationSet,
        to: u32,
    ) -> Result<Option<&'static Migration>, MigrateError> {
        if let Some(found) = self.newer {
            return Err(MigrateError::Newer { found, known: set.last() });
        }
        let Some(last) = self.known.last() else { return Ok(None) };
        if last.applied_at.is_none() {
            return Err(MigrateError::Unfinished { version: last.version });
        }
        let migration = self.known.len().checked_sub(1).and_then(|index| set.migrations.get(index));
        Ok(migration.filter(|migration| migration.version > to))
    }
}

pub(super) async fn read_record_lines(
    connection: &mut PgConnection,
    set: &MigrationSet,
) -> Result<Vec<RecordLine>, sqlx::Error> {
    let sql = format!(
        "SELECT version, checksum, lowest_release, steps_done, applied_at FROM {} ORDER BY version",
        set.table
    );
    let number = |row: &PgRow, column: &str| {
        u32::try_from(row.try_get::<i32, _>(column)?)
            .map_err(|error| sqlx::Error::Decode(error.into()))
    };
    let line = |row: PgRow| {
        Ok(RecordLine {
            version: number(&row, "version")?,
            checksum: row.try_get("checksum")?,
            lowest_release: number(&row, "lowest_release")?,
            steps_done: number(&row, "steps_done")?,
            applied_at: row.try_get("applied_at")?,
        })
    };
    sqlx::query(AssertSqlSafe(sql)).try_map(line).fetch_all(connection).await
}
