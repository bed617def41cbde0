//! The broker's requests for one resource, sent one by one without a broker: for tests that act between two
//! requests, and for replays on the real and the simulated cluster.

use std::sync::Arc;

use broker_domain::{BootstrapTokenId, ObjectReference, Parameters, ProjectId, ResourceHandle};
use broker_ports::{
    Applied, ApplyRequest, Cluster, DeleteRequest, Deleted, ObjectVersion, XrTarget,
};
use broker_render::catalog;
use broker_render::{
    Agent, ApiUrl, Bootstrap, CloudTags, Identity, Manifest, Precondition, Provider,
    ProviderConfigInput, ProviderProfile, Xr, XrInput, Xrd, inject_bootstrap, provider_config, xr,
};
use secrecy::SecretString;
use uuid::Uuid;

use super::PROVIDER;
use super::blueprint::Blueprint;
use crate::failure::OrFail;

/// The injected token. No mesh knows it.
const TOKEN: &str = "a-token-that-opens-nothing";

/// One resource of a blueprint, and its requests.
pub struct Requests {
    /// The blueprint.
    pub blueprint: Blueprint,
    catalog_blueprint: catalog::Blueprint,
    xrd: Arc<Xrd>,
    tags: CloudTags,
    identity: Identity,
    token: BootstrapTokenId,
    parameters: Parameters,
}

impl Requests {
    /// The requests of a new resource of a Project, with these parameters as canonical JSON.
    ///
    /// # Panics
    ///
    /// When the blueprint refuses the parameters.
    #[must_use]
    pub fn new(blueprint: &Blueprint, project: ProjectId, parameters: &str) -> Self {
        let identity = Identity {
            resource: Uuid::now_v7().try_into().or_fail("an id"),
            project,
            blueprint_version: Uuid::now_v7().try_into().or_fail("an id"),
        };
        Self::for_resource(identity, blueprint, parameters)
    }

    /// The requests of a declared resource.
    pub(super) fn for_resource(
        identity: Identity,
        blueprint: &Blueprint,
        parameters: &str,
    ) -> Self {
        Self {
            blueprint: blueprint.clone(),
            identity,
            token: Uuid::now_v7().try_into().or_fail("a token's id"),
            parameters: Parameters::from_canonical_json(parameters).or_fail("parameters"),
            xrd: Arc::new(blueprint.catalog_blueprint().xrd),
            tags: CloudTags::default(),
            catalog_blueprint: blueprint.catalog_blueprint(),
        }
    }

    /// The blueprint as the broker reads it.
    #[must_use]
    pub fn catalog_blueprint(&self) -> &catalog::Blueprint {
        &self.catalog_blueprint
    }

    /// The composite resource.
    #[must_use]
    pub fn xr(&self) -> ObjectReference {
        let Identity { resource, project, .. } = self.identity;
        XrTarget::new(resource, project, Arc::clone(&self.xrd)).reference().or_fail("a reference")
    }

    /// The ProviderConfig.
    #[must_use]
    pub fn provider_config(&self) -> ObjectReference {
        self.provider_config_manifest().reference().clone()
    }

    /// Applies the ProviderConfig.
    pub async fn apply_provider_config(&self, cluster: &dyn Cluster) -> ObjectVersion {
        expect_applied(
            self.apply(cluster, self.provider_config_manifest(), Precondition::Absent).await,
        )
    }

    /// Creates a shell under a free name.
    pub async fn apply_shell(&self, cluster: &dyn Cluster, epoch: u64) -> ObjectVersion {
        expect_applied(
            self.apply(cluster, self.render_xr().shell(epoch), Precondition::Absent).await,
        )
    }

    /// Touches the shell at a version.
    pub async fn touch(&self, cluster: &dyn Cluster, epoch: u64, at: &ObjectVersion) -> Applied {
        self.apply(cluster, self.render_xr().shell(epoch), at.unchanged()).await
    }

    /// Arms the shell at a version.
    pub async fn arm(&self, cluster: &dyn Cluster, at: &ObjectVersion) -> Applied {
        let (xr, project) = (self.render_xr(), self.identity.project);
        let request = if self.blueprint.is_node() {
            let bootstrap = Bootstrap {
                token_id: self.token,
                token: &SecretString::from(TOKEN),
                api_url: &ApiUrl::new("https://mesh.example.org").or_fail("a URL"),
                agent: &Agent::default(),
                handle: &ResourceHandle::new("web-1").or_fail("a handle"),
            };
            let manifest = inject_bootstrap(&xr, &bootstrap).or_fail("an injection");
            ApplyRequest::sealed(project, manifest, at.unchanged())
        } else {
            ApplyRequest::open(project, xr.armed(&broker_render::Armed::Standalone), at.unchanged())
        };
        cluster.apply(&request).await.or_fail("cannot arm")
    }

    /// Deletes the composite resource.
    pub async fn delete_xr(&self, cluster: &dyn Cluster, uid: &str) -> Deleted {
        self.delete_object(cluster, &self.xr(), uid).await
    }

    /// Deletes the ProviderConfig.
    pub async fn delete_provider_config(&self, cluster: &dyn Cluster, uid: &str) -> Deleted {
        self.delete_object(cluster, &self.provider_config(), uid).await
    }

    async fn delete_object(
        &self,
        cluster: &dyn Cluster,
        object: &ObjectReference,
        uid: &str,
    ) -> Deleted {
        let request = DeleteRequest::new(self.identity.project, object, uid);
        cluster.delete(&request).await.or_fail("cannot delete")
    }

    async fn apply(
        &self,
        cluster: &dyn Cluster,
        manifest: Manifest,
        precondition: Precondition,
    ) -> Applied {
        let request = ApplyRequest::open(self.identity.project, manifest, precondition);
        cluster.apply(&request).await.or_fail("cannot apply")
    }

    fn render_xr(&self) -> Xr<'_> {
        xr(&XrInput {
            xrd: &self.xrd,
            composition: self.catalog_blueprint.composition.clone(),
            injection_strategy: self.catalog_blueprint.injection_strategy,
            mesh_role: self.catalog_blueprint.mesh_role,
            identity: self.identity,
            parameters: &self.parameters,
            tags: &self.tags,
        })
        .or_fail("a composite resource")
    }

    fn provider_config_manifest(&self) -> Manifest {
        provider_config(&ProviderConfigInput {
            profile: &ProviderProfile::of(&Provider::new(PROVIDER).or_fail("a provider")),
            identity: self.identity,
            endpoint: r#"{"region":"here"}"#,
            secret_name: "cloud-credentials-0000000000000000",
        })
        .or_fail("a ProviderConfig")
    }
}

/// The version that an apply produced.
#[track_caller]
fn expect_applied(applied: Applied) -> ObjectVersion {
    match applied {
        Applied::Done(version) => version,
        lost @ (Applied::Conflict | Applied::NameTaken) => {
            panic!("the precondition of an apply did not hold: {lost:?}")
        }
    }
}
