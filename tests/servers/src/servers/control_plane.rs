//! A Kubernetes control plane without nodes: etcd, the API server, and the controller manager with the two controllers
//! for deletion. Clients authenticate by certificate, RBAC authorises them, and an audit log records every request.

mod access;
mod programs;

use std::sync::Arc;

use anyhow::Result;

use self::programs::Layout;
pub(super) use self::programs::relaxed_gc;
pub use access::{ControlPlaneAccess, kubeconfig};

use super::{
    certificates::Authority, ports::with_free_ports, probe::Probe, run::Run, server::Server,
};
use crate::tools::Tools;

/// The group with full access.
pub const MASTERS: &str = "system:masters";

/// A user without entries in the audit log.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// Tests rely on these; the API server creates them shortly after it reports readiness.
const SYSTEM_NAMESPACES: [&str; 2] =
    ["/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"];

/// A running control plane. Dropping it stops it.
#[derive(Debug)]
pub struct ControlPlane {
    // Drop order: clients before their dependencies.
    controller_manager: Server,
    api_server: Server,
    etcd: Server,
    access: ControlPlaneAccess,
}

impl ControlPlane {
    /// Starts the three servers in the run's directory.
    ///
    /// # Errors
    ///
    /// A server does not become ready.
    pub fn start(tools: &Tools, run: &Arc<Run>) -> Result<Self> {
        let authority = Authority::create(run)?;
        let layout = Layout::create(run, &authority)?;
        let admin = authority.identity("admin", Some(MASTERS))?;

        let (etcd, etcd_port) = with_free_ports(|[port]| {
            let program = layout.etcd(tools, port);
            // Only its own log proves that no other etcd took the port.
            let ready =
                |process: &super::Process| process.log().contains("ready to serve client requests");
            Ok((Server::start(run, program, ready)?, port))
        })?;
        let (api_server, access) = with_free_ports(|[port]| {
            let probe = Probe::new(port, &authority, &admin)?;
            let program = layout.api_server(tools, port, etcd_port);
            let ready = move |_: &super::Process| {
                probe.is_ok("/readyz") && SYSTEM_NAMESPACES.iter().all(|path| probe.is_ok(path))
            };
            let api_server = Server::start(run, program, ready)?;
            let (authority, audit_log) = (run.directory().to_owned(), layout.audit_log.clone());
            let url = format!("https://127.0.0.1:{port}");
            Ok((api_server, ControlPlaneAccess { url, authority, audit_log }))
        })?;
        let identity = authority.identity(CONTROLLER_MANAGER, Some(MASTERS))?;
        let kubeconfig = access.kubeconfig(&authority, &identity);
        let kubeconfig = run.write("kube-controller-manager.kubeconfig", &kubeconfig)?;
        let controller_manager = with_free_ports(|[port]| {
            let probe = Probe::new(port, &authority, &admin)?;
            let program = layout.controller_manager(tools, port, &kubeconfig);
            Server::start(run, program, move |_| probe.is_ok("/healthz"))
        })?;
        Ok(Self { controller_manager, api_server, etcd, access })
    }

    /// How to reach the API; unchanged after a restart.
    pub fn access(&self) -> ControlPlaneAccess {
        self.access.clone()
    }

    /// etcd.
    pub fn etcd(&mut self) -> &mut Server {
        &mut self.etcd
    }

    /// The API server.
    pub fn api_server(&mut self) -> &mut Server {
        &mut self.api_server
    }

    /// The garbage collector and the namespace controller.
    pub fn controller_manager(&mut self) -> &mut Server {
        &mut self.controller_manager
    }
}
