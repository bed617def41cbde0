//! The objects of one kind, as a list and the events after it tell them. Synchronous: no request is made
//! here, and nobody waits.
//!
//! Invariant: no event takes the index back. Every list and every event carries the version of the store that it
//! describes. An event at the version of the index was seen before and is dropped. An older one is not from the
//! history that the index followed; the index refuses it ([`WentBack`]), and only a list tells what stands.

use std::cmp::Ordering;

use broker_domain::ProvisionedResourceId;
use broker_ports::{CachedXr, OwnedObject, ResourceIds};
use serde_json::Value;

use super::entry::Key;
use super::kept::{Keep, Kept};

/// One event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// An object came or changed.
    Applied(&'a Value),
    /// An object went, or lost the label that it was found by.
    Deleted(&'a Value),
    /// Nothing happened up to here.
    Bookmark(&'a Value),
}

/// An event is older than the index: the store was restored, or the sender is no API server. An API server sends
/// the versions of a watch in ascending order, all above the one that the watch began from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WentBack;

/// The objects of one kind.
#[derive(Debug)]
pub(super) struct Index {
    keep: Keep,
    kept: Kept,
    /// The version of the store that the index shows; what the next watch begins after.
    version: Option<String>,
    /// There was a list before.
    listed: bool,
}

/// A list under way, page by page.
#[derive(Debug, Default)]
pub(super) struct Listing {
    kept: Kept,
}

impl Index {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, kept: Kept::default(), version: None, listed: false }
    }

    /// Where a watch goes on; `None` before the first list and after the server has forgotten that version.
    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The server no longer knows what happened since: only a list helps. What was seen is kept, so that
    /// the list can tell what changed meanwhile.
    pub(super) fn expire(&mut self) {
        self.version = None;
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.kept.get(key)
    }

    /// Whether a ProviderConfig stands.
    pub(super) fn has_name(&self, key: &Key) -> bool {
        self.kept.has_name(key)
    }

    /// Everything that stands, as objects of the kind that goes by these names; those of some resources excepted.
    pub(super) fn owned(&self, names: (&str, &str), except: &ResourceIds) -> Vec<OwnedObject> {
        self.kept.owned(self.keep, names, except)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.kept.len()
    }

    /// Takes a complete list, made at that version of the store. Returns what differs from what was seen
    /// before. The first list tells what stands and not what changed: whoever begins, begins with a sweep.
    pub(super) fn take(&mut self, listing: Listing, version: String) -> Vec<ProvisionedResourceId> {
        let Listing { mut kept } = listing;
        kept.shrink();
        let changed = if self.listed { self.kept.changed(&kept) } else { Vec::new() };
        self.kept = kept;
        self.version = Some(version);
        self.listed = true;
        changed
    }

    /// Takes an event. Returns the resource that it is about, if there is anything new in it.
    pub(super) fn apply(
        &mut self,
        event: Event<'_>,
    ) -> Result<Option<ProvisionedResourceId>, WentBack> {
        let (Event::Applied(object) | Event::Deleted(object) | Event::Bookmark(object)) = event;
        let version = object.get("metadata").and_then(|it| it.get("resourceVersion"));
        let Some(version) = version.and_then(Value::as_str) else { return Ok(None) };
        if !self.advance(version)? {
            return Ok(None);
        }
        Ok(match event {
            Event::Applied(_) => self.kept.insert(object, self.keep),
            Event::Deleted(_) => self.kept.remove(object),
            Event::Bookmark(_) => None,
        })
    }

    /// Moves on to a version; false if the index is there already. Versions that are no numbers cannot be
    /// compared; there the order of arrival is believed.
    fn advance(&mut self, version: &str) -> Result<bool, WentBack> {
        let number = |text: &str| text.parse::<u64>().ok();
        let now = self.version.as_deref().and_then(number);
        if let (Some(now), Some(then)) = (now, number(version)) {
            match then.cmp(&now) {
                Ordering::Less => return Err(WentBack),
                Ordering::Equal => return Ok(false),
                Ordering::Greater => {}
            }
        }
        self.version = Some(version.to_owned());
        Ok(true)
    }
}

impl Listing {
    /// Adds an object of a page.
    pub(super) fn add(&mut self, object: &Value, keep: Keep) {
        self.kept.insert(object, keep);
    }
}

#[cfg(test)]
mod tests;
