//! `cargo xtask up`: real servers to try the broker on, furnished as a platform would, until `cargo xtask down`.
//!
//! ```text
//! up ──── one at a time in a checkout; builds the broker, furnishes, prints the exports
//!  ├ keeper ── a process of its own that starts the servers, and holds them when `up` has ended
//!  ├ agents ── of the machines that Crossplane composes, which the keeper plays
//!  ├ place ─── where a checkout remembers what is up
//!  ├ platform  what belongs to the neighbours: kinds, a namespace, a Project with a cloud
//!  └ broker ── what belongs to the broker: its tables, its blueprints; by its own command line
//! ```
//!
//! The keeper owns a [`Run`] like any other, so its reaper ends the servers however the keeper
//! ends: `down` only has to end the keeper. Until `up` says that it succeeded, the keeper ends with `up`.

mod agents;
mod broker;
pub mod keeper;
mod place;
mod platform;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::failure::cannot;
use crate::progress::say;
use crate::servers::{Description, MASTERS, Run};
use crate::tools::{CrossplaneTools, Tools};

use keeper::Keeper;
use place::{Place, RunningServers};

/// The control plane that agents would call. Nobody listens there: no machine boots here, and the agents that are played
/// do not call.
const API_URL: &str = "http://127.0.0.1:8080";

/// The user that the API server knows the broker by. It holds the generated roles only.
const BROKER: &str = "provisioning-broker";

/// What a checkout lends to `up`.
pub struct Checkout<'a> {
    /// Where cargo builds; what is up is remembered there.
    pub target: &'a Path,
    /// The sample blueprints.
    pub catalog: &'a Path,
    /// Builds the broker's binary.
    pub build: &'a (dyn Fn() -> Result<()> + Sync),
    /// Makes a command that runs it.
    pub program: &'a (dyn Fn() -> Command + Sync),
}

/// Brings servers up, unless they are, and prints what a shell has to know of them.
///
/// # Errors
///
/// A tool is missing, a server does not start, or it refuses what it is furnished with. Then nothing is left running.
pub fn up(checkout: &Checkout<'_>, crossplane: bool) -> Result<()> {
    let place = Place::of(checkout.target);
    let _one_at_a_time = place.lock()?;
    if let Some(standing) = place.standing()? {
        let place = standing.directory.display();
        say(&format!("the servers are up already, in {place}; `cargo xtask down` ends them"));
        print!("{}", shell(&standing.exports));
        return Ok(());
    }
    // Before the servers start: a missing tool or a broken build is better learnt at once.
    let tools = Tools::find_or_build()?;
    if crossplane {
        CrossplaneTools::find_or_build()?;
    }
    (checkout.build)()?;
    say("starting the servers");
    let keeper = Keeper::start(crossplane)?;
    say("furnishing the servers");
    let exports = furnish(checkout, &tools, &keeper, crossplane)?;
    let standing =
        RunningServers { directory: keeper.directory().to_owned(), keeper: keeper.id(), exports };
    place.remember(&standing)?;
    keeper.keep()?;
    say("the servers are up; `eval \"$(cargo xtask up)\"` tells a shell where they are");
    print!("{}", shell(&standing.exports));
    Ok(())
}

/// Everything that a declared resource needs to get as far as Crossplane. Answers what a shell has to know.
fn furnish(
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

    let dsn = platform::database(tools, &postgres)?;
    let mut exports = vec![
        ("PLEXSPHERE_DSN".to_owned(), dsn),
        ("KUBECONFIG".to_owned(), kubeconfig(BROKER, None)?),
        ("ADMIN_KUBECONFIG".to_owned(), kubeconfig("admin", Some(MASTERS))?),
        ("PLEXSPHERE_PROVISIONING_BROKER_API_URL".to_owned(), API_URL.to_owned()),
        ("PLEXSPHERE_PROVISIONING_BROKER_LISTEN".to_owned(), platform::free_address()?),
    ];
    checkout.migrate(&exports)?;
    platform::project(tools, &postgres)?;
    if crossplane {
        platform::blueprints(&control_plane, checkout.catalog)?;
    } else {
        platform::kinds(&control_plane, checkout.catalog)?;
    }
    platform::namespace(&control_plane)?;
    platform::roles(&control_plane, &checkout.roles()?, BROKER)?;
    let published = checkout.publish(&exports)?;
    exports.extend(platform::ids());
    exports.extend(published);
    Ok(exports)
}

/// As a shell reads it, whatever the values hold.
fn shell(exports: &[(String, String)]) -> String {
    let export = |(name, value): &(String, String)| {
        format!("export {name}='{}'\n", value.replace('\'', r"'\''"))
    };
    exports.iter().map(export).collect()
}

/// Ends the servers of the checkout whose target directory this is, and says what that was.
///
/// # Errors
///
/// Their keeper cannot be ended, or the note of them cannot be read.
pub fn down(target: &Path) -> Result<()> {
    let place = Place::of(target);
    let _one_at_a_time = place.lock()?;
    let Some(standing) = place.standing()? else {
        println!("nothing is up");
        return Ok(());
    };
    say("ending the servers");
    if standing.has_its_keeper() {
        let keeper = i32::try_from(standing.keeper).ok().and_then(Pid::from_raw);
        let sent = keeper.map_or(Ok(()), |keeper| kill_process(keeper, Signal::TERM));
        sent.with_context(|| format!("cannot signal process {}", standing.keeper))?;
    }
    // The reaper does the rest, as it would after a crash.
    Run::wait_for_end(&standing.directory);
    place.forget()?;
    println!("ended the servers in {}, with everything in them", standing.directory.display());
    Ok(())
}
