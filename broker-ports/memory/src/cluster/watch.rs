//! What others get to see of a change, sooner, later, twice or never: the watch cache and the hints.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::task::{Context, Poll};

use broker_domain::{ObjectReference, ProvisionedResourceId, XrName};
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL};
use futures_core::Stream;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::object::Object;

/// How hints travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HintDelivery {
    /// At once, and once.
    #[default]
    Prompt,
    /// Only when [`release_hints`](super::MemoryCluster::release_hints) is called.
    Late,
    /// Twice.
    Doubled,
    /// Never.
    Lost,
    /// Each as chance has it, by this seed.
    Seeded(u64),
}

/// The watch: who listens, how hints travel, and what the cache shows.
#[derive(Default)]
pub(super) struct Watch {
    listeners: Vec<UnboundedSender<ProvisionedResourceId>>,
    delivery: HintDelivery,
    chance: Option<StdRng>,
    held: Vec<ProvisionedResourceId>,
    /// What the cache shows while it lags; `None` while it keeps up.
    pub(super) lagging: Option<BTreeMap<ObjectReference, Value>>,
    /// What the cache misses.
    pub(super) missed: BTreeSet<ObjectReference>,
}

impl Watch {
    pub(super) fn deliver(&mut self, delivery: HintDelivery) {
        self.delivery = delivery;
        self.chance = match delivery {
            HintDelivery::Seeded(seed) => Some(StdRng::seed_from_u64(seed)),
            HintDelivery::Prompt
            | HintDelivery::Late
            | HintDelivery::Doubled
            | HintDelivery::Lost => None,
        };
    }

    /// An object changed. The watch is by our label, so that a change of anything else is not seen.
    pub(super) fn changed(&mut self, reference: &ObjectReference, object: &Object) {
        if object.label(MANAGED_BY_LABEL) != Some(FIELD_MANAGER) {
            return;
        }
        let Some(resource) = XrName::id_of(reference.name()) else { return };
        let delivery = match &mut self.chance {
            None => self.delivery,
            Some(chance) => match chance.random_range(0..4) {
                0 => HintDelivery::Late,
                1 => HintDelivery::Doubled,
                2 => HintDelivery::Lost,
                _ => HintDelivery::Prompt,
            },
        };
        match delivery {
            HintDelivery::Prompt | HintDelivery::Seeded(_) => self.send(resource),
            HintDelivery::Late => self.held.push(resource),
            HintDelivery::Doubled => {
                self.send(resource);
                self.send(resource);
            }
            HintDelivery::Lost => {}
        }
    }

    pub(super) fn release(&mut self) {
        for resource in std::mem::take(&mut self.held) {
            self.send(resource);
        }
    }

    pub(super) fn listen(&mut self) -> Listener {
        let (sender, receiver) = unbounded_channel();
        self.listeners.push(sender);
        Listener(receiver)
    }

    /// Ends every stream of hints, as a watch ends when its connection does.
    pub(super) fn end(&mut self) {
        self.listeners.clear();
    }

    fn send(&mut self, resource: ProvisionedResourceId) {
        self.listeners.retain(|listener| listener.send(resource).is_ok());
    }
}

/// A stream of hints.
pub(super) struct Listener(UnboundedReceiver<ProvisionedResourceId>);

impl Stream for Listener {
    type Item = ProvisionedResourceId;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
