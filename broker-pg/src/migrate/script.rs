//! The same migrations as plain SQL, for whoever applies them with a tool of their own.

use std::fmt::Write as _;

use super::set::{BROKER_SET, Migration, REFERENCE_SET, Set};

/// The broker's schema as one script: each migration a transaction with the line that records it, so that
/// [`status`](super::status) and [`up`](super::up) go on from there. For a database that holds none of it.
///
/// ```
/// assert!(broker_pg::migrate::plain_sql().contains("CREATE TABLE plexsphere.provisioned_resources"));
/// ```
pub fn plain_sql() -> String {
    script(&BROKER_SET)
}

/// The minimal tables of the neighbours as one script.
pub fn plain_sql_of_reference() -> String {
    script(&REFERENCE_SET)
}

fn script(set: &Set) -> String {
    let mut script = String::from("CREATE SCHEMA IF NOT EXISTS plexsphere;\n");
    script.push_str(&record_table(set.table));
    script.push('\n');
    for migration in set.migrations {
        let record = record_applied(set.table, migration);
        // Writing into a string does not fail.
        let _ = write!(script, "\nBEGIN;\n\n{}\n{record}\n\nCOMMIT;\n", migration.up);
    }
    script
}

pub(super) fn record_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   bytea       NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);"
    )
}

pub(super) fn record_applied(table: &str, migration: &Migration) -> String {
    let mut checksum = String::with_capacity(64);
    for byte in migration.checksum() {
        let _ = write!(checksum, "{byte:02x}");
    }
    let Migration { version, name, .. } = migration;
    format!(
        "INSERT INTO {table} (version, name, checksum) VALUES ({version}, '{name}', '\\x{checksum}');"
    )
}

pub(super) fn record_taken_back(table: &str, migration: &Migration) -> String {
    format!("DELETE FROM {table} WHERE version = {};", migration.version)
}
