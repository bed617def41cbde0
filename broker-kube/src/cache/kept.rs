//! The compact store for the objects of one kind.
//!
//! A composite resource keeps every field that a sweep compares ([`Entry`]). A ProviderConfig, and any labelled
//! object with a foreign name, keeps only its identity.

use std::collections::{BTreeMap, HashMap};

use broker_domain::{ObjectReference, ProvisionedResourceId};
use broker_ports::{CachedXr, ObjectVersion, OwnedObject, OwnedRole, ResourceIds};
use broker_render::{NamespaceName, XrdScope};
use serde_json::Value;

use super::entry::{Entry, Key, Version};

/// The level of detail that a kind keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Keep {
    /// Everything that a sweep compares: composite resources.
    Entries(XrdScope),
    /// Identity only: ProviderConfigs.
    Names,
}

impl Keep {
    const fn role(self) -> OwnedRole {
        match self {
            Self::Entries(_) => OwnedRole::Xr,
            Self::Names => OwnedRole::ProviderConfig,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Kept {
    // Boxed: a map keeps up to half of its slots free, and a free pointer slot is smaller than a free entry slot.
    entries: HashMap<Key, Box<Entry>>,
    marks: HashMap<Key, Box<Mark>>,
    /// Labelled objects whose names do not follow the broker's scheme, by namespace and name. Normally empty.
    foreign: BTreeMap<(Option<Box<str>>, Box<str>), Mark>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mark {
    version: Version,
    deleting: bool,
}

impl Mark {
    /// `None` for an object without a uid or version, which no API server sends.
    fn of(object: &Value) -> Option<Self> {
        let version = Version::of(ObjectVersion::of(object).ok()?);
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        Some(Self { version, deleting })
    }
}

impl Kept {
    /// Stores the current state of an object. Returns the resource that owns it.
    pub(super) fn insert(&mut self, object: &Value, keep: Keep) -> Option<ProvisionedResourceId> {
        let Some(key) = Key::of(object) else {
            self.foreign.insert(place(object)?, Mark::of(object)?);
            return None;
        };
        match keep {
            Keep::Entries(scope) => {
                self.entries.insert(key, Box::new(Entry::of(object, scope)?));
            }
            Keep::Names => {
                self.marks.insert(key, Box::new(Mark::of(object)?));
            }
        }
        key.resource()
    }

    pub(super) fn remove(&mut self, object: &Value) -> Option<ProvisionedResourceId> {
        let Some(key) = Key::of(object) else {
            self.foreign.remove(&place(object)?);
            return None;
        };
        self.entries.remove(&key);
        self.marks.remove(&key);
        key.resource()
    }

    /// The resources whose objects were created, deleted or changed between this and `later`.
    pub(super) fn changed(&self, later: &Self) -> Vec<ProvisionedResourceId> {
        let entries = changed(&self.entries, &later.entries);
        entries.chain(changed(&self.marks, &later.marks)).filter_map(Key::resource).collect()
    }

    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.entries.get(key).map_or(CachedXr::Absent, |entry| entry.show())
    }

    /// Whether an object exists that keeps its identity only.
    pub(super) fn has_name(&self, key: &Key) -> bool {
        self.marks.contains_key(key)
    }

    /// Every object, reported under this API version and kind. Skips the objects of the resources in `except`.
    pub(super) fn owned(
        &self,
        keep: Keep,
        (api_version, kind): (&str, &str),
        except: &ResourceIds,
    ) -> Vec<OwnedObject> {
        let owned = |name: &str, within: Option<&str>, version: &Version, deleting: bool| {
            // The API server listed the object under this name, so the reference is valid.
            let reference = ObjectReference::new(api_version, kind, name, within).ok()?;
            let object = OwnedObject::new(reference, version.show().uid, keep.role());
            Some(if deleting { object.being_deleted() } else { object })
        };
        let named = |key: &Key, version: &Version, deleting: bool| {
            let (name, home) = key.place()?;
            owned(name.as_str(), home.as_ref().map(NamespaceName::as_str), version, deleting)
        };
        let wanted = |key: &Key| key.resource().is_none_or(|id| !except.contains(&id));
        let entries = self.entries.iter().filter(|(key, _)| wanted(key));
        let entries = entries.map(|(key, it)| named(key, it.version(), it.is_deleting()));
        let marks = self.marks.iter().filter(|(key, _)| wanted(key));
        let marks = marks.map(|(key, it)| named(key, &it.version, it.deleting));
        let foreign = self
            .foreign
            .iter()
            .map(|((within, name), it)| owned(name, within.as_deref(), &it.version, it.deleting));
        entries.chain(marks).chain(foreign).flatten().collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.marks.len() + self.foreign.len()
    }
}

fn changed<'a, T: PartialEq>(
    before: &'a HashMap<Key, T>,
    later: &'a HashMap<Key, T>,
) -> impl Iterator<Item = Key> + 'a {
    let came = later.iter().filter(|(key, it)| before.get(key) != Some(it)).map(|(key, _)| key);
    came.chain(before.keys().filter(|key| !later.contains_key(key))).copied()
}

fn place(object: &Value) -> Option<(Option<Box<str>>, Box<str>)> {
    let metadata = object.get("metadata")?;
    let within = metadata.get("namespace").and_then(Value::as_str).map(Box::from);
    Some((within, metadata.get("name")?.as_str()?.into()))
}
