//! Observe: targets. They name one resource's objects completely before any request is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_domain::{Error, ObjectReference, ProjectId, ProvisionedResourceId, XrName};
use broker_render::catalog::ComposedKind;
use broker_render::{ProviderConfigScope, ProviderProfile, SharedConfigName, Xrd, namespace};

/// The location of one composite resource.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct XrTarget {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project, whose namespace holds it.
    pub project: ProjectId,
    /// Its kind.
    pub xrd: Arc<Xrd>,
    /// The kind of its ProviderConfig; `None` to skip that object.
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
    /// Whether it is namespaced.
    pub scope: ProviderConfigScope,
    /// The name of a shared one; `None` if each resource has its own.
    pub shared: Option<SharedConfigName>,
}

impl ConfigKind {
    /// A kind of this API version and scope.
    pub const fn new(api_version: String, kind: String, scope: ProviderConfigScope) -> Self {
        Self { api_version, kind, scope, shared: None }
    }

    /// Sets the name of a shared ProviderConfig.
    #[must_use]
    pub fn shared_as(mut self, name: Option<SharedConfigName>) -> Self {
        self.shared = name;
        self
    }
}

impl From<ProviderProfile> for ConfigKind {
    fn from(profile: ProviderProfile) -> Self {
        Self::new(profile.api_version(), profile.kind().to_owned(), profile.scope())
    }
}

impl XrTarget {
    /// A resource's composite resource, in a Project, of a kind.
    pub const fn new(resource: ProvisionedResourceId, project: ProjectId, xrd: Arc<Xrd>) -> Self {
        Self { resource, project, xrd, config_kind: None }
    }

    /// Sets the kind of the ProviderConfig, so that it is observed too.
    #[must_use]
    pub fn with_config(mut self, kind: Option<Arc<ConfigKind>>) -> Self {
        self.config_kind = kind;
        self
    }

    /// The full reference of the ProviderConfig; `None` if the target has no kind for it.
    pub fn config_reference(&self) -> Option<ObjectReference> {
        let ConfigKind { api_version, kind, scope, shared } = &**self.config_kind.as_ref()?;
        let project_namespace = namespace(self.project);
        let object_namespace = match scope {
            ProviderConfigScope::Namespaced => Some(project_namespace.as_str()),
            ProviderConfigScope::Cluster => None,
        };
        let own_name = self.resource.xr_name();
        let name = shared.as_ref().map_or(own_name.as_str(), SharedConfigName::as_str);
        // A profile's names are never empty.
        ObjectReference::new(api_version, kind, name, object_namespace).ok()
    }

    /// The full reference of the composite resource.
    ///
    /// # Errors
    ///
    /// Never for a parsed XRD, whose names are not empty.
    pub fn reference(&self) -> Result<ObjectReference, Error> {
        let project_namespace = namespace(self.project);
        let object_namespace = self.xrd.scope().is_namespaced().then(|| project_namespace.as_str());
        ObjectReference::new(
            self.xrd.api_version(),
            self.xrd.kind(),
            self.resource.xr_name().as_str(),
            object_namespace,
        )
    }
}

/// All objects of one resource on the cluster.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Target {
    /// The composite resource.
    pub xr: XrTarget,
    /// The ProviderConfig; `None` if the broker never tried to apply one.
    pub provider_config: Option<ObjectReference>,
    /// The kinds that the blueprint's Composition creates, as far as they are known.
    pub composed_kinds: Arc<[ComposedKind]>,
    /// The composed objects on record, to be read by name.
    pub recorded: BTreeSet<ObjectReference>,
}

impl Target {
    /// A composite resource and its optional ProviderConfig, without composed kinds or recorded objects.
    pub fn new(xr: XrTarget, provider_config: impl Into<Option<ObjectReference>>) -> Self {
        let provider_config = provider_config.into();
        Self { xr, provider_config, composed_kinds: Arc::new([]), recorded: BTreeSet::new() }
    }

    /// Sets the kinds that the blueprint's Composition creates.
    #[must_use]
    pub fn composing(mut self, kinds: impl Into<Arc<[ComposedKind]>>) -> Self {
        self.composed_kinds = kinds.into();
        self
    }

    /// Sets the composed objects on record.
    #[must_use]
    pub fn with_recorded(mut self, recorded: BTreeSet<ObjectReference>) -> Self {
        self.recorded = recorded;
        self
    }
}

/// The kinds that may hold the broker's objects.
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

/// A set of resource ids. Cloning is cheap.
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
    /// Sorted and deduplicated: compact, with binary search.
    ids: Arc<[ProvisionedResourceId]>,
}

impl ResourceIds {
    /// Whether the set contains this id.
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

/// A query for the broker's objects.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OwnedQuery {
    /// The kinds to list.
    pub kinds: OwnedKinds,
    /// The [`next`](OwnedPage::next) of the previous page.
    pub after: Option<String>,
    /// Resources whose objects the caller does not need.
    pub except: ResourceIds,
}

impl OwnedQuery {
    /// A query that starts at the first page.
    pub fn new(kinds: OwnedKinds) -> Self {
        Self { kinds, after: None, except: ResourceIds::default() }
    }

    /// Excepts the objects of these resources. An implementer may still list them.
    #[must_use]
    pub fn except(mut self, ids: ResourceIds) -> Self {
        self.except = ids;
        self
    }

    /// Continues after the previous page, from its [`next`](OwnedPage::next).
    #[must_use]
    pub fn after(mut self, cursor: impl Into<String>) -> Self {
        self.after = Some(cursor.into());
        self
    }
}

/// A page of objects that carry the broker's label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedPage {
    /// The objects.
    pub objects: Vec<OwnedObject>,
    /// The start of the next page, opaque; `None` after the last page.
    pub next: Option<String>,
}

impl OwnedPage {
    /// A page and the start of the next one.
    pub const fn new(objects: Vec<OwnedObject>, next: Option<String>) -> Self {
        Self { objects, next }
    }
}

/// An object that carries the broker's label.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedObject {
    /// Its full reference.
    pub reference: ObjectReference,
    /// Its uid, for a deletion of exactly this object.
    pub uid: String,
    /// Its role.
    pub role: OwnedRole,
    /// The resource that its name encodes; `None` if the name is not the broker's.
    pub resource: Option<ProvisionedResourceId>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl OwnedObject {
    /// An object that is not being deleted. Its resource is parsed from its name.
    pub fn new(reference: ObjectReference, uid: impl Into<String>, role: OwnedRole) -> Self {
        let resource = XrName::id_of(reference.name());
        Self { reference, uid: uid.into(), role, resource, deleting: false }
    }

    /// Marks it as being deleted.
    #[must_use]
    pub const fn being_deleted(mut self) -> Self {
        self.deleting = true;
        self
    }
}

/// The role of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum OwnedRole {
    /// A composite resource.
    Xr,
    /// A ProviderConfig, which is deleted last.
    ProviderConfig,
}
