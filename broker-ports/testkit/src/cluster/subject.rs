//! One resource and its rendered manifests.

use std::sync::Arc;

use broker_domain::{
    BootstrapTokenId, MeshRole, ObjectReference, Parameters, ProjectId, ResourceHandle,
};
use broker_ports::{Target, XrTarget};
use broker_render::catalog::ComposedKind;
use broker_render::{
    Agent, ApiUrl, Armed, Bootstrap, CloudTags, CompositionName, Identity, InjectionStrategy,
    Manifest, Provider, ProviderConfigInput, ProviderProfile, SealedManifest, SharedConfigInput,
    SharedConfigName, Xr, XrInput, Xrd, inject_bootstrap, namespace, preserve_injection,
    provider_config, shared_provider_config, xr,
};
use secrecy::SecretString;
use serde_json::Value;

use super::fixture::CANARY;
use super::kinds::composed_kind;
use crate::prelude::*;

/// A resource from which every manifest is rendered.
pub(super) struct Subject {
    pub(super) identity: Identity,
    xrd: Arc<Xrd>,
    parameters: Parameters,
    mesh_role: MeshRole,
    tags: CloudTags,
    pub(super) token_id: BootstrapTokenId,
}

impl Subject {
    /// A Node of a kind, and the id of its token.
    pub(super) fn new(
        identity: Identity,
        xrd: Arc<Xrd>,
        token_id: BootstrapTokenId,
    ) -> Checked<Self> {
        Ok(Self {
            identity,
            xrd,
            parameters: Parameters::from_canonical_json(r#"{"size":"small"}"#)?,
            mesh_role: MeshRole::Node,
            tags: CloudTags::default(),
            token_id,
        })
    }

    pub(super) fn standalone(mut self) -> Self {
        self.mesh_role = MeshRole::Standalone;
        self
    }

    /// Sets the parameters: canonical JSON.
    pub(super) fn with_parameters(mut self, json: &str) -> Checked<Self> {
        self.parameters = Parameters::from_canonical_json(json)?;
        Ok(self)
    }

    /// Moves it to another Project under the same name.
    pub(super) fn in_project(mut self, project: ProjectId) -> Self {
        self.identity.project = project;
        self
    }

    pub(super) fn xr_target(&self) -> XrTarget {
        let Identity { resource, project, .. } = self.identity;
        XrTarget::new(resource, project, Arc::clone(&self.xrd))
    }

    pub(super) fn target(&self) -> Checked<Target> {
        let composed = composed_kind();
        let kind = ComposedKind { api_version: composed.api_version, kind: composed.kind };
        Ok(Target::new(self.xr_target(), Some(self.config_reference()?)).composing([kind]))
    }

    pub(super) fn config_reference(&self) -> Checked<ObjectReference> {
        Ok(self.provider_config()?.reference().clone())
    }

    pub(super) fn reference(&self) -> Checked<ObjectReference> {
        Ok(self.xr_target().reference()?)
    }

    pub(super) fn xrd(&self) -> Arc<Xrd> {
        Arc::clone(&self.xrd)
    }

    /// A composed object of that name in the Project's namespace.
    pub(super) fn composed_object(&self, name: &str) -> Checked<ObjectReference> {
        let (kind, namespace) = (composed_kind(), namespace(self.identity.project));
        Ok(ObjectReference::new(kind.api_version, kind.kind, name, Some(namespace.as_str()))?)
    }

    pub(super) fn xr(&self) -> Checked<Xr<'_>> {
        Ok(xr(&XrInput {
            xrd: &self.xrd,
            composition: CompositionName::new("machine")?,
            injection_strategy: InjectionStrategy::CloudInitUserData,
            mesh_role: self.mesh_role,
            identity: self.identity,
            parameters: &self.parameters,
            tags: &self.tags,
        })?)
    }

    pub(super) fn shell(&self, epoch: u64) -> Checked<Manifest> {
        Ok(self.xr()?.shell(epoch))
    }

    /// The armed manifest without an injected token.
    pub(super) fn armed(&self) -> Checked<Manifest> {
        let armed = match self.mesh_role {
            MeshRole::Node => Armed::Token(self.token_id),
            MeshRole::Standalone => Armed::Standalone,
        };
        Ok(self.xr()?.armed(&armed))
    }

    /// The armed manifest with the canary token.
    pub(super) fn sealed(&self) -> Checked<SealedManifest> {
        Ok(inject_bootstrap(
            &self.xr()?,
            &Bootstrap {
                token_id: self.token_id,
                token: &SecretString::from(CANARY),
                api_url: &ApiUrl::new("https://api.plexsphere.example")?,
                agent: &Agent::default(),
                handle: &ResourceHandle::new("web-1")?,
            },
        )?)
    }

    /// The armed manifest with the token that is injected in the live object.
    pub(super) fn preserved(&self, live: &Value) -> Checked<SealedManifest> {
        Ok(preserve_injection(live, &self.xr()?, self.token_id)?)
    }

    pub(super) fn provider_config(&self) -> Checked<Manifest> {
        Ok(provider_config(&ProviderConfigInput {
            profile: &ProviderProfile::of(&Provider::new("contract")?),
            identity: self.identity,
            endpoint: r#"{"region":"here"}"#,
            secret_name: "cloud-credentials-0000000000000000",
        })?)
    }

    /// The ProviderConfig that the resources of the Project share.
    pub(super) fn shared_config(&self, name: &SharedConfigName) -> Checked<Manifest> {
        Ok(shared_provider_config(&SharedConfigInput {
            profile: &ProviderProfile::of(&Provider::new("contract")?),
            project: self.identity.project,
            name,
            endpoint: r#"{"region":"here"}"#,
            secret_name: "cloud-credentials-0000000000000000",
        })?)
    }
}
