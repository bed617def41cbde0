//! `--wait`: follows a resource to a phase and prints every observed phase.

use std::time::Duration;

use broker_app::WaitOutcome;
use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use tokio::time::Instant;

use super::CommandContext;
use crate::failure::Failure;

/// The longest wait before the command prints the current phase. The service polls several times within it.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// Follows a resource until it reaches a phase or passes it, can no longer reach it, or the timeout ends.
pub(super) async fn follow(
    context: &mut CommandContext<'_>,
    id: ProvisionedResourceId,
    wanted: Phase,
    within: Duration,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut printed: Option<Phase> = None;
    loop {
        let left = within.saturating_sub(started.elapsed());
        // The first call does not wait, so that the initial phase is printed.
        let timeout = if printed.is_none() { Duration::ZERO } else { POLL_TIMEOUT.min(left) };
        let looked = context.service.wait_for(&context.context, id, wanted, timeout).await?;
        let (WaitOutcome::Reached(resource)
        | WaitOutcome::Never(resource)
        | WaitOutcome::TimedOut(resource)) = &looked;
        if printed != Some(resource.phase()) {
            printed = Some(resource.phase());
            print_change(context, started.elapsed(), resource)?;
        }
        match &looked {
            WaitOutcome::Reached(_) => return Ok(()),
            WaitOutcome::TimedOut(resource) if is_beyond(resource.phase(), wanted) => return Ok(()),
            WaitOutcome::Never(resource) => return Err(Failure::never(resource, wanted)),
            WaitOutcome::TimedOut(resource) if started.elapsed() >= within => {
                return Err(Failure::NotFinished { id, phase: resource.phase(), within });
            }
            WaitOutcome::TimedOut(_) => {}
        }
    }
}

/// Whether a converging resource passed the phase between two reads. `Phase` orders these phases.
fn is_beyond(phase: Phase, wanted: Phase) -> bool {
    phase <= Phase::Ready && wanted < phase
}

fn print_change(
    context: &mut CommandContext<'_>,
    at: Duration,
    resource: &ProvisionedResource,
) -> std::io::Result<()> {
    context.output.change(&format!("{:>7.1}s  ", at.as_secs_f64()), resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_converging_phases_can_be_passed() {
        assert!(is_beyond(Phase::Ready, Phase::Provisioning));
        assert!(is_beyond(Phase::Enrolling, Phase::Pending));
        assert!(!is_beyond(Phase::Provisioning, Phase::Ready));
        assert!(!is_beyond(Phase::Ready, Phase::Ready), "the service reports it as reached");
        for phase in [Phase::Failed, Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
            assert!(!is_beyond(phase, Phase::Provisioning), "{phase}");
            assert!(!is_beyond(Phase::Ready, phase), "{phase}");
        }
    }
}
