//! The migrations as plain SQL, for hosts that apply schemas with their own tool.

use std::fmt::Write as _;

use super::set::{BROKER_SET, Migration, MigrationSet, REFERENCE_SET};
use super::step::{Step, parse_steps};

/// The broker's schema as one script for `psql` or another tool, without parameters or client commands.
///
/// Each migration is one block that records itself and is a no-op if it is recorded. So the script can run again, and
/// [`status`](super::status) and [`up`](super::up) work afterwards. It builds indexes inside transactions, which
/// locks large tables for longer than [`up`](super::up) does.
///
/// ```
/// assert!(broker_pg::migrate::plain_sql().contains("CREATE TABLE plexsphere.provisioned_resources"));
/// ```
pub fn plain_sql() -> String {
    set_script(&BROKER_SET)
}

/// The minimal platform tables as one script.
pub fn plain_sql_of_reference() -> String {
    set_script(&REFERENCE_SET)
}

fn set_script(set: &MigrationSet) -> String {
    let mut script = String::from("CREATE SCHEMA IF NOT EXISTS plexsphere;\n");
    script.push_str(&record_table(set.table));
    script.push('\n');
    for migration in set.migrations {
        script.push_str(&migration_block(set.table, migration));
    }
    script
}

fn migration_block(table: &str, migration: &Migration) -> String {
    let version = migration.version;
    let steps = parse_steps(migration.up);
    let mut block = format!(
        "
DO $migration$
DECLARE
    changed bigint;
BEGIN
IF EXISTS (SELECT FROM {table} WHERE version = {version} AND applied_at IS NULL) THEN
    RAISE EXCEPTION 'migration {version} is applied in part: migrate up';
END IF;
IF EXISTS (SELECT FROM {table} WHERE version = {version}) THEN
    RETURN;
END IF;
"
    );
    // Writing to a string cannot fail.
    for step in &steps {
        let _ = match step {
            Step::Transaction(text) => writeln!(block, "EXECUTE $step$\n{text}$step$;"),
            Step::Statements(text) => {
                writeln!(block, "EXECUTE $step$\n{}$step$;", text.replace(" CONCURRENTLY", ""))
            }
            Step::Batches(text) => writeln!(
                block,
                "LOOP\nEXECUTE $step$\n{text}$step$;\nGET DIAGNOSTICS changed = ROW_COUNT;\nEXIT WHEN changed = 0;\nEND LOOP;"
            ),
        };
    }
    let record = record_step(table, migration, steps.len(), steps.len());
    let _ = write!(block, "{record}\nEND\n$migration$;\n");
    block
}

pub(super) fn record_table(table: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
    version        integer     PRIMARY KEY,
    name           text        NOT NULL,
    checksum       bytea       NOT NULL,
    -- The oldest release that may run on this schema, by the last migration that it holds.
    lowest_release integer     NOT NULL,
    steps_done     integer     NOT NULL,
    -- NULL while steps are left.
    applied_at     timestamptz
);"
    )
}

pub(super) fn record_step(table: &str, migration: &Migration, done: usize, total: usize) -> String {
    let mut checksum = String::with_capacity(64);
    for byte in migration.checksum() {
        let _ = write!(checksum, "{byte:02x}");
    }
    let Migration { version, name, lowest_release, .. } = migration;
    let applied_at = if done == total { "clock_timestamp()" } else { "NULL" };
    format!(
        "INSERT INTO {table} (version, name, checksum, lowest_release, steps_done, applied_at)
VALUES ({version}, '{name}', '\\x{checksum}', {lowest_release}, {done}, {applied_at})
ON CONFLICT (version) DO UPDATE SET steps_done = excluded.steps_done, applied_at = excluded.applied_at;"
    )
}

pub(super) fn record_revert(table: &str, migration: &Migration) -> String {
    format!("DELETE FROM {table} WHERE version = {};", migration.version)
}
