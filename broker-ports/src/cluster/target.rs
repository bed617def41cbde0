//! What is looked at: one resource's objects, named completely before anything is asked.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_domain::{Error, ObjectReference, ProjectId, ProvisionedResourceId};
use broker_render::catalog::ComposedKind;
use broker_render::{Xrd, namespace};

/// A composite resource: enough to find it among many.
#[derive(Debug, Clone)]
pub struct XrTarget {
    /// The resource.
    pub resource: ProvisionedResourceId,
    /// Its Project, whose namespace it stands in.
    pub project: ProjectId,
    /// Its kind.
    pub xrd: Arc<Xrd>,
}

impl XrTarget {
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
pub struct Target {
    /// The composite resource.
    pub xr: XrTarget,
    /// The ProviderConfig.
    pub provider_config: ObjectReference,
    /// The kinds that the blueprint's Composition makes, as far as they are known.
    pub composed_kinds: Arc<[ComposedKind]>,
    /// The composed objects on record, to be read by name.
    pub recorded: BTreeSet<ObjectReference>,
}

/// Which kinds may hold objects of ours.
#[derive(Debug, Clone, Default)]
pub struct OwnedKinds {
    /// The kinds of composite resources.
    pub xrds: Vec<Arc<Xrd>>,
    /// The kinds of ProviderConfigs, as API version and kind.
    pub provider_configs: Vec<(String, String)>,
}

/// Which objects of ours to list.
#[derive(Debug, Clone, Default)]
pub struct OwnedQuery {
    /// Of which kinds.
    pub kinds: OwnedKinds,
    /// Where the page before ended.
    pub after: Option<String>,
}

/// A page of objects that carry our label.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnedPage {
    /// The objects.
    pub objects: Vec<OwnedObject>,
    /// Where the next page begins; opaque. `None` when this was the last.
    pub next: Option<String>,
}

/// An object that carries our label.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// What an object of ours is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedRole {
    /// A composite resource.
    Xr,
    /// A ProviderConfig, which goes last.
    ProviderConfig,
}
