//! What a database says of the migrations that it has, compared with those of this release.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use time::OffsetDateTime;

use super::error::MigrateError;
use super::set::{Migration, Set};

/// A line of the record.
pub(super) struct Line {
    pub(super) version: u32,
    checksum: Vec<u8>,
    lowest_release: u32,
    steps_done: u32,
    /// `None` while steps are left.
    pub(super) applied_at: Option<OffsetDateTime>,
}

/// The migrations of this release that the database has. They are the first ones, with the same text.
pub(super) struct History {
    pub(super) known: Vec<Line>,
    /// The last version, if a later release migrated the database and allows this one.
    pub(super) newer: Option<u32>,
}

/// A migration of which steps are left, and how many are done.
pub(super) struct Left {
    pub(super) migration: &'static Migration,
    pub(super) done: usize,
}

impl History {
    /// # Errors
    ///
    /// [`MigrateError::Newer`], [`MigrateError::Changed`], [`MigrateError::Gap`].
    pub(super) fn of(set: &Set, lines: Vec<Line>) -> Result<Self, MigrateError> {
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
            let Some(migration) = set.migrations.iter().find(|known| known.version == line.version)
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
        match (history.left(set), newer) {
            (Some(left), Some(_)) => Err(MigrateError::Gap { version: left.migration.version }),
            (None, _) | (Some(_), None) => Ok(history),
        }
    }

    /// The last version all of whose steps are done; 0 if there is none.
    pub(super) fn version(&self) -> u32 {
        let mut done = self.known.iter().rev().filter(|line| line.applied_at.is_some());
        done.next().map_or(0, |line| line.version)
    }

    /// The next migration to apply, and from which of its steps on.
    pub(super) fn left(&self, set: &Set) -> Option<Left> {
        let unfinished = self.known.iter().position(|line| line.applied_at.is_none());
        let migration = set.migrations.get(unfinished.unwrap_or(self.known.len()))?;
        let done = unfinished.and_then(|at| self.known.get(at)).map_or(0, |line| line.steps_done);
        Some(Left { migration, done: usize::try_from(done).unwrap_or(usize::MAX) })
    }

    /// The next migration to take back, newest first.
    ///
    /// # Errors
    ///
    /// [`MigrateError::Newer`], and [`MigrateError::Unfinished`]: a way back begins where a way up ended.
    pub(super) fn back(
        &self,
        set: &Set,
        to: u32,
    ) -> Result<Option<&'static Migration>, MigrateError> {
        if let Some(found) = self.newer {
            return Err(MigrateError::Newer { found, known: set.last() });
        }
        let Some(last) = self.known.last() else { return Ok(None) };
        if last.applied_at.is_none() {
            return Err(MigrateError::Unfinished { version: last.version });
        }
        let migration = self.known.len().checked_sub(1).and_then(|at| set.migrations.get(at));
        Ok(migration.filter(|migration| migration.version > to))
    }
}

/// The record, in the order of the versions.
pub(super) async fn read(
    connection: &mut PgConnection,
    set: &Set,
) -> Result<Vec<Line>, sqlx::Error> {
    let sql = format!(
        "SELECT version, checksum, lowest_release, steps_done, applied_at FROM {} ORDER BY version",
        set.table
    );
    let number = |row: &PgRow, column: &str| {
        u32::try_from(row.try_get::<i32, _>(column)?)
            .map_err(|error| sqlx::Error::Decode(error.into()))
    };
    let line = |row: PgRow| {
        Ok(Line {
            version: number(&row, "version")?,
            checksum: row.try_get("checksum")?,
            lowest_release: number(&row, "lowest_release")?,
            steps_done: number(&row, "steps_done")?,
            applied_at: row.try_get("applied_at")?,
        })
    };
    sqlx::query(AssertSqlSafe(sql)).try_map(line).fetch_all(connection).await
}
