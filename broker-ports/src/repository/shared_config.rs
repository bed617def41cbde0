//! Persist: shared ProviderConfigs, which exist as long as one resource uses them.
//!
//! A declaration registers its resource as a user; storing Deleted removes the user. The last user to leave marks the
//! ProviderConfig. Only under the mark it is deleted, only a reading that finds it absent clears the mark, and new users wait
//! while the mark is set.

use broker_domain::{
    BlueprintVersionId, CloudCredentialId, ClusterId, ObjectReference, ProjectId,
    ProvisionedResourceId,
};

/// The name of a shared ProviderConfig. Unique by Project, API group, kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct SharedConfigRef {
    /// The Project, whose namespace holds it.
    pub project: ProjectId,
    /// The object.
    pub object: ObjectReference,
}

/// A shared ProviderConfig as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedConfig {
    /// Its name.
    pub name: SharedConfigRef,
    /// The one credential of all users.
    pub credential: CloudCredentialId,
    /// The user that registered or left last, and its blueprint.
    pub last_user: (ProvisionedResourceId, BlueprintVersionId),
    /// The cluster of the users that left, if one of them was applied.
    pub cluster: Option<ClusterId>,
    /// Whether a resource uses it.
    pub in_use: bool,
    /// The mark: it is being deleted.
    pub deleting: Option<DeletionMark>,
    /// The last user was abandoned, so an operator has to delete it.
    pub abandoned: bool,
}

/// The mark of a shared ProviderConfig that is being deleted. No two marks are equal, so a late write cannot clear a later
/// mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeletionMark(i64);

impl SharedConfigRef {
    /// The ProviderConfig of a Project.
    pub const fn new(project: ProjectId, object: ObjectReference) -> Self {
        Self { project, object }
    }

    /// The API group: versions of a kind share their objects.
    pub fn group(&self) -> &str {
        self.object.api_version().split_once('/').map_or("", |(group, _)| group)
    }
}

impl SharedConfig {
    /// A shared ProviderConfig without users.
    pub const fn new(
        name: SharedConfigRef,
        credential: CloudCredentialId,
        last_user: (ProvisionedResourceId, BlueprintVersionId),
    ) -> Self {
        let (cluster, in_use, deleting, abandoned) = (None, false, None, false);
        Self { name, credential, last_user, cluster, in_use, deleting, abandoned }
    }
}

impl DeletionMark {
    /// Wraps a number of the store.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> i64 {
        self.0
    }
}
