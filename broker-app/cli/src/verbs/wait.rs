//! `--wait`: follows a resource to a phase and prints every observed phase.

use std::time::Duration;

use broker_app::WaitOutcome;
use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use tokio::time::Instant;

use super::CommandContext;
use crate::failure::Failure;

/// The command prints phase changes at least this often. The service polls several times within it.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// Follows a resource until it reaches or passes the target phase, can no longer reach it, or the time limit ends.
pub(super) async fn follow(
    context: &mut CommandContext<'_>,
    id: ProvisionedResourceId,
    target: Phase,
    limit: Duration,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut printed: Option<Phase> = None;
    loop {
        let remaining = limit.saturating_sub(started.elapsed());
        // The first call does not wait, so that the initial phase is printed.
        let timeout = if printed.is_none() { Duration::ZERO } else { POLL_TIMEOUT.min(remaining) };
        let outcome = context.service.wait_for(&context.context, id, target, timeout).await?;
        let (WaitOutcome::Reached(resource)
        | WaitOutcome::Never(resource)
        | WaitOutcome::TimedOut(resource)) = &outcome;
        if printed != Some(resource.phase()) {
            printed = Some(resource.phase());
            print_change(context, started.elapsed(), resource)?;
        }
        match &outcome {
            WaitOutcome::Reached(_) => return Ok(()),
            WaitOutcome::TimedOut(resource) if has_passed(resource.phase(), target) => {
                return Ok(());
            }
            WaitOutcome::Never(resource) => {
                return Err(Failure::phase_unreachable(resource, target));
            }
            WaitOutcome::TimedOut(resource) if started.elapsed() >= limit => {
                return Err(Failure::NotFinished { id, phase: resource.phase(), timeout: limit });
            }
            WaitOutcome::TimedOut(_) => {}
        }
    }
}

/// Whether a converging resource passed the target between two reads. `Phase` orders these phases.
fn has_passed(phase: Phase, target: Phase) -> bool {
    phase <= Phase::Ready && target < phase
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
        assert!(has_passed(Phase::Ready, Phase::Provisioning));
        assert!(has_passed(Phase::Enrolling, Phase::Pending));
        assert!(!has_passed(Phase::Provisioning, Phase::Ready));
        assert!(!has_passed(Phase::Ready, Phase::Ready), "the service reports it as reached");
        for phase in [Phase::Failed, Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
            assert!(!has_passed(phase, Phase::Provisioning), "{phase}");
            assert!(!has_passed(Phase::Ready, phase), "{phase}");
        }
    }
}
