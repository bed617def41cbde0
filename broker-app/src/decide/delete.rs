//! The deletion of substrate: the composite resource, then, when nothing that it composed is left, the
//! ProviderConfig, which a provider needs to finalise what it made. One that is missing is put back until then. Composed
//! objects are never deleted by us.

use broker_domain::ProvisionedResource;

use super::apply::restore_config;
use super::{Effect, Ending, Progress, Verdict};
use crate::observe::{ConfigSeen, Seen, XrSeen};

pub(super) fn decide(resource: &ProvisionedResource, seen: &Seen, progress: &Progress) -> Verdict {
    if progress.finished {
        return Verdict::Continue;
    }
    // The observation must be younger than the closing of tokens, or a Node could have slipped in.
    if !resource.token_closed() {
        return Verdict::End(Ending::TokensOpen);
    }
    match (&seen.xr, &seen.config) {
        (XrSeen::Shell { at, deleting } | XrSeen::Armed { at, deleting, .. }, _) => {
            // What is deleted in the background may vanish before the plain data that it owns, and nothing would prove
            // that gone.
            if *deleting && seen.plain_data.is_empty() {
                restore_config(resource, seen, progress)
            } else {
                Verdict::Perform(Effect::DeleteXr(at.uid.clone()))
            }
        }
        (XrSeen::Absent, ConfigSeen::Stands { at, deleting: false, .. }) if !seen.composed_left => {
            Verdict::Perform(Effect::DeleteProviderConfig(at.uid.clone()))
        }
        (XrSeen::Absent, _) => restore_config(resource, seen, progress),
    }
}
