//! Runs scripts on a Postgres of a run with `psql`; a driver would add an async runtime to `cargo xtask`.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::postgres::PostgresAccess;
use crate::{failure::cannot_run, tools::Tools};

/// Runs a script as the superuser. Several statements form one transaction unless they control transactions themselves.
///
/// # Errors
///
/// The server rejects a statement; the error contains its message.
pub fn run_sql(tools: &Tools, access: &PostgresAccess, database: &str, script: &str) -> Result<()> {
    query_sql(tools, access, database, script).map(drop)
}

/// Like [`run_sql`]; returns the values of the last statement, without headers.
///
/// # Errors
///
/// As [`run_sql`].
pub fn query_sql(
    tools: &Tools,
    access: &PostgresAccess,
    database: &str,
    script: &str,
) -> Result<String> {
    let PostgresAccess { host, port, user, password } = access;
    let mut command = Command::new(tools.postgres_bin.join("psql"));
    command.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
    command.args(["--host", host, "--port", &port.to_string()]);
    command.args(["--username", user, "--dbname", database, "--command", script]);
    command.env("PGPASSWORD", password).envs(tools.postgres_env.iter().cloned());
    let output = command.output().with_context(cannot_run(&command))?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "Postgres rejected a script ({})", message.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
