//! The compact store for the objects of one kind.
//!
//! The store keeps every field of a composite resource that a sweep compares ([`XrEntry`]). Of a ProviderConfig, and of
//! a labelled object with a foreign name, it keeps the identity only.

use std::collections::{BTreeMap, HashMap};

use broker_domain::{ObjectReference, ProvisionedResourceId};
use broker_ports::{CachedXr, ObjectVersion, OwnedObject, OwnedRole, ResourceIds};
use broker_render::{NamespaceName, XrdScope};
use serde_json::Value;

use super::entry::{CompactVersion, Key, XrEntry};

/// What the store keeps of each object of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StoreMode {
    /// Everything that a sweep compares: composite resources.
    Xrs(XrdScope),
    /// Identity only: ProviderConfigs.
    Identities,
}

impl StoreMode {
    const fn role(self) -> OwnedRole {
        match self {
            Self::Xrs(_) => OwnedRole::Xr,
            Self::Identities => OwnedRole::ProviderConfig,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ObjectStore {
    // Boxed: up to half of the slots of a map are free, and a free pointer slot is smaller than a free entry slot.
    xrs: HashMap<Key, Box<XrEntry>>,
    identities: HashMap<Key, Box<IdentityEntry>>,
    /// Labelled objects whose names do not follow the broker's scheme, by namespace and name. Normally empty.
    foreign: BTreeMap<(Option<Box<str>>, Box<str>), IdentityEntry>,
}

#[derive(Debug, PartialEq, Eq)]
struct IdentityEntry {
    version: CompactVersion,
    deleting: bool,
}

impl IdentityEntry {
    /// `None` for an object without a uid or version, which no API server sends.
    fn from_object(object: &Value) -> Option<Self> {
        let version = CompactVersion::new(ObjectVersion::of(object).ok()?);
        let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
        Some(Self { version, deleting })
    }
}

impl ObjectStore {
    /// Stores the current state of an object. Returns the resource that owns it.
    pub(super) fn insert(
        &mut self,
        object: &Value,
        mode: StoreMode,
    ) -> Option<ProvisionedResourceId> {
        let Some(key) = Key::from_object(object) else {
            self.foreign.insert(foreign_key(object)?, IdentityEntry::from_object(object)?);
            return None;
        };
        match mode {
            StoreMode::Xrs(scope) => {
                self.xrs.insert(key, Box::new(XrEntry::from_object(object, scope)?));
            }
            StoreMode::Identities => {
                self.identities.insert(key, Box::new(IdentityEntry::from_object(object)?));
            }
        }
        key.resource()
    }

    pub(super) fn remove(&mut self, object: &Value) -> Option<ProvisionedResourceId> {
        let Some(key) = Key::from_object(object) else {
            self.foreign.remove(&foreign_key(object)?);
            return None;
        };
        self.xrs.remove(&key);
        self.identities.remove(&key);
        key.resource()
    }

    /// The resources whose objects were created, deleted or changed between this and `later`.
    pub(super) fn changed(&self, later: &Self) -> Vec<ProvisionedResourceId> {
        let xrs = changed_keys(&self.xrs, &later.xrs);
        xrs.chain(changed_keys(&self.identities, &later.identities))
            .filter_map(Key::resource)
            .collect()
    }

    pub(super) fn shrink(&mut self) {
        self.xrs.shrink_to_fit();
        self.identities.shrink_to_fit();
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.xrs.get(key).map_or(CachedXr::Absent, |entry| entry.to_cached_xr())
    }

    /// Whether the store has an object of this key by identity.
    pub(super) fn has_identity(&self, key: &Key) -> bool {
        self.identities.contains_key(key)
    }

    /// Whether the store has a namespaced object whose name does not follow the broker's scheme.
    pub(super) fn has_foreign(&self, namespace: &str, name: &str) -> bool {
        self.foreign.contains_key(&(Some(namespace.into()), name.into()))
    }

    /// Every object, reported under this API version and kind. Skips the objects of the resources in `except`.
    pub(super) fn owned(
        &self,
        mode: StoreMode,
        (api_version, kind): (&str, &str),
        except: &ResourceIds,
    ) -> Vec<OwnedObject> {
        let to_owned_object =
            |name: &str, namespace: Option<&str>, version: &CompactVersion, deleting: bool| {
                // The API server listed the object under this name, so the reference is valid.
                let reference = ObjectReference::new(api_version, kind, name, namespace).ok()?;
                let object =
                    OwnedObject::new(reference, version.to_object_version().uid, mode.role());
                Some(if deleting { object.being_deleted() } else { object })
            };
        let from_key = |key: &Key, version: &CompactVersion, deleting: bool| {
            let (name, namespace) = key.name_and_namespace()?;
            to_owned_object(
                name.as_str(),
                namespace.as_ref().map(NamespaceName::as_str),
                version,
                deleting,
            )
        };
        let is_included = |key: &Key| key.resource().is_none_or(|id| !except.contains(&id));
        let xrs = self.xrs.iter().filter(|(key, _)| is_included(key));
        let xrs = xrs.map(|(key, entry)| from_key(key, entry.version(), entry.is_deleting()));
        let identities = self.identities.iter().filter(|(key, _)| is_included(key));
        let identities =
            identities.map(|(key, entry)| from_key(key, &entry.version, entry.deleting));
        let foreign = self.foreign.iter().map(|((namespace, name), entry)| {
            to_owned_object(name, namespace.as_deref(), &entry.version, entry.deleting)
        });
        xrs.chain(identities).chain(foreign).flatten().collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.xrs.len() + self.identities.len() + self.foreign.len()
    }
}

fn changed_keys<'a, T: PartialEq>(
    before: &'a HashMap<Key, T>,
    later: &'a HashMap<Key, T>,
) -> impl Iterator<Item = Key> + 'a {
    let new_or_changed =
        later.iter().filter(|(key, entry)| before.get(key) != Some(entry)).map(|(key, _)| key);
    new_or_changed.chain(before.keys().filter(|key| !later.contains_key(key))).copied()
}

fn foreign_key(object: &Value) -> Option<(Option<Box<str>>, Box<str>)> {
    let metadata = object.get("metadata")?;
    let namespace = metadata.get("namespace").and_then(Value::as_str).map(Box::from);
    Some((namespace, metadata.get("name")?.as_str()?.into()))
}
