//! Crossplane beside a control plane: itself, two composition functions, and a provider whose resources cost
//! nothing. No registry and no container: the programs are started as they are, and the package manager is told
//! where the functions listen.

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
    probe::{Probe, serves_plainly},
    process::Process,
    run::Run,
    server::Server,
};
use crate::{cache::lock_file, tools::CrossplaneTools};

/// Whom the API server knows Crossplane and the provider as; the audit log leaves both out.
pub(super) const CROSSPLANE: &str = "system:crossplane";
pub(super) const PROVIDER: &str = "system:provider-nop";

/// The ports that provider-nop binds, on every address, without an option for it.
const PROVIDER_PORTS: [u16; 2] = [8080, 9443];

/// A running Crossplane. Dropping it ends it, and with it everything that it runs with.
#[derive(Debug)]
pub struct Crossplane {
    // Ends from the clients to what they depend on.
    core: Server,
    provider: Server,
    patch_and_transform: Server,
    auto_ready: Server,
    objects: Objects,
    certificates: PathBuf,
    _only_one: File,
}

impl Crossplane {
    /// Starts it on a control plane. A machine runs one at a time: where another run has one, this waits and
    /// says so.
    ///
    /// # Errors
    ///
    /// When a port that provider-nop cannot do without is held by something else, or a program does not get
    /// ready.
    pub fn start(
        tools: &CrossplaneTools,
        run: &Arc<Run>,
        access: &ControlPlaneAccess,
    ) -> Result<Self> {
        let only_one = lock(&tools.provider_lock)?;
        let authority = access.authority()?;
        let layout = Layout::create(run, &authority)?;
        let kubeconfig = |name: &str, file: &str| {
            let identity = authority.identity(name, Some(MASTERS))?;
            run.write(file, &access.kubeconfig(&authority, &identity))
        };
        let of_core = kubeconfig(CROSSPLANE, "crossplane.kubeconfig")?;
        let of_provider = kubeconfig(PROVIDER, "provider-nop.kubeconfig")?;

        let objects = Objects { api: Api::of(access)? };
        objects.define(&tools.crds)?;
        objects.define(&tools.provider_crds)?;
        objects.create_namespace()?;
        Process::start(run, &Layout::initializer(tools, &of_core))?.wait_for_success()?;

        let function = |name| {
            let (server, port) = function(run, &authority, tools, &layout, name)?;
            objects.register_function(name, port)?;
            Ok::<_, anyhow::Error>(server)
        };
        let patch_and_transform = function(PATCH_AND_TRANSFORM)?;
        let auto_ready = function(AUTO_READY)?;
        let (core, webhook) = with_free_ports(|[webhook, metrics, health]| {
            let program = layout.core(tools, &of_core, [webhook, metrics, health]);
            let ready = move |_: &Process| serves_plainly(health, "/readyz");
            Ok((Server::start(run, program, ready)?, webhook))
        })?;
        objects.configure_usages(&tools.usage_webhook, webhook, &authority)?;
        let provider = layout.provider(tools, &of_provider);
        let provider =
            Server::start(run, provider, |process| process.log().contains("Starting workers"))?;
        Ok(Self {
            core,
            provider,
            patch_and_transform,
            auto_ready,
            objects,
            certificates: layout.certificates,
            _only_one: only_one,
        })
    }

    /// Crossplane itself.
    pub fn core(&mut self) -> &mut Server {
        &mut self.core
    }

    /// The provider.
    pub fn provider(&mut self) -> &mut Server {
        &mut self.provider
    }

    /// The function that composes.
    pub fn patch_and_transform(&mut self) -> &mut Server {
        &mut self.patch_and_transform
    }

    /// The function that says when all is ready.
    pub fn auto_ready(&mut self) -> &mut Server {
        &mut self.auto_ready
    }

    /// The directory with `tls.crt`, `tls.key` and `ca.crt`, with which functions serve and Crossplane asks.
    pub fn certificates(&self) -> &Path {
        &self.certificates
    }

    /// Has Compositions find a function that somebody else serves on this port of loopback.
    ///
    /// # Errors
    ///
    /// When the API server does not take it.
    pub fn register_function(&self, name: &str, port: u16) -> Result<()> {
        self.objects.register_function(name, port)
    }
}

/// The names by which Compositions call the two functions.
const PATCH_AND_TRANSFORM: &str = "function-patch-and-transform";
const AUTO_READY: &str = "function-auto-ready";

fn function(
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
        Ok((Server::start(run, program, move |_| probe.shakes_hands())?, port))
    })
}

/// Held as long as the provider may run, so that two runs never fight for its ports.
fn lock(path: &Path) -> Result<File> {
    let [port, _] = PROVIDER_PORTS;
    let what = format!("waiting for another run that uses provider-nop, which needs port {port}");
    let file = lock_file(path, &what)?;
    for port in PROVIDER_PORTS {
        // On every address, as the provider will.
        ensure!(
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).is_ok(),
            "provider-nop needs port {port}, which another program on this machine holds: end that one"
        );
    }
    Ok(file)
}
