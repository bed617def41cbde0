//! The real servers of the tests: Postgres, and a Kubernetes control plane of etcd, kube-apiserver and
//! kube-controller-manager. They use loopback, one temporary directory and an unprivileged user, and they stop with the
//! run, even if it is killed.
//!
//! ```text
//! Run ──────── directory, lock, reaper
//!  └ Process ─ one started program in its own process group, known to the reaper
//!     └ Server ─ a restartable program with a readiness check
//!        ├ Postgres
//!        ├ ControlPlane: etcd, kube-apiserver, kube-controller-manager
//!        └ Crossplane, on a control plane: core, two functions, provider-nop
//! ```
//!
//! This module blocks and has no database driver and no Kubernetes client: the harness in `broker-tests` adds those.
//! [`run_sql`] and [`Api`] suffice to prepare a server.

mod api;
mod certificates;
mod control_plane;
pub mod crd;
mod crossplane;
mod description;
mod ports;
mod postgres;
mod probe;
mod process;
mod run;
mod server;
mod sql;
mod user;

use std::sync::Arc;

use anyhow::Result;

use crate::tools::Tools;

/// Why a server or its directory is not available.
pub use anyhow::Error as ServersError;
pub use api::Api;
pub use certificates::{Authority, Credentials};
pub use control_plane::{ControlPlane, ControlPlaneAccess, MASTERS, kubeconfig};
pub use crossplane::Crossplane;
pub use description::{Description, SERVERS_VARIABLE};
pub use postgres::{Durability, Postgres, PostgresAccess};
pub use process::Process;
pub use run::Run;
pub use rustix::process::Signal;
pub use server::{Program, Server};
pub use sql::{query_sql, run_sql};

/// The servers that all tests of a run share. Dropping it stops them.
#[derive(Debug)]
pub struct SharedServers {
    // Drop order: the control plane needs its etcd, and the directory comes last.
    control_plane: ControlPlane,
    postgres: Postgres,
    run: Arc<Run>,
}

impl SharedServers {
    /// The environment variables by which a test process finds these servers.
    pub fn env(&self) -> Vec<(String, String)> {
        let directory = self.run.directory().to_string_lossy().into_owned();
        vec![(SERVERS_VARIABLE.to_owned(), directory)]
    }

    /// The directory of the run.
    pub fn directory(&self) -> &std::path::Path {
        self.run.directory()
    }

    /// The run of these servers, for further processes in it.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Where the servers are.
    pub fn description(&self) -> Description {
        Description { postgres: self.postgres.access(), control_plane: self.control_plane.access() }
    }
}

/// Starts one Postgres and one control plane concurrently, and writes their description into the run's directory.
///
/// # Errors
///
/// A server does not become ready. The error contains the end of its log, and no process is left.
pub fn start_shared(tools: &Tools) -> Result<SharedServers> {
    let run = Arc::new(Run::start()?);
    let (postgres, control_plane) = std::thread::scope(|scope| {
        let postgres = scope.spawn(|| Postgres::start(tools, &run, Durability::Off));
        let control_plane = ControlPlane::start(tools, &run);
        let postgres = postgres.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (postgres, control_plane)
    });
    let servers = SharedServers { control_plane: control_plane?, postgres: postgres?, run };
    servers.description().write(&servers.run)?;
    Ok(servers)
}
