//! What a sweep found, for probes, logs and people.

use std::collections::BTreeMap;

use broker_domain::ProvisionedResourceId;
use broker_ports::Brake;

use crate::error::{Error, in_words};

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Rows that were looked at.
    pub looked_at: usize,
    /// Of these: nothing to do.
    pub settled: usize,
    /// Of these: something to do, but not now, or not by us.
    pub waiting: usize,
    /// Of these: handed over for a pass.
    pub handed_over: usize,
    /// Composite resources that should stand and were not seen.
    pub missing: usize,
    /// The brake, if it is on.
    pub brake: Option<Brake>,
    /// What could not be looked at, or failed in its pass.
    pub troubles: BTreeMap<ProvisionedResourceId, Trouble>,
}

/// Why one resource could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The reason, of a closed set.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// The broker's own footing is at fault, and not the resource.
    pub infrastructure: bool,
}

impl SweepReport {
    /// Notes a resource's trouble.
    pub(crate) fn trouble(&mut self, id: ProvisionedResourceId, error: &Error) {
        let trouble = Trouble {
            reason: error.reason(),
            message: in_words(error),
            infrastructure: error.is_infrastructure(),
        };
        self.troubles.insert(id, trouble);
    }

    /// Troubles by reason.
    pub fn by_reason(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for trouble in self.troubles.values() {
            *counts.entry(trouble.reason).or_default() += 1;
        }
        counts
    }
}
