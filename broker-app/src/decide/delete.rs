//! Deletion of the substrate: first the composite resource, then the ProviderConfig, once no composed object is left.
//!
//! A provider needs the ProviderConfig to finalise composed objects, so the pass restores a missing ProviderConfig while
//! composed objects exist. The broker never deletes composed objects, and leaves a shared ProviderConfig to its last user.

use broker_domain::ProvisionedResource;

use super::apply::restore_config;
use super::{EarlyExit, Effect, NextStep, Progress};
use crate::observe::{ConfigObservation, Observation, XrObservation};

pub(super) fn decide(
    resource: &ProvisionedResource,
    observation: &Observation,
    progress: &Progress,
) -> NextStep {
    if progress.finished {
        return NextStep::Continue;
    }
    // The observation must be later than the closing of tokens; otherwise a Node could have enrolled in between.
    if !resource.token_closed() {
        return NextStep::End(EarlyExit::TokensOpen);
    }
    match (&observation.xr, &observation.config) {
        (XrObservation::Shell { at, deleting } | XrObservation::Armed { at, deleting, .. }, _) => {
            // After a background deletion, the absence of the composite resource does not prove the absence of plain
            // data: delete in the foreground.
            if *deleting && observation.plain_data.is_empty() {
                restore_config(resource, observation, progress)
            } else {
                NextStep::Perform(Effect::DeleteXr(at.uid.clone()))
            }
        }
        (XrObservation::Absent, ConfigObservation::Exists { at, deleting: false, .. })
            if !observation.composed_left && resource.own_provider_config().is_some() =>
        {
            NextStep::Perform(Effect::DeleteProviderConfig(at.uid.clone()))
        }
        (XrObservation::Absent, _) => restore_config(resource, observation, progress),
    }
}
