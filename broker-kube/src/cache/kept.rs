//! What is kept of the objects of one kind, in as few bytes as it takes.
//!
//! Of a composite resource all that a sweep compares ([`Entry`]). Of a ProviderConfig, and of whatever else
//! carries our label under a name that is none of ours, only which object it is: a sweep asks whose it is.

use std::collections::{BTreeMap, HashMap};

use broker_domain::{ObjectReference, ProvisionedResourceId};
use broker_ports::{CachedXr, ObjectVersion, OwnedObject, OwnedRole, ResourceIds};
use broker_render::{NamespaceName, XrdScope};
use serde_json::Value;

use super::entry::{Entry, Key, Version};

/// What is kept of the objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Keep {
    /// What a sweep asks for: composite resources.
    Entries(XrdScope),
    /// Which objects stand: ProviderConfigs.
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

/// The objects of one kind.
#[derive(Debug, Default)]
pub(super) struct Kept {
    // What is kept stands behind a pointer because a map keeps up to half of its room free, and an empty place
    // for a pointer costs less than an empty place for an entry.
    entries: HashMap<Key, Box<Entry>>,
    marks: HashMap<Key, Box<Mark>>,
    /// What carries our label and no name of ours, by namespace and name. There should be none.
    strangers: BTreeMap<(Option<Box<str>>, Box<str>), Mark>,
}

/// Which object it is, at which version, and whether it goes.
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
    /// Takes in an object as it stands now. Returns the resource that it belongs to.
    pub(super) fn insert(&mut self, object: &Value, keep: Keep) -> Option<ProvisionedResourceId> {
        let Some(key) = Key::of(object) else {
            self.strangers.insert(place(object)?, Mark::of(object)?);
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

    /// An object is gone. Returns the resource that it belonged to.
    pub(super) fn remove(&mut self, object: &Value) -> Option<ProvisionedResourceId> {
        let Some(key) = Key::of(object) else {
            self.strangers.remove(&place(object)?);
            return None;
        };
        self.entries.remove(&key);
        self.marks.remove(&key);
        key.resource()
    }

    /// Whose objects came, went or changed between this and `later`.
    pub(super) fn changed(&self, later: &Self) -> Vec<ProvisionedResourceId> {
        let entries = changed(&self.entries, &later.entries);
        entries.chain(changed(&self.marks, &later.marks)).filter_map(Key::resource).collect()
    }

    /// Gives back the room that only growing took.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.entries.get(key).map_or(CachedXr::Absent, |entry| entry.show())
    }

    /// Whether an object stands of which only the name is kept.
    pub(super) fn has_name(&self, key: &Key) -> bool {
        self.marks.contains_key(key)
    }

    /// Everything, as a list of the kind would name it; the objects of some resources excepted.
    pub(super) fn owned(
        &self,
        keep: Keep,
        (api_version, kind): (&str, &str),
        except: &ResourceIds,
    ) -> Vec<OwnedObject> {
        let owned = |name: &str, within: Option<&str>, version: &Version, deleting: bool| {
            // What the API server listed under a name has one.
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
        let strangers = self
            .strangers
            .iter()
            .map(|((within, name), it)| owned(name, within.as_deref(), &it.version, it.deleting));
        entries.chain(marks).chain(strangers).flatten().collect()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.marks.len() + self.strangers.len()
    }
}

fn changed<'a, T: PartialEq>(
    before: &'a HashMap<Key, T>,
    later: &'a HashMap<Key, T>,
) -> impl Iterator<Item = Key> + 'a {
    let came = later.iter().filter(|(key, it)| before.get(key) != Some(it)).map(|(key, _)| key);
    came.chain(before.keys().filter(|key| !later.contains_key(key))).copied()
}

/// Where an object stands: its namespace, if it has one, and its name.
fn place(object: &Value) -> Option<(Option<Box<str>>, Box<str>)> {
    let metadata = object.get("metadata")?;
    let within = metadata.get("namespace").and_then(Value::as_str).map(Box::from);
    Some((within, metadata.get("name")?.as_str()?.into()))
}
