//! Postgres: a cluster in the run's directory, one loopback port, one superuser with a generated password.

use std::{fs, path::Path, sync::Arc};

use anyhow::Result;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{
    ports::{random, with_free_ports},
    process::Process,
    run::Run,
    server::{Program, Server, option},
};
use crate::tools::Tools;

const SUPERUSER: &str = "postgres";

/// Settings of every server. Many tests share one; some decode its log or use two-phase commits.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=300",
    "wal_level=logical",
    "max_prepared_transactions=20",
    "max_replication_slots=20",
    "max_wal_senders=20",
    // In the data directory, so that a killed server leaves nothing in /dev/shm.
    "dynamic_shared_memory_type=mmap",
    "timezone=UTC",
    "log_timezone=UTC",
];

/// Faster settings for data that need not survive a power cut. A commit still writes its own log to the kernel, which
/// is cheaper than waking the background writer each time.
const NOT_DURABLE: &[&str] = &["fsync=off", "full_page_writes=off"];

/// Whether committed data survives a kill of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Fast, for a server that is never killed.
    Off,
    /// As in production, for a server that is killed and restarted.
    On,
}

/// How to reach a Postgres.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PostgresAccess {
    /// Its address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// A superuser.
    pub user: String,
    /// The superuser's password.
    pub password: String,
}

/// A running Postgres. Dropping it stops it.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    access: PostgresAccess,
}

impl Postgres {
    /// Creates a cluster in the run's directory and starts a server on it.
    ///
    /// # Errors
    ///
    /// It does not become ready.
    pub fn start(tools: &Tools, run: &Arc<Run>, durability: Durability) -> Result<Self> {
        let password = u128::from_le_bytes(random()?);
        let password = format!("{password:032x}");
        let data = run.subdirectory("postgres")?;
        run_initdb(tools, run, &data, &password)?;
        with_free_ports(|[port]| {
            let program = program(tools, &data, port, durability);
            let pid_file = data.join("postmaster.pid");
            let ready = move |process: &Process| is_ready(&pid_file, process.id());
            let server = Server::start(run, program, ready)?;
            let access = PostgresAccess {
                host: "127.0.0.1".to_owned(),
                port,
                user: SUPERUSER.to_owned(),
                password: password.clone(),
            };
            Ok(Self { server, access })
        })
    }

    /// How to reach it; unchanged after a restart.
    pub fn access(&self) -> PostgresAccess {
        self.access.clone()
    }

    /// The server, for a kill, a pause or a restart.
    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }
}

fn run_initdb(tools: &Tools, run: &Arc<Run>, data: &Path, password: &str) -> Result<()> {
    let password_file = run.write("postgres-password", password)?;
    let initdb = Program {
        name: "initdb",
        path: tools.postgres_bin.join("initdb"),
        args: vec![
            option("--pgdata", data),
            option("--pwfile", &password_file),
            format!("--username={SUPERUSER}").into(),
            // Cleartext over loopback: a stronger exchange only slows down each connection.
            "--auth=password".into(),
            "--encoding=UTF8".into(),
            "--locale=C".into(),
            "--no-sync".into(),
            "--no-instructions".into(),
        ],
        env: tools.postgres_env.clone(),
        stop: Signal::TERM,
    };
    Process::start(run, &initdb)?.wait_for_success()
}

fn program(tools: &Tools, data: &Path, port: u16, durability: Durability) -> Program {
    let durability = match durability {
        Durability::Off => NOT_DURABLE,
        Durability::On => &[],
    };
    let mut args = vec!["-D".into(), data.into(), "-p".into(), port.to_string().into()];
    for setting in SETTINGS.iter().chain(durability) {
        args.extend(["-c".into(), setting.into()]);
    }
    Program {
        name: "postgres",
        path: tools.postgres_bin.join("postgres"),
        args,
        env: tools.postgres_env.clone(),
        // A fast shutdown: rolls back open transactions, closes sessions, writes everything.
        stop: Signal::INT,
    }
}

/// Reads the server's process id (line 1) and state (line 8) from its pid file. The id excludes another server on the
/// port and a killed instance.
fn is_ready(pid_file: &Path, id: u32) -> bool {
    let Ok(content) = fs::read_to_string(pid_file) else { return false };
    let mut lines = content.lines();
    let is_own = lines.next() == Some(id.to_string().as_str());
    is_own && lines.nth(6).is_some_and(|state| state.trim_end() == "ready")
}
