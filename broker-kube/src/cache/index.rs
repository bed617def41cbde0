//! The objects of one kind, after a list and the events that follow it. Synchronous: no I/O and no waiting.
//!
//! Invariant: no event takes the index back. Every list and every event carries the version of the store that it
//! describes. An event at the version of the index is a duplicate and is dropped. An older event belongs to another
//! history: the index refuses it ([`WentBack`]), and only a list can restore the view.

use std::cmp::Ordering;

use broker_domain::ProvisionedResourceId;
use broker_ports::{CachedXr, OwnedObject, ResourceIds};
use serde_json::Value;

use super::entry::Key;
use super::kept::{Keep, Kept};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Applied(&'a Value),
    /// An object was deleted, or lost the selected label.
    Deleted(&'a Value),
    /// The store reached this version without a change of the kind.
    Bookmark(&'a Value),
}

/// An event is older than the index: the store was restored, or the sender is not an API server. An API server sends
/// the versions of a watch in ascending order, all above the start version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WentBack;

#[derive(Debug)]
pub(super) struct Index {
    keep: Keep,
    kept: Kept,
    /// The store version of the index, from which the next watch starts.
    version: Option<String>,
    listed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Listing {
    kept: Kept,
}

impl Index {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, kept: Kept::default(), version: None, listed: false }
    }

    /// The start version of the next watch. `None` before the first list and after the version has expired.
    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Drops the version, so that the next step is a list. Keeps the objects, so that the list can detect changes.
    pub(super) fn expire(&mut self) {
        self.version = None;
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.kept.get(key)
    }

    pub(super) fn has_name(&self, key: &Key) -> bool {
        self.kept.has_name(key)
    }

    /// Every object, reported under this API version and kind. Skips the objects of the resources in `except`.
    pub(super) fn owned(&self, names: (&str, &str), except: &ResourceIds) -> Vec<OwnedObject> {
        self.kept.owned(self.keep, names, except)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.kept.len()
    }

    /// Applies a complete list at `version` of the store and returns the resources that changed. The first list
    /// reports no change: a started broker sweeps anyway.
    pub(super) fn take(&mut self, listing: Listing, version: String) -> Vec<ProvisionedResourceId> {
        let Listing { mut kept } = listing;
        kept.shrink();
        let changed = if self.listed { self.kept.changed(&kept) } else { Vec::new() };
        self.kept = kept;
        self.version = Some(version);
        self.listed = true;
        changed
    }

    /// Applies an event. Returns the resource that it changes, if any.
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

    /// Advances to a version; false if the index is already there. Non-numeric versions cannot be compared, so their
    /// order of arrival counts.
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
    pub(super) fn add(&mut self, object: &Value, keep: Keep) {
        self.kept.insert(object, keep);
    }
}

#[cfg(test)]
mod tests;
