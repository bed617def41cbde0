//! A Kubernetes control plane without nodes: etcd, the API server, and the controller manager with
//! the two controllers that deletion depends on. Clients are known by certificate, RBAC decides,
//! and an audit log remembers every request.

mod access;
mod programs;

use std::sync::Arc;

use anyhow::Result;

use self::programs::Layout;
pub(super) use self::programs::lavish;
pub use access::{ControlPlaneAccess, kubeconfig};

use super::{
    certificates::Authority, ports::with_free_ports, probe::Probe, run::Run, server::Server,
};
use crate::tools::Tools;

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";

/// Whom the audit log leaves out.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";

/// What the API server creates shortly after it says that it is ready, and tests rely on.
const SYSTEM_NAMESPACES: [&str; 2] =
    ["/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"];

/// A running control plane. Dropping it ends it.
#[derive(Debug)]
pub struct ControlPlane {
    // Ends from the clients to what they depend on.
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
    /// When one of them does not get ready.
    pub fn start(tools: &Tools, run: &Arc<Run>) -> Result<Self> {
        let authority = Authority::create(run)?;
        let layout = Layout::create(run, &authority)?;
        let admin = authority.identity("admin", Some(MASTERS))?;

        let (etcd, etcd_port) = with_free_ports(|[port]| {
            let program = layout.etcd(tools, port);
            // Its own log is proof that it is not another etcd that took the port.
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

    /// How to reach the API; stays the same when a server is started again.
    pub fn access(&self) -> ControlPlaneAccess {
        self.access.clone()
    }

    /// The store.
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
