//! The contracts of the five resolvers. Each stands alone, for whoever implements only one of them.

mod blueprint;
mod neighbours;

use std::collections::BTreeMap;

use async_trait::async_trait;
use broker_domain::{
    BlueprintVersionId, CloudCredentialId, CloudId, Error, MeshRole, ProjectId, ResourceId,
};
use broker_ports::{
    AssignmentReader, BlueprintResolver, CloudResolver, CloudView, CredentialResolver,
    CredentialView, LabelTagResolver, NamespaceObservation,
};
use broker_render::{InjectionStrategy, Provider};
use uuid::Uuid;

use crate::prelude::*;

/// A catalog, and a way to publish in it. Any error ends the case as a violation.
#[async_trait]
pub trait BlueprintResolverUnderTest: Send + Sync {
    /// The resolver.
    fn resolver(&self) -> &dyn BlueprintResolver;

    /// Stores a blueprint version as it is, without reading its documents.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn publish(&self, blueprint: &RawBlueprint) -> Result<BlueprintVersionId, PortError>;

    /// Cuts the resolver off for the rest of the case from whatever it asks: closes its pool, stops its server.
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
    /// How a bootstrap token gets into it.
    pub injection_strategy: InjectionStrategy,
    /// Whether a Node comes of it.
    pub mesh_role: MeshRole,
}

/// An inventory, and a way to add clouds to it. Any error ends the case as a violation.
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

    /// Makes what is stored of a cloud unreadable, behind the adapter's back: gives it a provider that is none.
    /// Answers whether that is possible.
    ///
    /// The default is for an inventory that keeps what it was given and reads nothing back.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn spoil(&self, _id: CloudId) -> Result<bool, PortError> {
        Ok(false)
    }

    /// Cuts the resolver off for the rest of the case from whatever it asks: closes its pool, stops its server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Credentials, and a way to assign them. Any error ends the case as a violation.
#[async_trait]
pub trait CredentialResolverUnderTest: Send + Sync {
    /// The resolver.
    fn resolver(&self) -> &dyn CredentialResolver;

    /// A Project, another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn project(&self) -> Result<ProjectId, PortError>;

    /// Adds a credential that no Project may use yet, another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn add(&self, kv_mount: &str, kv_path: &str) -> Result<CredentialView, PortError>;

    /// Lets a Project use a credential.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn assign(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError>;

    /// Lets a Project no longer use a credential.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn withdraw(&self, project: ProjectId, id: CloudCredentialId) -> Result<(), PortError>;

    /// Cuts the resolver off for the rest of the case from whatever it asks: closes its pool, stops its server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Assignments, and a way to make them. Any error ends the case as a violation.
#[async_trait]
pub trait AssignmentReaderUnderTest: Send + Sync {
    /// The reader.
    fn reader(&self) -> &dyn AssignmentReader;

    /// A Project that was not placed, another one each time.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn project(&self) -> Result<ProjectId, PortError>;

    /// Places the Project, or reports how its namespace is now.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn place(
        &self,
        project: ProjectId,
        namespace: &NamespaceObservation,
    ) -> Result<(), PortError>;

    /// Cuts the reader off for the rest of the case from whatever it asks: closes its pool, stops its server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Labels, and a way to attach them. Any error ends the case as a violation.
#[async_trait]
pub trait LabelTagResolverUnderTest: Send + Sync {
    /// The resolver.
    fn resolver(&self) -> &dyn LabelTagResolver;

    /// A Resource of a Project of its own, another one each time, whose labels are these; all of them propagate.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn resource(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<(ProjectId, ResourceId), PortError>;

    /// Attaches labels to a Resource that do not propagate, beside those that it has.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn keep(
        &self,
        resource: ResourceId,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), PortError>;

    /// Cuts the resolver off for the rest of the case from whatever it asks: closes its pool, stops its server.
    ///
    /// # Errors
    ///
    /// See the trait.
    async fn cut_off(&self) -> Result<(), PortError>;
}

/// Every promise of [`BlueprintResolver`].
pub fn blueprint_suite<W: BlueprintResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(blueprint::cases())
}

/// Every promise of [`CloudResolver`].
pub fn cloud_suite<W: CloudResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(neighbours::cloud_cases())
}

/// Every promise of [`CredentialResolver`].
pub fn credential_suite<W: CredentialResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(neighbours::credential_cases())
}

/// Every promise of [`AssignmentReader`].
pub fn assignment_suite<W: AssignmentReaderUnderTest + 'static>() -> Suite<W> {
    Suite::new(neighbours::assignment_cases())
}

/// Every promise of [`LabelTagResolver`].
pub fn label_suite<W: LabelTagResolverUnderTest + 'static>() -> Suite<W> {
    Suite::new(neighbours::label_cases())
}

/// An id that nobody gave to anything.
fn nobodys<T: TryFrom<Uuid, Error = Error>>() -> Result<T, Error> {
    T::try_from(Uuid::from_u128(0x00dd))
}
