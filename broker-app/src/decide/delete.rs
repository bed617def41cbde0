//! The deletion of substrate: the composite resource, then, when nothing that it composed is left, the
//! ProviderConfig, which a provider needs to finalise what it made. One that is missing is put back until then. Composed
//! objects are never deleted by us.

use broker_domain::ProvisionedResource;

use super::apply::restore_config;
use super::{EarlyExit, Effect, NextStep, Progress};
use crate::observe::{ConfigObservation, Observation, XrObservation};

pub(super) fn decide(
    resource: &ProvisionedResource,
    seen: &Observation,
    progress: &Progress,
) -> NextStep {
    if progress.finished {
        return NextStep::Continue;
    }
    // The observation must be younger than the closing of tokens, or a Node could have slipped in.
    if !resource.token_closed() {
        return NextStep::End(EarlyExit::TokensOpen);
    }
    match (&seen.xr, &seen.config) {
        (XrObservation::Shell { at, deleting } | XrObservation::Armed { at, deleting, .. }, _) => {
            // What is deleted in the background may vanish before the plain data that it owns, and nothing would prove
            // that gone.
            if *deleting && seen.plain_data.is_empty() {
                restore_config(resource, seen, progress)
            } else {
                NextStep::Perform(Effect::DeleteXr(at.uid.clone()))
            }
        }
        (XrObservation::Absent, ConfigObservation::Stands { at, deleting: false, .. })
            if !seen.composed_left =>
        {
            NextStep::Perform(Effect::DeleteProviderConfig(at.uid.clone()))
        }
        (XrObservation::Absent, _) => restore_config(resource, seen, progress),
    }
}
