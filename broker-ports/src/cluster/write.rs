//! What is asked of the cluster: conditional applies and deletions of one very object.

use broker_domain::{ObjectReference, ProjectId};
use broker_render::{Manifest, Precondition, SealedManifest, scrub};

use super::live::LiveObject;

/// Which object a request is about, so that it hits no other: not an older version, not a namesake.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectVersion {
    /// The object's uid.
    pub uid: String,
    /// Its version.
    pub resource_version: String,
}

impl ObjectVersion {
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
pub struct ApplyRequest {
    project: ProjectId,
    precondition: Precondition,
    body: Body,
}

enum Body {
    Open(Manifest),
    Sealed(SealedManifest),
}

impl ApplyRequest {
    /// Applies a manifest that holds no secret.
    pub fn open(project: ProjectId, manifest: Manifest, precondition: Precondition) -> Self {
        let body = Body::Open(manifest.with_precondition(&precondition));
        Self { project, precondition, body }
    }

    /// Applies a manifest with a token in it.
    pub fn sealed(
        project: ProjectId,
        manifest: SealedManifest,
        precondition: Precondition,
    ) -> Self {
        let body = Body::Sealed(manifest.with_precondition(&precondition));
        Self { project, precondition, body }
    }

    /// The Project on whose behalf, which decides the namespace that may be written.
    pub const fn project(&self) -> ProjectId {
        self.project
    }

    /// The object.
    pub const fn target(&self) -> &ObjectReference {
        match &self.body {
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
        match &self.body {
            Body::Open(manifest) => manifest.to_bytes(),
            Body::Sealed(manifest) => manifest.expose_for_apply(),
        }
    }

    /// A message that answered this request, without what was injected and cut to size. Whatever an adapter
    /// says about the request went through here.
    pub fn scrub(&self, message: &str) -> String {
        match &self.body {
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
    Conflict,
    /// Another object has taken the name. Nothing changed.
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
pub struct DeleteRequest<'a> {
    /// The Project on whose behalf.
    pub project: ProjectId,
    /// The object.
    pub target: &'a ObjectReference,
    /// Only if it is this one.
    pub uid: &'a str,
}

/// What became of a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only one of the answers means that the object is gone"]
pub enum Deleted {
    /// Accepted; the object stays until what it composed is gone.
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
