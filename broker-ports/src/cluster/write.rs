//! What is asked of the cluster: conditional applies and deletions of one very object.

use std::sync::Arc;

use broker_domain::{ObjectReference, ProjectId, XrName};
use broker_render::{Manifest, Precondition, SealedManifest, namespace, scrub};

use super::live::LiveObject;
use crate::error::PortError;

/// Which object a request is about, so that it hits no other: not an older version, not a namesake.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ObjectVersion {
    /// The object's uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
}

impl ObjectVersion {
    /// The object of that uid, at that version.
    pub fn new(uid: impl Into<String>, resource_version: impl Into<String>) -> Self {
        Self { uid: uid.into(), resource_version: resource_version.into() }
    }

    /// The precondition that the object is still just this.
    pub fn unchanged(&self) -> Precondition {
        Precondition::Unchanged {
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}

/// One apply. It cannot be built without a precondition, and its manifest carries it.
///
/// It may hold an injected token, so it is not printed, not serialised and not copied.
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
/// The twins that do compile:
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
    precondition: Precondition,
    body: Arc<Body>,
}

enum Body {
    Open(Manifest),
    Sealed(SealedManifest),
}

impl ApplyRequest {
    /// Applies a manifest that holds no secret.
    pub fn open(project: ProjectId, manifest: Manifest, precondition: Precondition) -> Self {
        let body = Arc::new(Body::Open(manifest.with_precondition(&precondition)));
        Self { project, precondition, body }
    }

    /// Applies a manifest with a token in it.
    pub fn sealed(
        project: ProjectId,
        manifest: SealedManifest,
        precondition: Precondition,
    ) -> Self {
        let body = Arc::new(Body::Sealed(manifest.with_precondition(&precondition)));
        Self { project, precondition, body }
    }

    /// The Project on whose behalf, which decides the namespace that may be written.
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

    /// On which condition.
    pub const fn precondition(&self) -> &Precondition {
        &self.precondition
    }

    /// The bytes of the request's body, which hold the precondition and perhaps a secret.
    pub fn expose_for_apply(&self) -> Vec<u8> {
        match &*self.body {
            Body::Open(manifest) => manifest.to_bytes(),
            Body::Sealed(manifest) => manifest.expose_for_apply(),
        }
    }

    /// The same request once more, for one that arrives late. The manifest itself is not copied.
    #[must_use]
    pub fn handle(&self) -> Self {
        let Self { project, precondition, body } = self;
        Self { project: *project, precondition: precondition.clone(), body: Arc::clone(body) }
    }

    /// A message that answered this request, without what was injected and cut to size. Whatever an adapter
    /// says about the request went through here.
    pub fn scrub(&self, message: &str) -> String {
        match &*self.body {
            Body::Open(_) => scrub(message, &[]),
            Body::Sealed(manifest) => manifest.scrub(message),
        }
    }
}

/// What became of an apply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an apply that lost its race changed nothing"]
pub enum Applied {
    /// It stands, at this version.
    Done(ObjectVersion),
    /// The precondition did not hold: somebody was there first, changed it or removed it. Nothing changed.
    /// An API server looks at the version first, so that another object of that name shows as this, too.
    Conflict,
    /// Another object has taken the name, as far as that was told apart. Nothing changed.
    NameTaken,
}

/// What an apply would do.
#[derive(Debug)]
pub enum DryRun {
    /// It would be accepted and then look like this.
    Accepted(LiveObject),
    /// The precondition does not hold.
    Conflict,
}

/// One deletion.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DeleteRequest<'a> {
    /// The Project on whose behalf.
    pub project: ProjectId,
    /// The object.
    pub target: &'a ObjectReference,
    /// Only if it is this one.
    pub uid: &'a str,
}

impl<'a> DeleteRequest<'a> {
    /// A Project's object, if it is the one of that uid.
    pub const fn new(project: ProjectId, target: &'a ObjectReference, uid: &'a str) -> Self {
        Self { project, target, uid }
    }
}

/// What became of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only one of the answers means that the object is gone"]
pub enum Deleted {
    /// Accepted; the object carries the finalizer [`FOREGROUND`](super::FOREGROUND) and stays until what it composed is
    /// gone.
    Accepted,
    /// There is no such object.
    Gone,
    /// Another object has taken the name. Nothing changed.
    Replaced,
    /// Something vetoes it, such as a Usage. Nothing changed.
    Vetoed {
        /// The veto in words.
        message: String,
    },
}

/// Whether a write may be sent at all: to an object with a name of ours, and, if it is namespaced, into the
/// Project's own namespace. An adapter asks before it makes a request.
///
/// # Errors
///
/// `Rejected`, with what is allowed.
pub fn refuse_foreign_write(project: ProjectId, target: &ObjectReference) -> Result<(), PortError> {
    if XrName::id_of(target.name()).is_none() {
        let allowed = "only objects named pr-<id> are written";
        return Err(PortError::rejected(format!("{target} is not ours; {allowed}")));
    }
    let home = namespace(project);
    match target.namespace() {
        Some(other) if other != home.as_str() => {
            let allowed = format!("project {project} is written to {home} only");
            Err(PortError::rejected(format!("{target} is not at home; {allowed}")))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_stays_at_home() {
        let id = "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57";
        let project: ProjectId = id.parse().unwrap();
        let home = format!("plexsphere-project-{id}");
        let ours = format!("pr-{id}");
        let composed = format!("pr-{id}-x7f");
        let rows = [
            ("our object at home", ours.as_str(), Some(home.as_str()), true),
            ("our object without a namespace", &ours, None, true),
            ("our object in another namespace", &ours, Some("kube-system"), false),
            ("a composed object at home", &composed, Some(&home), false),
            ("somebody's object without a namespace", "default", None, false),
        ];
        for (why, name, within, allowed) in rows {
            let target = ObjectReference::new("example.org/v1", "Machine", name, within).unwrap();
            assert_eq!(refuse_foreign_write(project, &target).is_ok(), allowed, "{why}");
        }
    }
}
