//! Deletion of the substrate: first the composite resource, then the ProviderConfig, once no composed object is left.
//!
//! A provider needs the ProviderConfig to finalise composed objects, so a missing one is restored until then. The
//! broker never deletes composed objects.

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
            // A background deletion may finish before that of owned plain data, which would then have no proof of
            // absence.
            if *deleting && observation.plain_data.is_empty() {
                restore_config(resource, observation, progress)
            } else {
                NextStep::Perform(Effect::DeleteXr(at.uid.clone()))
            }
        }
        (XrObservation::Absent, ConfigObservation::Stands { at, deleting: false, .. })
            if !observation.composed_left =>
        {
            NextStep::Perform(Effect::DeleteProviderConfig(at.uid.clone()))
        }
        (XrObservation::Absent, _) => restore_config(resource, observation, progress),
    }
}
