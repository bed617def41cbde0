//! `--wait`: follows a resource to the phase that it should reach, and says each phase that it sees.

use std::time::Duration;

use broker_app::Waited;
use broker_domain::{Phase, ProvisionedResource, ProvisionedResourceId};
use tokio::time::Instant;

use super::CommandContext;
use crate::failure::Failure;

/// How long one look may take before the phase so far is told. The service looks several times within.
const GLANCE: Duration = Duration::from_secs(1);

/// Follows a resource until it is in a phase or beyond it, cannot get there, or time is up.
pub(super) async fn follow(
    context: &mut CommandContext<'_>,
    id: ProvisionedResourceId,
    wanted: Phase,
    within: Duration,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut told: Option<Phase> = None;
    loop {
        let left = within.saturating_sub(started.elapsed());
        // The first look is only a look, so that the phase at the beginning is told, too.
        let patience = if told.is_none() { Duration::ZERO } else { GLANCE.min(left) };
        let looked = context.service.wait_for(&context.context, id, wanted, patience).await?;
        let (Waited::Reached(resource) | Waited::Never(resource) | Waited::TimedOut(resource)) =
            &looked;
        if told != Some(resource.phase()) {
            told = Some(resource.phase());
            tell(context, started.elapsed(), resource)?;
        }
        match &looked {
            Waited::Reached(_) => return Ok(()),
            Waited::TimedOut(resource) if is_beyond(resource.phase(), wanted) => return Ok(()),
            Waited::Never(resource) => return Err(Failure::never(resource, wanted)),
            Waited::TimedOut(resource) if started.elapsed() >= within => {
                return Err(Failure::NotFinished { id, phase: resource.phase(), within });
            }
            Waited::TimedOut(_) => {}
        }
    }
}

/// Whether a resource that is on its way up went through a phase that nobody saw it in. The phases of the way stand in
/// their order.
fn is_beyond(phase: Phase, wanted: Phase) -> bool {
    phase <= Phase::Ready && wanted < phase
}

fn tell(
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
    fn only_the_way_up_has_a_beyond() {
        assert!(is_beyond(Phase::Ready, Phase::Provisioning));
        assert!(is_beyond(Phase::Enrolling, Phase::Pending));
        assert!(!is_beyond(Phase::Provisioning, Phase::Ready));
        assert!(!is_beyond(Phase::Ready, Phase::Ready), "it is there, which the service says");
        for phase in [Phase::Failed, Phase::Deregistering, Phase::Deprovisioning, Phase::Deleted] {
            assert!(!is_beyond(phase, Phase::Provisioning), "{phase}");
            assert!(!is_beyond(Phase::Ready, phase), "{phase}");
        }
    }
}
