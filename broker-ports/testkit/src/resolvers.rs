//! The contracts of the five resolvers. Each suite is independent of the others.

mod blueprint;
mod other_contexts;

use std::collections::BTreeMap;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, Error, MeshRole, ProjectId, ResourceId,
};
use broker_ports::{
    ApprovalState, AssignmentReader, BlueprintResolver, BlueprintState, CloudResolver, CloudView,
    CredentialResolver, CredentialState, CredentialView, NamespaceObservation, ResourceReader,
    ResourceView,
};
use broker_render::{InjectionStrategy, Provider};
use uuid::Uuid;

use crate::prelude::*;

/// A catalog with a hook that publishes. Any error is a violation.
#[async_trait]
pub trait BlueprintResolverUnderTest: Send + Sync {
    /// The resolver.
    fn resolver(&self) -> &dyn BlueprintResolver;

    /// Stores a blueprint version without parsing its documents.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn publish(&self, blueprint: &RawBlueprint) -> Result<BlueprintVersionId, PortError>;

    /// Changes the state of a published version.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn set_state(
        &self,
        id: BlueprintVersionId,
        state: BlueprintState,
    ) -> Result<(), PortError>;

    /// Makes the resolver's backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// A blueprint version as a catalog stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawBlueprint {
    /// The XRD, in YAML.
    pub xrd: &'static str,
    /// The Composition, in YAML.
    pub composition: &'static str,
    /// The schema of the parameters, in JSON.
    pub parameter_schema: &'static str,
    /// How the broker injects a bootstrap token.
    pub injection_strategy: InjectionStrategy,
    /// Whether its machines become Nodes.
    pub mesh_role: MeshRole,
    /// How its composed objects refer to their ProviderConfig, in the text form of a catalog.
    pub provider_config: &'static str,
}

/// An inventory with a hook that adds clouds. Any error is a violation.
#[async_trait]
pub trait CloudResolverUnderTest: Send + Sync {
    /// The resolver.
    fn resolver(&self) -> &dyn CloudResolver;

    /// Adds a cloud of a provider, with its endpoint: the text of a JSON object.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn add(&self, provider: &Provider, endpoint: &str) -> Result<CloudView, PortError>;

    /// Gives a stored cloud an invalid provider, past the adapter. Returns whether the inventory can do that.
    ///
    /// The default is for an inventory without a parsing step.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn corrupt(&self, _id: CloudId) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Makes the resolver's backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Credentials with hooks that assign them. Any error is a violation.
#[async_trait]
pub trait CredentialResolverUnderTest: Send + Sync {
    /// The resolver.
    fn resolver(&self) -> &dyn CredentialResolver;

    /// A Project; a new one on each call.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn project(&self) -> Result<ProjectId, PortError>;

    /// Adds an unassigned credential; a new one on each call.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn add(&self, kv_mount: &str, kv_path: &str) -> Result<CredentialView, PortError>;

    /// Assigns a credential to a Project, approved.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn assign(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError>;

    /// Changes the states of a credential and of its assignment to a Project.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn set_states(
        &self,
        project: ProjectId,
        id: CloudCredentialId,
        states: (CredentialState, ApprovalState),
    ) -> Result<(), PortError>;

    /// Deletes the assignment of a credential to a Project.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn withdraw(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError>;

    /// Makes the resolver's backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Assignments with a hook that changes them. Any error is a violation.
#[async_trait]
pub trait AssignmentReaderUnderTest: Send + Sync {
    /// The reader.
    fn reader(&self) -> &dyn AssignmentReader;

    /// A Project without a placement; a new one on each call.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn project(&self) -> Result<ProjectId, PortError>;

    /// Places the Project, or updates the state of its namespace.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn place(
        &self,
        project: ProjectId,
        namespace: &NamespaceObservation,
    ) -> Result<(), PortError>;

    /// Makes the reader's backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Resources with hooks that label and rename them. Any error is a violation.
#[async_trait]
pub trait ResourceReaderUnderTest: Send + Sync {
    /// The reader.
    fn reader(&self) -> &dyn ResourceReader;

    /// A Resource in a new Project, with this handle and these propagating labels; a new one on each call.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn resource(&self, resource: &ResourceView)
    -> Result<(ProjectId, ResourceId), PortError>;

    /// Gives a stored Resource an invalid handle, past the adapter. Returns whether the source can do that.
    ///
    /// The default is for a source without a parsing step.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn corrupt(&self, _resource: ResourceId) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Adds labels to a Resource. They do not propagate.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn add_local_labels(
        &self,
        resource: ResourceId,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), PortError>;

    /// Makes the reader's backend unreachable for the rest of the case: closes the pool or stops the server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// The contract of [`BlueprintResolver`].
pub fn blueprint_suite<W: BlueprintResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(blueprint::cases())
}

/// The contract of [`CloudResolver`].
pub fn cloud_suite<W: CloudResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(other_contexts::cloud_cases())
}

/// The contract of [`CredentialResolver`].
pub fn credential_suite<W: CredentialResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(other_contexts::credential_cases())
}

/// The contract of [`AssignmentReader`].
pub fn assignment_suite<W: AssignmentReaderUnderTest + 'static>() -> Suite<W> {
    Suite::new(other_contexts::assignment_cases())
}

/// The contract of [`ResourceReader`].
pub fn resource_suite<W: ResourceReaderUnderTest + 'static>() -> Suite<W> {
    Suite::new(other_contexts::resource_cases())
}

/// An id that no entity has.
fn unused_id<T: TryFrom<Uuid, Error = Error>>() -> Result<T, Error> {
    T::try_from(Uuid::from_u128(0x00dd))
}
