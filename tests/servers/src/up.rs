//! `cargo xtask up`: real servers with a prepared platform, until `cargo xtask down`.
//!
//! ```text
//! up ──── one at a time per checkout; builds the broker, prepares the platform, prints the exports
//!  ├ keeper ── a process that starts the servers and keeps them after `up` has exited
//!  ├ agents ── simulated agents of the machines that Crossplane composes; run in the keeper
//!  ├ record ── the checkout's record of its running servers
//!  ├ platform  objects of the platform: kinds, a namespace, a Project with a cloud
//!  └ broker ── objects of the broker: tables and blueprints, by its own command line
//! ```
//!
//! The keeper owns a [`Run`], so its reaper stops the servers after any exit of the keeper: `down` only stops the
//! keeper. Until `up` reports success, the keeper exits together with `up`.

mod agents;
mod broker;
pub mod keeper;
mod record;
mod platform;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::cannot;
use crate::progress::report_progress;
use crate::servers::{ControlPlaneAccess, Description, MASTERS, Run};
use crate::tools::{CrossplaneTools, Tools};

use keeper::Keeper;
use record::{RunningServers, UpRecord};

/// The URL at which agents would enrol. It has no listener, because simulated agents do not call it.
const API_URL: &str = "http://127.0.0.1:8080";

/// The broker's user on the API server, with the generated roles only.
const BROKER: &str = "provisioning-broker";

/// The parts of the checkout that `up` uses.
pub struct Checkout<'a> {
    /// Cargo's target directory; it holds the record of the running servers.
    pub target: &'a Path,
    /// The blueprints to install.
    pub catalog: &'a Path,
    /// Whether to install them on servers that already run.
    pub reinstall: bool,
    /// Builds the broker's binary.
    pub build: &'a (dyn Fn() -> Result<()> + Sync),
    /// Creates a command that runs it.
    pub program: &'a (dyn Fn() -> Command + Sync),
}

/// Starts the servers unless they run, and prints their environment variables.
///
/// # Errors
///
/// A tool is missing, a server does not start, or it rejects the platform's objects. No process is left then.
pub fn up(checkout: &Checkout<'_>, crossplane: bool) -> Result<()> {
    let record = UpRecord::in_target(checkout.target);
    let _lock = record.lock()?;
    if let Some(servers) = record.running()? {
        let directory = servers.directory.display();
        report_progress(&format!(
            "the servers already run in {directory}; `cargo xtask down` stops them"
        ));
        let servers =
            if checkout.reinstall { reinstall(checkout, &record, servers)? } else { servers };
        print!("{}", shell_exports(&servers.exports));
        return Ok(());
    }
    // Before the servers start: a missing tool or a broken build must fail at once.
    let tools = Tools::find_or_build()?;
    if crossplane {
        CrossplaneTools::find_or_build()?;
    }
    (checkout.build)()?;
    report_progress("starting the servers");
    let keeper = Keeper::start(crossplane)?;
    report_progress("preparing the platform");
    let exports = prepare(checkout, &tools, &keeper, crossplane)?;
    let servers = RunningServers {
        directory: keeper.directory().to_owned(),
        keeper: keeper.id(),
        crossplane,
        exports,
    };
    record.save(&servers)?;
    keeper.keep()?;
    report_progress("the servers are up; `eval \"$(cargo xtask up)\"` exports their addresses");
    print!("{}", shell_exports(&servers.exports));
    Ok(())
}

/// Prepares everything that a declared resource needs to reach Crossplane. Returns the environment variables.
fn prepare(
    checkout: &Checkout<'_>,
    tools: &Tools,
    keeper: &Keeper,
    crossplane: bool,
) -> Result<Vec<(String, String)>> {
    let Description { postgres, control_plane } = Description::read(keeper.directory())?;
    let authority = control_plane.authority()?;
    let kubeconfig = |user: &str, group: Option<&str>| {
        let identity = authority.identity(user, group)?;
        let path = keeper.directory().join(format!("{user}.kubeconfig"));
        fs::write(&path, control_plane.kubeconfig(&authority, &identity))
            .with_context(cannot("write", &path))?;
        Ok::<_, anyhow::Error>(path.display().to_string())
    };

    let dsn = platform::create_database(tools, &postgres)?;
    let mut exports = vec![
        ("PLEXSPHERE_DSN".to_owned(), dsn),
        ("KUBECONFIG".to_owned(), kubeconfig(BROKER, None)?),
        ("ADMIN_KUBECONFIG".to_owned(), kubeconfig("admin", Some(MASTERS))?),
        ("PLEXSPHERE_PROVISIONING_BROKER_API_URL".to_owned(), API_URL.to_owned()),
        ("PLEXSPHERE_PROVISIONING_BROKER_LISTEN".to_owned(), platform::free_address()?),
    ];
    checkout.migrate(&exports)?;
    platform::insert_project(tools, &postgres)?;
    platform::create_namespace(&control_plane)?;
    let published = install(checkout, &control_plane, crossplane, &exports)?;
    exports.extend(platform::sample_ids());
    exports.extend(published);
    Ok(exports)
}

/// Installs the catalog as a platform does: its kinds on the cluster, the roles for them, and its blueprints in the
/// broker's catalog. Idempotent. Returns an environment variable per blueprint.
fn install(
    checkout: &Checkout<'_>,
    control_plane: &ControlPlaneAccess,
    crossplane: bool,
    exports: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    if crossplane {
        platform::install_blueprints(control_plane, checkout.catalog)?;
    } else {
        platform::define_kinds(control_plane, checkout.catalog)?;
    }
    platform::grant_roles(control_plane, &checkout.roles()?, BROKER)?;
    checkout.publish(exports)
}

/// Installs the catalog on running servers and adds its blueprints to their record.
fn reinstall(
    checkout: &Checkout<'_>,
    record: &UpRecord,
    mut servers: RunningServers,
) -> Result<RunningServers> {
    (checkout.build)()?;
    report_progress(&format!("installing {}", checkout.catalog.display()));
    let Description { control_plane, .. } = Description::read(&servers.directory)?;
    let published = install(checkout, &control_plane, servers.crossplane, &servers.exports)?;
    servers.exports.retain(|(name, _)| published.iter().all(|(new, _)| new != name));
    servers.exports.extend(published);
    record.save(&servers)?;
    Ok(servers)
}

/// Export statements with quoted values.
fn shell_exports(exports: &[(String, String)]) -> String {
    let export = |(name, value): &(String, String)| {
        format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
    };
    exports.iter().map(export).collect()
}

/// Stops the servers of the checkout with this target directory and prints the result.
///
/// # Errors
///
/// The keeper cannot be signalled, or the record cannot be read.
pub fn down(target: &Path) -> Result<()> {
    let record = UpRecord::in_target(target);
    let _lock = record.lock()?;
    let Some(servers) = record.running()? else {
        println!("no servers are running");
        return Ok(());
    };
    report_progress("stopping the servers");
    if servers.keeper_is_alive() {
        let keeper = i32::try_from(servers.keeper).ok().and_then(Pid::from_raw);
        let sent = keeper.map_or(Ok(()), |keeper| kill_process(keeper, Signal::TERM));
        sent.with_context(|| format!("cannot signal process {}", servers.keeper))?;
    }
    // The reaper stops the servers, as after a crash.
    Run::wait_for_end(&servers.directory);
    record.delete()?;
    println!("stopped the servers in {} and deleted their data", servers.directory.display());
    Ok(())
}
