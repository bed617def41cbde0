//! `cargo xtask simulate`: runs the simulation of the proof tier with any number of seeds.

use anyhow::{Result, ensure};

use crate::cli::SimulateArguments;
use crate::workspace::{Workspace, run as run_command};

pub(crate) fn run(arguments: &SimulateArguments) -> Result<()> {
    let SimulateArguments { seeds, seed } = arguments;
    let (first, many) = seed.map_or((0, *seeds), |seed| (seed, 1));
    // The same build arguments as `cargo xtask test`, so that cargo reuses its build.
    let build = ["test", "--workspace", "--all-features", "--test", "proof"];
    let mut command = Workspace::load()?.cargo(&build);
    command.args(["--", "--exact", "simulation::every_seed_settles", "--nocapture"]);
    command.env("BROKER_SEED", first.to_string()).env("BROKER_SEEDS", many.to_string());
    let status = run_command(&mut command)?;
    ensure!(status.success(), "the simulation failed ({status})");
    Ok(())
}
