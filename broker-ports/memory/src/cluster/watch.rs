//! What others get to see of a change: the watch cache and the hints.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ObjectReference, XrName};

use super::object::Object;
use crate::hints::Listeners;

/// How hints travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintDelivery {
    /// At once, and once.
    #[default]
    Prompt,
    /// Never.
    Lost,
}

/// The watch: who listens, how hints travel, and what the cache shows.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) listeners: Listeners,
    pub(super) delivery: HintDelivery,
    /// What stood when the cache began to lag; `None` while it keeps up.
    pub(super) lagging: Option<BTreeMap<ObjectReference, Object>>,
    /// What the cache misses.
    pub(super) missed: BTreeSet<ObjectReference>,
}

impl Watch {
    /// An object changed. The watch is by our label, so that a change of anything else is not seen.
    pub(super) fn changed(&mut self, reference: &ObjectReference, object: &Object) {
        if let Some(resource) = XrName::id_of(reference.name())
            && object.is_ours()
            && self.delivery == HintDelivery::Prompt
        {
            self.listeners.tell(resource);
        }
    }
}
