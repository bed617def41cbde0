//! What is looked at: one resource's objects, named completely before anything is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_domain::{Error, ObjectReference, ProjectId, ProvisionedResourceId, XrName};
use broker_render::catalog::ComposedKind;
use broker_render::{ProviderConfigScope, ProviderProfile, Xrd, namespace};

/// A composite resource: enough to find it among many.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct XrTarget {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project, whose namespace it stands in.
    pub project: ProjectId,
    /// Its kind.
    pub xrd: Arc<Xrd>,
    /// The kind of its ProviderConfig, where that should be looked for, too.
    pub config_kind: Option<Arc<ConfigKind>>,
}

/// A kind of ProviderConfig.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigKind {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Whether it stands in the Project's namespace.
    pub scope: ProviderConfigScope,
}

impl ConfigKind {
    /// A kind of this API version and scope.
    pub const fn new(api_version: String, kind: String, scope: ProviderConfigScope) -> Self {
        Self { api_version, kind, scope }
    }
}

impl From<ProviderProfile> for ConfigKind {
    fn from(profile: ProviderProfile) -> Self {
        Self { api_version: profile.api_version(), kind: profile.kind, scope: profile.scope }
    }
}

impl XrTarget {
    /// The composite resource of a resource in a Project, of a kind.
    pub const fn new(resource: ProvisionedResourceId, project: ProjectId, xrd: Arc<Xrd>) -> Self {
        Self { resource, project, xrd, config_kind: None }
    }

    /// With the kind of its ProviderConfig, which is then looked for, too.
    #[must_use]
    pub fn with_config(mut self, kind: Option<Arc<ConfigKind>>) -> Self {
        self.config_kind = kind;
        self
    }

    /// The ProviderConfig, named completely; `None` where it is not looked for.
    pub fn config_reference(&self) -> Option<ObjectReference> {
        let ConfigKind { api_version, kind, scope } = &**self.config_kind.as_ref()?;
        let home = namespace(self.project);
        let within = match scope {
            ProviderConfigScope::Namespaced => Some(home.as_str()),
            ProviderConfigScope::Cluster => None,
        };
        // A profile's names are never empty.
        ObjectReference::new(api_version, kind, self.resource.xr_name().as_str(), within).ok()
    }

    /// The composite resource, named completely.
    ///
    /// # Errors
    ///
    /// None for a parsed XRD, whose names are never empty; the reference's own rule is passed on.
    pub fn reference(&self) -> Result<ObjectReference, Error> {
        let home = namespace(self.project);
        let within = self.xrd.scope().is_namespaced().then(|| home.as_str());
        ObjectReference::new(
            self.xrd.api_version(),
            self.xrd.kind(),
            self.resource.xr_name().as_str(),
            within,
        )
    }
}

/// Everything of one resource that may stand on the cluster.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Target {
    /// The composite resource.
    pub xr: XrTarget,
    /// The ProviderConfig; `None` while none was ever about to be applied, so that there is none to read.
    pub provider_config: Option<ObjectReference>,
    /// The kinds that the blueprint's Composition makes, as far as they are known.
    pub composed_kinds: Arc<[ComposedKind]>,
    /// The composed objects on record, to be read by name.
    pub recorded: BTreeSet<ObjectReference>,
}

impl Target {
    /// A composite resource and its ProviderConfig, if it has one; nothing else is known to stand.
    pub fn new(xr: XrTarget, provider_config: impl Into<Option<ObjectReference>>) -> Self {
        let provider_config = provider_config.into();
        Self { xr, provider_config, composed_kinds: Arc::new([]), recorded: BTreeSet::new() }
    }

    /// With the kinds that the blueprint's Composition makes.
    #[must_use]
    pub fn composing(mut self, kinds: impl Into<Arc<[ComposedKind]>>) -> Self {
        self.composed_kinds = kinds.into();
        self
    }

    /// With the composed objects on record.
    #[must_use]
    pub fn with_recorded(mut self, recorded: BTreeSet<ObjectReference>) -> Self {
        self.recorded = recorded;
        self
    }
}

/// Which kinds may hold objects of ours.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OwnedKinds {
    /// The kinds of composite resources.
    pub xrds: Vec<Arc<Xrd>>,
    /// The kinds of ProviderConfigs, as API version and kind.
    pub provider_configs: Vec<(String, String)>,
}

impl OwnedKinds {
    /// Kinds of composite resources, and kinds of ProviderConfigs as API version and kind.
    pub const fn new(xrds: Vec<Arc<Xrd>>, provider_configs: Vec<(String, String)>) -> Self {
        Self { xrds, provider_configs }
    }
}

/// Resources, however many. Clones share them.
///
/// ```
/// use broker_ports::ResourceIds;
/// # use broker_domain::ProvisionedResourceId;
/// # let id = |text: &str| text.parse::<ProvisionedResourceId>().unwrap();
/// # let one = id("0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57");
/// # let other = id("0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e58");
///
/// let ids: ResourceIds = [one].into_iter().collect();
/// assert!(ids.contains(&one) && !ids.contains(&other));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceIds {
    /// In order, each once: as small as they can be, and quickly searched.
    ids: Arc<[ProvisionedResourceId]>,
}

impl ResourceIds {
    /// Whether this is one of them.
    pub fn contains(&self, id: &ProvisionedResourceId) -> bool {
        self.ids.binary_search(id).is_ok()
    }
}

impl FromIterator<ProvisionedResourceId> for ResourceIds {
    fn from_iter<I: IntoIterator<Item = ProvisionedResourceId>>(ids: I) -> Self {
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        Self { ids: ids.into() }
    }
}

/// Which objects of ours to list.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OwnedQuery {
    /// Of which kinds.
    pub kinds: OwnedKinds,
    /// Where the page before ended.
    pub after: Option<String>,
    /// Resources whose objects nobody asks about.
    pub except: ResourceIds,
}

impl OwnedQuery {
    /// From the beginning.
    pub fn new(kinds: OwnedKinds) -> Self {
        Self { kinds, after: None, except: ResourceIds::default() }
    }

    /// Without the objects of these resources. What is left out costs an implementer nothing to name; one that names
    /// them all the same is not wrong.
    #[must_use]
    pub fn except(mut self, ids: ResourceIds) -> Self {
        self.except = ids;
        self
    }

    /// From where the page before ended: its [`next`](OwnedPage::next).
    #[must_use]
    pub fn after(mut self, place: impl Into<String>) -> Self {
        self.after = Some(place.into());
        self
    }
}

/// A page of objects that carry our label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedPage {
    /// The objects.
    pub objects: Vec<OwnedObject>,
    /// Where the next page begins; opaque. `None` when this was the last.
    pub next: Option<String>,
}

impl OwnedPage {
    /// A page, and where the next one begins.
    pub const fn new(objects: Vec<OwnedObject>, next: Option<String>) -> Self {
        Self { objects, next }
    }
}

/// An object that carries our label.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedObject {
    /// Its complete name.
    pub reference: ObjectReference,
    /// Its uid, for a deletion that hits no other.
    pub uid: String,
    /// What it is to us.
    pub role: OwnedRole,
    /// The resource that its name stands for; `None` if the name is not one of ours.
    pub resource: Option<ProvisionedResourceId>,
    /// It is being deleted already.
    pub deleting: bool,
}

impl OwnedObject {
    /// An object that stands and is not being deleted. Its name says which resource it belongs to.
    pub fn new(reference: ObjectReference, uid: impl Into<String>, role: OwnedRole) -> Self {
        let resource = XrName::id_of(reference.name());
        Self { reference, uid: uid.into(), role, resource, deleting: false }
    }

    /// It is being deleted already.
    #[must_use]
    pub const fn being_deleted(mut self) -> Self {
        self.deleting = true;
        self
    }
}

/// What an object of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedRole {
    /// A composite resource.
    Xr,
    /// A ProviderConfig, which goes last.
    ProviderConfig,
}
