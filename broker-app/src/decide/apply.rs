//! The apply: ProviderConfig, then the composite resource in two steps, shell and arm.
//!
//! Both steps are conditional, so a request of a worker that was cut off can never start or change anything:
//! a late shell composes nothing, a late arm finds the version changed, because the next worker touches every
//! shell that it finds before it goes on.

use broker_domain::{MeshRole, ProvisionedResource, XrUid};
use broker_ports::{Lost, ObjectVersion};
use broker_render::{Armed, Precondition};

use super::{EarlyExit, Effect, NextStep, Progress, TokenProgress};
use crate::observe::{ConfigObservation, Gate, Observation, XrObservation};

/// Whether anything may be applied at all.
pub(super) fn goes_ahead(resource: &ProvisionedResource, seen: &Observation) -> bool {
    let config_is_leaving = matches!(seen.config, ConfigObservation::Stands { deleting: true, .. });
    seen.gate == Gate::Open
        && !seen.is_held(resource.project_id())
        // What is being deleted still accepts an apply, and would come back as a zombie.
        && !seen.xr.is_being_deleted()
        && !config_is_leaving
}

pub(super) fn decide(
    resource: &ProvisionedResource,
    seen: &Observation,
    progress: &Progress,
) -> NextStep {
    if !goes_ahead(resource, seen) || progress.finished {
        return NextStep::Continue;
    }
    if let (Some(lost), false) = (lost(seen), progress.permitted) {
        return NextStep::Perform(Effect::TakePermit(lost));
    }
    if seen.config_needs_apply() && !progress.config_applied {
        return NextStep::Perform(Effect::ApplyProviderConfig(config_precondition(seen)));
    }
    match (&seen.xr, &progress.shell) {
        (XrObservation::Armed { at, with, applied, .. }, _) => {
            keep_armed(resource, at, *with, *applied)
        }
        (XrObservation::Absent, None) => {
            NextStep::Perform(Effect::ApplyShell(Precondition::Absent))
        }
        // A shell that an earlier pass left is touched first: whatever that pass may still have under way
        // builds on a version that is then gone.
        (XrObservation::Shell { at, .. }, None) => {
            NextStep::Perform(Effect::ApplyShell(at.unchanged()))
        }
        (XrObservation::Absent | XrObservation::Shell { .. }, Some(shell)) => {
            arm(resource, shell, progress)
        }
    }
}

/// Puts back a ProviderConfig that a provider still needs, and is done.
pub(super) fn restore_config(
    resource: &ProvisionedResource,
    seen: &Observation,
    progress: &Progress,
) -> NextStep {
    let done = progress.config_applied || progress.finished;
    if seen.restores_config(resource) && !done {
        return NextStep::Perform(Effect::ApplyProviderConfig(Precondition::Absent));
    }
    NextStep::Continue
}

/// What was lost: a composite resource that was armed, or about to be, and does not stand. A shell under the uid on
/// record was never armed. To create a lost one again can destroy a machine.
fn lost(seen: &Observation) -> Option<Lost> {
    let applied = seen.substrate.applied()?;
    match &seen.xr {
        XrObservation::Absent => Some(Lost::Xr(applied.clone())),
        XrObservation::Shell { at, .. } => {
            (applied.as_str() != at.uid).then(|| Lost::Xr(applied.clone()))
        }
        XrObservation::Armed { .. } => None,
    }
}

/// The uid of the own shell, once nothing is left to be done but the arm: it is on record before that is sent.
pub(super) fn about_to_arm(resource: &ProvisionedResource, progress: &Progress) -> Option<XrUid> {
    let shell = progress.shell.as_ref()?;
    match (resource.mesh_role(), &progress.token) {
        (MeshRole::Standalone, _) | (MeshRole::Node, TokenProgress::Recorded(_)) => uid_of(shell),
        (
            MeshRole::Node,
            TokenProgress::NotAsked
            | TokenProgress::Consumed(_)
            | TokenProgress::Deregistered
            | TokenProgress::Issued(..),
        ) => None,
    }
}

/// A uid that cannot be kept is read by the next pass.
fn uid_of(version: &ObjectVersion) -> Option<XrUid> {
    XrUid::new(version.uid.clone()).ok()
}

/// An armed resource never gets another token, neither when it expired nor when the Node was lost.
fn keep_armed(
    resource: &ProvisionedResource,
    at: &ObjectVersion,
    with: Option<Armed>,
    applied: bool,
) -> NextStep {
    match Armed::of(resource.mesh_role(), resource.bootstrap_token_id()) {
        Some(own) if with == Some(own) => {
            if applied {
                NextStep::Continue
            } else {
                NextStep::Perform(Effect::Reapply(own, at.clone()))
            }
        }
        Some(_) | None => NextStep::End(EarlyExit::StaleRow),
    }
}

fn arm(resource: &ProvisionedResource, shell: &ObjectVersion, progress: &Progress) -> NextStep {
    let ordinal = resource.token_ordinal();
    NextStep::Perform(match (resource.mesh_role(), &progress.token) {
        (MeshRole::Standalone, _) => Effect::Arm(Armed::Standalone, shell.clone()),
        (MeshRole::Node, TokenProgress::NotAsked) => Effect::IssueToken(ordinal),
        (MeshRole::Node, TokenProgress::Consumed(token)) if !progress.permitted => {
            Effect::TakePermit(Lost::Node(*token))
        }
        (MeshRole::Node, TokenProgress::Consumed(token)) => Effect::DeregisterNode(*token),
        (MeshRole::Node, TokenProgress::Deregistered) => Effect::IssueToken(ordinal.next()),
        (MeshRole::Node, TokenProgress::Issued(token, ordinal)) => {
            Effect::RecordToken(*token, *ordinal, uid_of(shell))
        }
        (MeshRole::Node, TokenProgress::Recorded(token)) => {
            Effect::Arm(Armed::Token(*token), shell.clone())
        }
    })
}

fn config_precondition(seen: &Observation) -> Precondition {
    match &seen.config {
        ConfigObservation::Absent => Precondition::Absent,
        ConfigObservation::Stands { at, .. } => at.unchanged(),
    }
}
