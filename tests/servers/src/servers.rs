//! The real servers that tests run on: Postgres, and a Kubernetes control plane of etcd,
//! kube-apiserver and kube-controller-manager. All of it on loopback, in one temporary directory,
//! under an unprivileged user, and gone with the run, however the run ends.
//!
//! ```text
//! Run ──────── directory, lock, reaper
//!  └ Process ─ one started program in a process group of its own, known to the reaper
//!     └ Server ─ a program that can be started again, and how to tell that it is ready
//!        ├ Postgres
//!        ├ ControlPlane: etcd, kube-apiserver, kube-controller-manager
//!        └ Crossplane, beside a control plane: itself, two functions, provider-nop
//! ```
//!
//! This module blocks and knows no database driver and no Kubernetes client: the harness in
//! `broker-tests` puts those on top. [`run_sql`] and [`Api`] say just enough to furnish a server.

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

/// Why a server, or the directory that it runs in, could not be had.
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
pub use sql::run_sql;

/// The servers that all tests of a run share. Dropping it ends them.
#[derive(Debug)]
pub struct SharedServers {
    // In the order in which they end: a control plane is of no use without its etcd, and the
    // directory goes last.
    control_plane: ControlPlane,
    postgres: Postgres,
    run: Arc<Run>,
}

impl SharedServers {
    /// What a test process has to find in its environment to use these servers.
    pub fn env(&self) -> Vec<(String, String)> {
        let directory = self.run.directory().to_string_lossy().into_owned();
        vec![(SERVERS_VARIABLE.to_owned(), directory)]
    }

    /// Where everything of theirs is.
    pub fn directory(&self) -> &std::path::Path {
        self.run.directory()
    }

    /// The run that they belong to, for what somebody starts beside them.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// How to reach them.
    pub fn description(&self) -> Description {
        Description { postgres: self.postgres.access(), control_plane: self.control_plane.access() }
    }
}

/// Starts one Postgres and one control plane, at the same time, and describes them in the run's
/// directory.
///
/// # Errors
///
/// When a server does not get ready; the error holds the end of its log, and nothing is left
/// running.
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
