//! The broker's requests about one resource, sent one by one without a broker: for a test that acts between
//! two of them, and for replays against both clusters.

use std::sync::Arc;

use broker_domain::{BootstrapTokenId, ObjectReference, Parameters, ProjectId};
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

/// The injected token. It does not enrol anything.
const TOKEN: &str = "a-token-that-opens-nothing";

/// One resource of a blueprint, and its requests.
pub struct Requests {
    /// Its blueprint.
    pub blueprint: Blueprint,
    checked: catalog::Blueprint,
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
    /// When the blueprint does not take them.
    #[must_use]
    pub fn new(blueprint: &Blueprint, project: ProjectId, parameters: &str) -> Self {
        let identity = Identity {
            resource: Uuid::now_v7().try_into().or_fail("an id"),
            project,
            blueprint_version: Uuid::now_v7().try_into().or_fail("an id"),
        };
        Self::about(identity, blueprint, parameters)
    }

    /// The requests of a declared resource.
    pub(super) fn about(identity: Identity, blueprint: &Blueprint, parameters: &str) -> Self {
        Self {
            blueprint: blueprint.clone(),
            identity,
            token: Uuid::now_v7().try_into().or_fail("a token's id"),
            parameters: Parameters::from_canonical_json(parameters).or_fail("parameters"),
            xrd: Arc::new(blueprint.checked().xrd),
            tags: CloudTags::default(),
            checked: blueprint.checked(),
        }
    }

    /// The blueprint as the broker reads it.
    #[must_use]
    pub fn checked(&self) -> &catalog::Blueprint {
        &self.checked
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
        self.configuration().reference().clone()
    }

    /// Applies the ProviderConfig.
    pub async fn configure(&self, cluster: &dyn Cluster) -> ObjectVersion {
        done(self.open(cluster, self.configuration(), Precondition::Absent).await)
    }

    /// Creates a shell under a free name.
    pub async fn shell(&self, cluster: &dyn Cluster, epoch: u64) -> ObjectVersion {
        done(self.open(cluster, self.rendered().shell(epoch), Precondition::Absent).await)
    }

    /// Touches the shell at a version.
    pub async fn touch(&self, cluster: &dyn Cluster, epoch: u64, at: &ObjectVersion) -> Applied {
        self.open(cluster, self.rendered().shell(epoch), at.unchanged()).await
    }

    /// Arms the shell at a version.
    pub async fn arm(&self, cluster: &dyn Cluster, at: &ObjectVersion) -> Applied {
        let (xr, project) = (self.rendered(), self.identity.project);
        let request = if self.blueprint.is_node() {
            let bootstrap = Bootstrap {
                token_id: self.token,
                token: &SecretString::from(TOKEN),
                api_url: &ApiUrl::new("https://mesh.example.org").or_fail("a URL"),
                agent: &Agent::default(),
            };
            let manifest = inject_bootstrap(&xr, &bootstrap).or_fail("an injection");
            ApplyRequest::sealed(project, manifest, at.unchanged())
        } else {
            ApplyRequest::open(project, xr.armed(&broker_render::Armed::Standalone), at.unchanged())
        };
        cluster.apply(&request).await.or_fail("an arm cannot be sent")
    }

    /// Deletes the composite resource.
    pub async fn delete(&self, cluster: &dyn Cluster, uid: &str) -> Deleted {
        self.delete_object(cluster, &self.xr(), uid).await
    }

    /// Deletes the ProviderConfig.
    pub async fn unconfigure(&self, cluster: &dyn Cluster, uid: &str) -> Deleted {
        self.delete_object(cluster, &self.provider_config(), uid).await
    }

    async fn delete_object(
        &self,
        cluster: &dyn Cluster,
        object: &ObjectReference,
        uid: &str,
    ) -> Deleted {
        let request = DeleteRequest::new(self.identity.project, object, uid);
        cluster.delete(&request).await.or_fail("a deletion cannot be sent")
    }

    async fn open(
        &self,
        cluster: &dyn Cluster,
        manifest: Manifest,
        precondition: Precondition,
    ) -> Applied {
        let request = ApplyRequest::open(self.identity.project, manifest, precondition);
        cluster.apply(&request).await.or_fail("an apply cannot be sent")
    }

    fn rendered(&self) -> Xr<'_> {
        xr(&XrInput {
            xrd: &self.xrd,
            composition: self.checked.composition.clone(),
            injection_strategy: self.checked.injection_strategy,
            mesh_role: self.checked.mesh_role,
            identity: self.identity,
            parameters: &self.parameters,
            tags: &self.tags,
        })
        .or_fail("a composite resource")
    }

    fn configuration(&self) -> Manifest {
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
fn done(applied: Applied) -> ObjectVersion {
    match applied {
        Applied::Done(version) => version,
        lost @ (Applied::Conflict | Applied::NameTaken) => {
            panic!("an apply whose precondition holds is answered {lost:?}")
        }
    }
}
