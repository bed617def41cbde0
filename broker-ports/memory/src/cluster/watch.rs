//! Observe: the watch cache and the hints.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ObjectReference, XrName};

use super::object::Object;
use crate::hints::Listeners;

/// How hints are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintDelivery {
    /// At once, and once.
    #[default]
    Prompt,
    /// Never.
    Lost,
}

/// Subscribers, hint delivery and the cached view.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) listeners: Listeners,
    pub(super) delivery: HintDelivery,
    /// The objects at the moment the cache began to lag; `None` while it is current.
    pub(super) lagging: Option<BTreeMap<ObjectReference, Object>>,
    /// Objects that the cache misses.
    pub(super) missed: BTreeSet<ObjectReference>,
}

impl Watch {
    /// Handles a changed object. The watch selects by the broker's label, so it misses changes of other objects.
    pub(super) fn changed(&mut self, reference: &ObjectReference, object: &Object) {
        if let Some(resource) = XrName::id_of(reference.name())
            && object.is_ours()
            && self.delivery == HintDelivery::Prompt
        {
            self.listeners.tell(resource);
        }
    }
}
