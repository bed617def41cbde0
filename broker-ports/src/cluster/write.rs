//! Act: conditional applies, and deletions of one exact object.

use std::sync::Arc;

use broker_domain::{ObjectReference, ProjectId, XrName};
use broker_render::{Manifest, Precondition, SealedManifest, namespace, scrub};

use super::live::LiveObject;
use crate::error::PortError;

/// The identity and version of an object, so that a request never affects another version or another object of the
/// same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ObjectVersion {
    /// The object's uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
}

impl ObjectVersion {
    /// An object by uid and version.
    pub fn new(uid: impl Into<String>, resource_version: impl Into<String>) -> Self {
        Self { uid: uid.into(), resource_version: resource_version.into() }
    }

    /// The precondition that the object still has this uid and version.
    pub fn unchanged(&self) -> Precondition {
        Precondition::Unchanged {
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}

/// Who owns an object that the broker writes. It decides which names are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectOwner {
    /// One resource, whose name the object has.
    Resource,
    /// The resources of a Project: a shared ProviderConfig in the Project's namespace, under a name that no resource has.
    Project,
}

/// One apply. It always has a precondition, which the request body carries.
///
/// It may hold an injected token, so it cannot be printed, serialised or cloned.
///
/// ```compile_fail,E0277
/// # use broker_ports::ApplyRequest;
/// fn copies<T: Clone>() {}
/// copies::<ApplyRequest>();
/// ```
///
/// ```compile_fail,E0277
/// # use broker_ports::ApplyRequest;
/// fn log(request: &ApplyRequest) -> String {
///     format!("{:?}", request)
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use broker_ports::ApplyRequest;
/// fn keep(request: &ApplyRequest) -> serde_json::Result<String> {
///     serde_json::to_string(request)
/// }
/// ```
///
/// The variants that compile:
///
/// ```
/// # use broker_ports::ApplyRequest;
/// fn copies<T: Send>() {}
/// copies::<ApplyRequest>();
/// ```
///
/// ```
/// # use broker_ports::ApplyRequest;
/// fn log(request: &ApplyRequest) -> String {
///     format!("{:?}", request.target())
/// }
/// ```
///
/// ```
/// # use broker_ports::ApplyRequest;
/// fn keep(request: &ApplyRequest) -> serde_json::Result<String> {
///     serde_json::to_string(request.target().name())
/// }
/// ```
pub struct ApplyRequest {
    project: ProjectId,
    owner: ObjectOwner,
    precondition: Precondition,
    body: Arc<Body>,
}

enum Body {
    Open(Manifest),
    Sealed(SealedManifest),
}

impl ApplyRequest {
    /// Applies a manifest without a secret.
    pub fn open(project: ProjectId, manifest: Manifest, precondition: Precondition) -> Self {
        let body = Arc::new(Body::Open(manifest.with_precondition(&precondition)));
        Self { project, owner: ObjectOwner::Resource, precondition, body }
    }

    /// Sets the owner of the object; by default it is one resource.
    #[must_use]
    pub const fn owned_by(mut self, owner: ObjectOwner) -> Self {
        self.owner = owner;
        self
    }

    /// Applies a manifest that holds a token.
    pub fn sealed(
        project: ProjectId,
        manifest: SealedManifest,
        precondition: Precondition,
    ) -> Self {
        let body = Arc::new(Body::Sealed(manifest.with_precondition(&precondition)));
        Self { project, owner: ObjectOwner::Resource, precondition, body }
    }

    /// The Project, whose namespace is the only one that may be written.
    pub const fn project(&self) -> ProjectId {
        self.project
    }

    /// The object.
    pub fn target(&self) -> &ObjectReference {
        match &*self.body {
            Body::Open(manifest) => manifest.reference(),
            Body::Sealed(manifest) => manifest.reference(),
        }
    }

    /// The owner of the object.
    pub const fn owner(&self) -> ObjectOwner {
        self.owner
    }

    /// Its precondition.
    pub const fn precondition(&self) -> &Precondition {
        &self.precondition
    }

    /// The request body, which holds the precondition and perhaps a secret.
    pub fn expose_for_apply(&self) -> Vec<u8> {
        match &*self.body {
            Body::Open(manifest) => manifest.to_bytes(),
            Body::Sealed(manifest) => manifest.expose_for_apply(),
        }
    }

    /// A second handle on the request, for a test that delivers it late. Shares the manifest instead of a copy.
    #[must_use]
    pub fn handle(&self) -> Self {
        let Self { project, owner, precondition, body } = self;
        let (project, owner, precondition) = (*project, *owner, precondition.clone());
        Self { project, owner, precondition, body: Arc::clone(body) }
    }

    /// Removes injected values from a response message and truncates it. An adapter passes every message about the
    /// request through this.
    pub fn scrub(&self, message: &str) -> String {
        match &*self.body {
            Body::Open(_) => scrub(message, &[]),
            Body::Sealed(manifest) => manifest.scrub(message),
        }
    }
}

/// The result of an apply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an apply that lost its race changed nothing"]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Applied {
    /// The object exists at this version.
    Done(ObjectVersion),
    /// The precondition failed: another writer created, changed or removed the object first. Nothing changed. The API
    /// server checks the version first, so a different object of that name may also show as a conflict.
    Conflict,
    /// Another object has the name, if the adapter can tell. Nothing changed.
    NameTaken,
}

/// The result of a dry run.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum DryRun {
    /// The server would accept it, with this result.
    Accepted(LiveObject),
    /// The precondition failed.
    Conflict,
}

/// One deletion.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DeleteRequest<'a> {
    /// The Project.
    pub project: ProjectId,
    /// The object.
    pub target: &'a ObjectReference,
    /// The uid that the object must have.
    pub uid: &'a str,
    /// The owner of the object.
    pub owner: ObjectOwner,
}

impl<'a> DeleteRequest<'a> {
    /// Deletes a resource's object if it has this uid.
    pub const fn new(project: ProjectId, target: &'a ObjectReference, uid: &'a str) -> Self {
        Self { project, target, uid, owner: ObjectOwner::Resource }
    }

    /// Sets the owner of the object; by default it is one resource.
    #[must_use]
    pub const fn owned_by(mut self, owner: ObjectOwner) -> Self {
        self.owner = owner;
        self
    }
}

/// The result of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only `Gone` means that the object is gone"]
#[expect(clippy::exhaustive_enums, reason = "its users act on every variant")]
pub enum Deleted {
    /// Accepted. The object carries the finalizer [`FOREGROUND`](super::FOREGROUND) and stays until its composed
    /// objects are gone.
    Accepted,
    /// The object does not exist.
    Gone,
    /// Another object has the name. Nothing changed.
    Replaced,
    /// A Usage or a webhook vetoes it. Nothing changed.
    Vetoed {
        /// The veto's message.
        message: String,
    },
}

/// Rejects a write under a name that the owner does not have, or outside of the Project's own namespace. An object of a
/// resource is named `pr-<id>`; a shared one has any other name and is always namespaced. An adapter calls this before it
/// sends a request.
///
/// # Errors
///
/// `Rejected`; the message states the rule.
pub fn refuse_foreign_write(
    project: ProjectId,
    target: &ObjectReference,
    owner: ObjectOwner,
) -> Result<(), PortError> {
    let is_named_by_resource = XrName::id_of(target.name()).is_some();
    let allowed = match owner {
        ObjectOwner::Resource if !is_named_by_resource => "only objects named pr-<id> are written",
        ObjectOwner::Project if is_named_by_resource || target.namespace().is_none() => {
            "a shared object is namespaced and not named pr-<id>"
        }
        ObjectOwner::Resource | ObjectOwner::Project => {
            return refuse_other_namespace(project, target);
        }
    };
    Err(PortError::rejected(format!("{target} is not an object of the broker; {allowed}")))
}

fn refuse_other_namespace(project: ProjectId, target: &ObjectReference) -> Result<(), PortError> {
    let project_namespace = namespace(project);
    match target.namespace() {
        Some(other) if other != project_namespace.as_str() => {
            let allowed = format!("project {project} is written to {project_namespace} only");
            Err(PortError::rejected(format!("{target} is in another namespace; {allowed}")))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_outside_the_project_namespace_is_rejected() {
        let id = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";
        let project: ProjectId = id.parse().unwrap();
        let namespace = format!("plexsphere-project-{id}");
        let name = format!("pr-{id}");
        let composed = format!("pr-{id}-x7f");
        let (home, none) = (Some(namespace.as_str()), [false, false]);
        // Allowed as an object of a resource, and as a shared one.
        let rows = [
            ("the broker's object in the namespace", name.as_str(), home, [true, false]),
            ("the broker's object without a namespace", &name, None, [true, false]),
            ("the broker's object in another namespace", &name, Some("kube-system"), none),
            ("a composed object in the namespace", &composed, home, [false, true]),
            ("a shared object in another namespace", "openstack", Some("kube-system"), none),
            ("a foreign object without a namespace", "default", None, none),
        ];
        for (why, name, namespace, allowed) in rows {
            let target =
                ObjectReference::new("example.org/v1", "Machine", name, namespace).unwrap();
            let check = |owner| refuse_foreign_write(project, &target, owner).is_ok();
            let got = [ObjectOwner::Resource, ObjectOwner::Project].map(check);
            assert_eq!(got, allowed, "{why}");
        }
    }
}
