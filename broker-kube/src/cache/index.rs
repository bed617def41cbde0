//! The objects of one kind, after a list and the events that follow it. Synchronous: no I/O and no waiting.
//!
//! Invariant: the version of the index never decreases. Every list and every event carries the version of the store
//! that it describes. An event at the version of the index is a duplicate and is dropped. An older event belongs to
//! another history of the store: the index refuses it ([`VersionWentBack`]), and only a list can restore the view.

use std::cmp::Ordering;

use broker_domain::ProvisionedResourceId;
use broker_ports::{CachedXr, OwnedObject, ResourceIds};
use serde_json::Value;

use super::entry::Key;
use super::store::{ObjectStore, StoreMode};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Applied(&'a Value),
    /// An object was deleted or lost the selected label.
    Deleted(&'a Value),
    /// The store reached this version without a change of the kind.
    Bookmark(&'a Value),
}

/// An event is older than the index: the store was restored, or the sender is not an API server. An API server sends
/// the versions of a watch in ascending order, all above the start version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VersionWentBack;

#[derive(Debug)]
pub(super) struct Index {
    mode: StoreMode,
    store: ObjectStore,
    /// The store version of the index, from which the next watch starts.
    version: Option<String>,
    has_list: bool,
}

#[derive(Debug, Default)]
pub(super) struct Listing {
    store: ObjectStore,
}

impl Index {
    pub(super) fn new(mode: StoreMode) -> Self {
        Self { mode, store: ObjectStore::default(), version: None, has_list: false }
    }

    /// The start version of the next watch. `None` before the first list and after the version has expired.
    pub(super) fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Drops the version, so that the follower lists next. Keeps the objects, so that the list can detect changes.
    pub(super) fn expire(&mut self) {
        self.version = None;
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.store.get(key)
    }

    pub(super) fn has_identity(&self, key: &Key) -> bool {
        self.store.has_identity(key)
    }

    pub(super) fn has_foreign(&self, namespace: &str, name: &str) -> bool {
        self.store.has_foreign(namespace, name)
    }

    /// Every object, reported under this API version and kind. Skips the objects of the resources in `except`.
    pub(super) fn owned(&self, kind_name: (&str, &str), except: &ResourceIds) -> Vec<OwnedObject> {
        self.store.owned(self.mode, kind_name, except)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.store.len()
    }

    /// Applies a complete list at `version` of the store and returns the resources that changed. The first list
    /// reports no change: a started broker sweeps anyway.
    pub(super) fn replace(
        &mut self,
        listing: Listing,
        version: String,
    ) -> Vec<ProvisionedResourceId> {
        let Listing { mut store } = listing;
        store.shrink();
        let changed = if self.has_list { self.store.changed(&store) } else { Vec::new() };
        self.store = store;
        self.version = Some(version);
        self.has_list = true;
        changed
    }

    /// Applies an event. Returns the resource that it changes, if any.
    pub(super) fn apply(
        &mut self,
        event: Event<'_>,
    ) -> Result<Option<ProvisionedResourceId>, VersionWentBack> {
        let (Event::Applied(object) | Event::Deleted(object) | Event::Bookmark(object)) = event;
        let version = object.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
        let Some(version) = version.and_then(Value::as_str) else { return Ok(None) };
        if !self.advance(version)? {
            return Ok(None);
        }
        Ok(match event {
            Event::Applied(_) => self.store.insert(object, self.mode),
            Event::Deleted(_) => self.store.remove(object),
            Event::Bookmark(_) => None,
        })
    }

    /// Advances to a version; false if the index has that version already. Non-numeric versions cannot be compared, so
    /// their order of arrival counts.
    fn advance(&mut self, version: &str) -> Result<bool, VersionWentBack> {
        let number = |text: &str| text.parse::<u64>().ok();
        let current = self.version.as_deref().and_then(number);
        if let (Some(current), Some(new)) = (current, number(version)) {
            match new.cmp(&current) {
                Ordering::Less => return Err(VersionWentBack),
                Ordering::Equal => return Ok(false),
                Ordering::Greater => {}
            }
        }
        self.version = Some(version.to_owned());
        Ok(true)
    }
}

impl Listing {
    pub(super) fn add(&mut self, object: &Value, mode: StoreMode) {
        self.store.insert(object, mode);
    }
}

#[cfg(test)]
mod tests;
