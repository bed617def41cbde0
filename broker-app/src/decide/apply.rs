//! Apply: the ProviderConfig, then the composite resource in two steps, shell and arm.
//!
//! Both steps are conditional, so a late request of a worker that lost its lease is harmless. A late shell composes
//! nothing. A late arm fails on its version, because the next worker touches every existing shell.

use broker_domain::{MeshRole, ProvisionedResource, XrUid};
use broker_ports::{LostObject, ObjectVersion};
use broker_render::{Armed, Precondition};

use super::{EarlyExit, Effect, NextStep, Progress, TokenProgress};
use crate::observe::{ConfigObservation, Observation, XrObservation};

pub(super) fn may_apply(resource: &ProvisionedResource, observation: &Observation) -> bool {
    let config_is_deleting =
        matches!(observation.config, ConfigObservation::Exists { deleting: true, .. });
    observation.gate.is_open()
        && !observation.is_held(resource.project_id())
        // An object that is being deleted still accepts an apply, and would reappear without its substrate.
        && !observation.xr.is_being_deleted()
        && !config_is_deleting
}

pub(super) fn decide(
    resource: &ProvisionedResource,
    observation: &Observation,
    progress: &Progress,
) -> NextStep {
    if !may_apply(resource, observation) || progress.finished {
        return NextStep::Continue;
    }
    if let (Some(lost), false) = (lost(observation), progress.permitted) {
        return NextStep::Perform(Effect::TakePermit(lost));
    }
    if observation.config_needs_apply() && !progress.config_applied {
        return NextStep::Perform(Effect::ApplyProviderConfig(config_precondition(observation)));
    }
    match (&observation.xr, &progress.shell) {
        (XrObservation::Armed { at, with, applied, .. }, _) => {
            keep_armed(resource, at, *with, *applied)
        }
        (XrObservation::Absent, None) => {
            NextStep::Perform(Effect::ApplyShell(Precondition::Absent))
        }
        // Touch a shell of an earlier pass, so that a late arm of that pass fails on its version.
        (XrObservation::Shell { at, .. }, None) => {
            NextStep::Perform(Effect::ApplyShell(at.unchanged()))
        }
        (XrObservation::Absent | XrObservation::Shell { .. }, Some(shell)) => {
            arm(resource, shell, progress)
        }
    }
}

pub(super) fn restore_config(
    resource: &ProvisionedResource,
    observation: &Observation,
    progress: &Progress,
) -> NextStep {
    let done = progress.config_applied || progress.finished;
    if observation.restores_config(resource) && !done {
        return NextStep::Perform(Effect::ApplyProviderConfig(Precondition::Absent));
    }
    NextStep::Continue
}

/// The lost composite resource: its uid is on record, and it no longer exists. A shell with the recorded uid was never
/// armed, so it is not a loss. Re-creating a lost composite resource can destroy a machine.
fn lost(observation: &Observation) -> Option<LostObject> {
    let applied = observation.substrate.applied()?;
    match &observation.xr {
        XrObservation::Absent => Some(LostObject::Xr(applied.clone())),
        XrObservation::Shell { at, .. } => {
            (applied.as_str() != at.uid).then(|| LostObject::Xr(applied.clone()))
        }
        XrObservation::Armed { .. } => None,
    }
}

/// The uid of this pass's shell, if the arm is the next effect: the row records the uid before the arm.
pub(super) fn uid_before_arm(resource: &ProvisionedResource, progress: &Progress) -> Option<XrUid> {
    let shell = progress.shell.as_ref()?;
    match (resource.mesh_role(), &progress.token) {
        (MeshRole::Standalone, _) | (MeshRole::Node, TokenProgress::Recorded(_)) => uid_of(shell),
        (
            MeshRole::Node,
            TokenProgress::NotQueried
            | TokenProgress::Consumed(_)
            | TokenProgress::Deregistered
            | TokenProgress::Issued(..),
        ) => None,
    }
}

/// `None` for an invalid uid; the next pass reads the uid again.
fn uid_of(version: &ObjectVersion) -> Option<XrUid> {
    XrUid::new(version.uid.clone()).ok()
}

/// An armed resource never gets another token, even if the token expired or its Node was lost.
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
        (MeshRole::Node, TokenProgress::NotQueried) => Effect::IssueToken(ordinal),
        (MeshRole::Node, TokenProgress::Consumed(token)) if !progress.permitted => {
            Effect::TakePermit(LostObject::Node(*token))
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

fn config_precondition(observation: &Observation) -> Precondition {
    match &observation.config {
        ConfigObservation::Absent => Precondition::Absent,
        ConfigObservation::Exists { at, .. } => at.unchanged(),
    }
}
