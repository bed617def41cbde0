//! Observe: the watch cache and the hints.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ObjectReference, XrName};

use super::object::Object;
use crate::hints::Listeners;

/// How hints are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintDelivery {
    /// Immediately and exactly once.
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
    /// The frozen cache; `None` while the cache is current.
    pub(super) frozen: Option<BTreeMap<ObjectReference, Object>>,
    /// Objects that are missing in the cache.
    pub(super) hidden: BTreeSet<ObjectReference>,
}

impl Watch {
    /// Sends a hint about a changed object. The watch only selects objects with the broker's label.
    pub(super) fn notify_change(&mut self, reference: &ObjectReference, object: &Object) {
        if let Some(resource) = XrName::id_of(reference.name())
            && object.is_ours()
            && self.delivery == HintDelivery::Prompt
        {
            self.listeners.notify(resource);
        }
    }
}
