//! `cargo xtask down`: ends what `cargo xtask up` started, and says what that was.

use std::path::Path;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::place::{Place, Standing};
use crate::progress::{step, to_stderr};
use crate::servers::Run;

/// Ends the servers of the checkout whose target directory this is.
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
    step(&to_stderr, "ending the servers", || end(&standing))?;
    place.forget()?;
    println!("ended the servers in {}, with everything in them", standing.directory.display());
    Ok(())
}

/// The reaper does the rest, as it would after a crash.
fn end(standing: &Standing) -> Result<()> {
    if standing.has_its_keeper() {
        let keeper = i32::try_from(standing.keeper).ok().and_then(Pid::from_raw);
        let sent = keeper.map_or(Ok(()), |keeper| kill_process(keeper, Signal::TERM));
        sent.with_context(|| format!("cannot signal process {}", standing.keeper))?;
    }
    Run::wait_for_end(&standing.directory);
    Ok(())
}
