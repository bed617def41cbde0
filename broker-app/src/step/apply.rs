//! The apply: ProviderConfig, then the composite resource in two steps, shell and arm.
//!
//! Both steps are conditional, so a request of a worker that was cut off can never start or change anything:
//! a late shell composes nothing, a late arm finds the version changed, because the next worker touches every
//! shell that it finds before it goes on.

use broker_domain::{MeshRole, ProvisionedResource};
use broker_ports::ObjectVersion;
use broker_render::{Armed, Precondition};

use super::seen::{ConfigSeen, Gate, Seen, XrSeen};
use super::{Effect, Ending, Progress, TokenProgress, Verdict};

/// Whether anything may be applied at all.
pub(super) fn goes_ahead(seen: &Seen) -> bool {
    let config_is_leaving = matches!(seen.config, ConfigSeen::Stands { deleting: true, .. });
    seen.gate == Gate::Open
        && !seen.braked
        // What is being deleted still accepts an apply, and would come back as a zombie.
        && !seen.xr.is_being_deleted()
        && !config_is_leaving
}

pub(super) fn decide(resource: &ProvisionedResource, seen: &Seen, progress: &Progress) -> Verdict {
    if !goes_ahead(seen) || progress.finished {
        return Verdict::Continue;
    }
    if seen.config_needs_apply() && !progress.config_applied {
        return Verdict::Perform(Effect::ApplyProviderConfig(config_precondition(seen)));
    }
    match (&seen.xr, &progress.shell) {
        (XrSeen::Armed { at, with, applied, .. }, _) => keep_armed(resource, at, *with, *applied),
        (XrSeen::Absent, None) => Verdict::Perform(Effect::ApplyShell(Precondition::Absent)),
        // A shell that an earlier pass left is touched first: whatever that pass may still have under way
        // builds on a version that is then gone.
        (XrSeen::Shell { at, .. }, None) => Verdict::Perform(Effect::ApplyShell(at.unchanged())),
        (XrSeen::Absent | XrSeen::Shell { .. }, Some(shell)) => arm(resource, shell, progress),
    }
}

/// An armed resource never gets another token, neither when it expired nor when the Node was lost.
fn keep_armed(
    resource: &ProvisionedResource,
    at: &ObjectVersion,
    with: Option<Armed>,
    applied: bool,
) -> Verdict {
    let own = match resource.mesh_role() {
        MeshRole::Standalone => Some(Armed::Standalone),
        MeshRole::Node => resource.bootstrap_token_id().map(Armed::Token),
    };
    match own {
        Some(own) if with == Some(own) => {
            if applied {
                Verdict::Continue
            } else {
                Verdict::Perform(Effect::Reapply(own, at.clone()))
            }
        }
        Some(_) | None => Verdict::End(Ending::StaleRow),
    }
}

fn arm(resource: &ProvisionedResource, shell: &ObjectVersion, progress: &Progress) -> Verdict {
    let ordinal = resource.token_ordinal();
    Verdict::Perform(match (resource.mesh_role(), &progress.token) {
        (MeshRole::Standalone, _) => Effect::Arm(Armed::Standalone, shell.clone()),
        (MeshRole::Node, TokenProgress::NotAsked) => Effect::IssueToken(ordinal),
        (MeshRole::Node, TokenProgress::Consumed(token)) => Effect::DeregisterNode(*token),
        (MeshRole::Node, TokenProgress::Deregistered) => Effect::IssueToken(ordinal.next()),
        (MeshRole::Node, TokenProgress::Issued(token, ordinal)) => {
            Effect::RecordToken(*token, *ordinal)
        }
        (MeshRole::Node, TokenProgress::Recorded(token)) => {
            Effect::Arm(Armed::Token(*token), shell.clone())
        }
    })
}

fn config_precondition(seen: &Seen) -> Precondition {
    match &seen.config {
        ConfigSeen::Absent => Precondition::Absent,
        ConfigSeen::Stands { at, .. } => at.unchanged(),
    }
}
