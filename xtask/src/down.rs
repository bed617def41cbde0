//! `cargo xtask down`: ends what `cargo xtask up` started, and says what that was.

use rustix::process::{Pid, Signal, kill_process};

use crate::error::TaskError;
use crate::progress::{step, to_stderr};
use crate::servers::Run;
use crate::up::{Place, Standing};
use crate::workspace::Workspace;

pub(crate) fn run() -> Result<(), TaskError> {
    let place = Place::of(&Workspace::load()?);
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
fn end(standing: &Standing) -> Result<(), TaskError> {
    if standing.has_its_keeper() {
        let keeper = i32::try_from(standing.keeper).ok().and_then(Pid::from_raw);
        let sent = keeper.map_or(Ok(()), |keeper| kill_process(keeper, Signal::TERM));
        sent.map_err(|errno| TaskError::Signal { process: standing.keeper, source: errno.into() })?;
    }
    Run::wait_for_end(&standing.directory);
    Ok(())
}
