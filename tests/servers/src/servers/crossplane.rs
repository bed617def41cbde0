//! Crossplane on a control plane: the core, two composition functions, and provider-nop. It needs no registry or
//! containers: the programs start directly, and the package manager gets the addresses of the functions.

mod objects;
mod programs;

use std::fs::File;
use std::net::{Ipv6Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};

use self::objects::Objects;
use self::programs::Layout;

use super::{
    api::Api,
    certificates::Authority,
    control_plane::{ControlPlaneAccess, MASTERS},
    ports::with_free_ports,
    probe::{Probe, is_ok_over_http},
    process::Process,
    run::Run,
    server::Server,
};
use crate::{cache::lock_file, tools::CrossplaneTools};

/// The user of Crossplane and the provider on the API server; the audit log excludes both.
pub(super) const CROSSPLANE: &str = "system:crossplane";
pub(super) const PROVIDER: &str = "system:provider-nop";

/// The ports that provider-nop binds on every address; not configurable.
const PROVIDER_PORTS: [u16; 2] = [8080, 9443];

/// A running Crossplane. Dropping it stops it and its companions.
#[derive(Debug)]
pub struct Crossplane {
    // Drop order: clients before their dependencies.
    core: Server,
    provider: Server,
    patch_and_transform: Server,
    auto_ready: Server,
    objects: Objects,
    certificates: PathBuf,
    _exclusive_use: File,
}

impl Crossplane {
    /// Starts Crossplane on a control plane. A machine runs one at a time: prints a message and waits for that of another
    /// run.
    ///
    /// # Errors
    ///
    /// Another program holds a port of provider-nop, or a program does not become ready.
    pub fn start(
        tools: &CrossplaneTools,
        run: &Arc<Run>,
        access: &ControlPlaneAccess,
    ) -> Result<Self> {
        let exclusive_use = lock(&tools.provider_lock)?;
        let authority = access.authority()?;
        let layout = Layout::create(run, &authority)?;
        let kubeconfig = |name: &str, file: &str| {
            let identity = authority.identity(name, Some(MASTERS))?;
            run.write(file, &access.kubeconfig(&authority, &identity))
        };
        let core_kubeconfig = kubeconfig(CROSSPLANE, "crossplane.kubeconfig")?;
        let provider_kubeconfig = kubeconfig(PROVIDER, "provider-nop.kubeconfig")?;

        let objects = Objects { api: Api::connect(access)? };
        objects.define(&tools.crds)?;
        objects.define(&tools.provider_crds)?;
        objects.create_namespace()?;
        Process::start(run, &Layout::initializer(tools, &core_kubeconfig))?.wait_for_success()?;

        let function = |name| {
            let (server, port) = start_function(run, &authority, tools, &layout, name)?;
            objects.register_function(name, port)?;
            Ok::<_, anyhow::Error>(server)
        };
        let patch_and_transform = function(PATCH_AND_TRANSFORM)?;
        let auto_ready = function(AUTO_READY)?;
        let (core, webhook) = with_free_ports(|[webhook, metrics, health]| {
            let program = layout.core(tools, &core_kubeconfig, [webhook, metrics, health]);
            let ready = move |_: &Process| is_ok_over_http(health, "/readyz");
            Ok((Server::start(run, program, ready)?, webhook))
        })?;
        objects.configure_usages(&tools.usage_webhook, webhook, &authority)?;
        let provider = layout.provider(tools, &provider_kubeconfig);
        let provider =
            Server::start(run, provider, |process| process.log().contains("Starting workers"))?;
        Ok(Self {
            core,
            provider,
            patch_and_transform,
            auto_ready,
            objects,
            certificates: layout.certificates,
            _exclusive_use: exclusive_use,
        })
    }

    /// The Crossplane core.
    pub fn core(&mut self) -> &mut Server {
        &mut self.core
    }

    /// The provider.
    pub fn provider(&mut self) -> &mut Server {
        &mut self.provider
    }

    /// The function that composes resources.
    pub fn patch_and_transform(&mut self) -> &mut Server {
        &mut self.patch_and_transform
    }

    /// The function that derives readiness.
    pub fn auto_ready(&mut self) -> &mut Server {
        &mut self.auto_ready
    }

    /// The directory with `tls.crt`, `tls.key` and `ca.crt` for the mutual TLS between functions and Crossplane.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    /// Registers a function that another program serves on this loopback port.
    ///
    /// # Errors
    ///
    /// The API server rejects it.
    pub fn register_function(&self, name: &str, port: u16) -> Result<()> {
        self.objects.register_function(name, port)
    }
}

/// The names of the two functions in Compositions.
const PATCH_AND_TRANSFORM: &str = "function-patch-and-transform";
const AUTO_READY: &str = "function-auto-ready";

fn start_function(
    run: &Arc<Run>,
    authority: &Authority,
    tools: &CrossplaneTools,
    layout: &Layout,
    name: &'static str,
) -> Result<(Server, u16)> {
    let client = authority.mutual()?;
    with_free_ports(|[port]| {
        let path = match name {
            AUTO_READY => &tools.auto_ready,
            _ => &tools.patch_and_transform,
        };
        let probe = Probe::new(port, authority, &client)?;
        let program = layout.function(name, path, port);
        Ok((Server::start(run, program, move |_| probe.completes_tls_handshake())?, port))
    })
}

/// The lock of the provider's fixed ports.
fn lock(path: &Path) -> Result<File> {
    let [port, _] = PROVIDER_PORTS;
    let waiting =
        format!("waiting for another run that uses provider-nop, which needs port {port}");
    let file = lock_file(path, &waiting)?;
    for port in PROVIDER_PORTS {
        // On every address, as the provider binds them.
        ensure!(
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok(),
            "provider-nop needs port {port}, which another program on this machine holds: stop it"
        );
    }
    Ok(file)
}
