//! The migration sets of this release, in order.

use sha2::{Digest, Sha256};
use time::OffsetDateTime;

/// One migration of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// Its number, ascending within a set.
    pub version: u32,
    /// Its name.
    pub name: &'static str,
    /// The script that applies it.
    pub up: &'static str,
    /// The script that reverts it. Its first lines state what the revert loses.
    pub down: &'static str,
    /// The oldest release that may run on the schema once this migration has started. A release is identified by its
    /// last migration. The database stores the number, so that an older release without this migration can read it.
    pub lowest_release: u32,
}

/// The state of a migration in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationStatus {
    /// Its number.
    pub version: u32,
    /// Its name.
    pub name: &'static str,
    /// When it was applied, by the database's clock; `None` if it is not applied.
    pub applied_at: Option<OffsetDateTime>,
}

macro_rules! migration {
    ($directory:literal, $version:literal, $number:literal, $name:literal, from $lowest:literal) => {
        Migration {
            version: $version,
            name: $name,
            lowest_release: $lowest,
            up: include_str!(concat!("../../", $directory, "/", $number, "_", $name, ".up.sql")),
            down: include_str!(concat!(
                "../../",
                $directory,
                "/",
                $number,
                "_",
                $name,
                ".down.sql"
            )),
        }
    };
}

/// The broker's own migrations, in order.
pub const MIGRATIONS: &[Migration] = &[
    migration!("migrations", 26, "0026", "provisioning_broker", from 26),
    migration!("migrations", 27, "0027", "provisioning_broker_deletion", from 27),
    migration!("migrations", 28, "0028", "provisioning_broker_aggregate", from 27),
    migration!("migrations", 29, "0029", "provisioning_broker_schedule", from 27),
    migration!("migrations", 30, "0030", "provisioning_broker_outbox", from 27),
];

/// The minimal platform tables.
pub const REFERENCE: &[Migration] = &[migration!("reference", 1, "0001", "platform", from 1)];

/// Migrations with a separate record.
pub(super) struct MigrationSet {
    /// The record table, in the schema `plexsphere`.
    pub(super) table: &'static str,
    pub(super) migrations: &'static [Migration],
    /// Foreign tables that its migrations refer to.
    pub(super) refers_to: &'static [&'static str],
}

pub(super) const BROKER_SET: MigrationSet = MigrationSet {
    table: "plexsphere.provisioning_broker_migrations",
    migrations: MIGRATIONS,
    refers_to: &[
        "plexsphere.projects",
        "plexsphere.resources",
        "plexsphere.blueprint_versions",
        "plexsphere.cloud_credentials",
    ],
};

pub(super) const REFERENCE_SET: MigrationSet = MigrationSet {
    table: "plexsphere.provisioning_broker_reference_migrations",
    migrations: REFERENCE,
    refers_to: &[],
};

impl MigrationSet {
    pub(super) fn last(&self) -> u32 {
        self.migrations.last().map_or(0, |migration| migration.version)
    }
}

impl Migration {
    /// Covers both scripts, comments included: detects a script that was edited after it was applied.
    pub(super) fn checksum(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.up);
        hasher.update([0]);
        hasher.update(self.down);
        hasher.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ascending() {
        for set in [MIGRATIONS, REFERENCE] {
            assert!(set.windows(2).all(|pair| pair[0].version < pair[1].version));
        }
    }

    #[test]
    fn every_migration_has_a_valid_release_and_scripts() {
        for migration in MIGRATIONS.iter().chain(REFERENCE) {
            let name = migration.name;
            assert!(migration.lowest_release <= migration.version, "{name} allows its own release");
            assert!(migration.down.starts_with("-- Deletes"), "{name} begins with what it deletes");
            for script in [migration.up, migration.down] {
                // A script that ends its transaction could be applied partially.
                let ends = ["BEGIN;", "START TRANSACTION;", "COMMIT;", "ROLLBACK;"];
                assert_eq!(script.lines().find(|line| ends.contains(&line.trim())), None, "{name}");
            }
        }
    }
}
