//! Pure rendering for the Provisioning Broker: from views of a blueprint, a cloud and a credential to the
//! objects that an API server receives.
//!
//! Equal input gives equal bytes. The crate holds no client, reads no clock and does no I/O. Admission
//! renders a manifest to validate it, a sweep to detect drift, and a pass to apply it; all three get the same
//! bytes.
//!
//! | step | function | from | to |
//! |---|---|---|---|
//! | publish | [`catalog::check`] | three files | a blueprint, and every problem on a line |
//! | declare | [`ParameterSchema::validate`] | the caller's text | canonical parameters |
//! | render | [`xr`], [`provider_config`], [`cloud_tags`] | views and ids | [`Xr`], [`Manifest`] |
//! | act | [`Xr::shell`], [`inject_bootstrap`], [`Xr::reapply`], [`preserve_injection`] | an [`Xr`] and a token | [`Manifest`], [`SealedManifest`] |
//! | compare | [`is_applied`], [`is_drifted`], [`owned_digest`], [`references`] | a live object | whether an apply is needed |
//! | report | [`scrub`] | a message that may repeat a secret | a message that is safe to pass on |
//!
//! The crate reads external input (catalog files, parameters) within limits. Errors name the field, fit on
//! one line and never repeat a value. A manifest with a secret is a [`SealedManifest`], which cannot be
//! printed.
//!
//! ```
//! use broker_domain::MeshRole;
//! use broker_render::{CloudTags, Identity, InjectionStrategy, ParameterSchema};
//! use broker_render::{CompositionName, XrInput, Xrd, xr};
//!
//! let xrd = Xrd::parse(
//!     b"apiVersion: apiextensions.crossplane.io/v2
//! kind: CompositeResourceDefinition
//! metadata: {name: machines.example.org}
//! spec:
//!   group: example.org
//!   names: {kind: Machine, plural: machines}
//!   versions:
//!   - name: v1
//!     served: true
//!     referenceable: true
//!     schema:
//!       openAPIV3Schema:
//!         type: object
//!         properties:
//!           spec:
//!             type: object
//!             properties:
//!               userData: {type: string}
//!               parameters: {type: object, properties: {size: {type: string}}}
//! ",
//! )?;
//! let schema = ParameterSchema::parse(br#"{"parameters": [{"name": "size", "type": "string"}]}"#)?;
//! let parameters = schema.validate(r#"{"size": "small"}"#)?;
//! let tags = CloudTags::default();
//! let rendered = xr(&XrInput {
//!     xrd: &xrd,
//!     composition: CompositionName::new("machine")?,
//!     injection_strategy: InjectionStrategy::CloudInitUserData,
//!     mesh_role: MeshRole::Node,
//!     identity: Identity {
//!         resource: "0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57".parse()?,
//!         project: "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10".parse()?,
//!         blueprint_version: "7a0f1f54-53c1-4a7e-9a51-16e7f3f6a0b1".parse()?,
//!     },
//!     parameters: &parameters,
//!     tags: &tags,
//! })?;
//! let shell = rendered.shell(1);
//! assert_eq!(
//!     shell.reference().to_string(),
//!     "Machine pr-0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57 \
//!      in plexsphere-project-5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10 (example.org/v1)"
//! );
//! assert!(String::from_utf8_lossy(&shell.to_bytes()).contains(r#""parameters":{"size":"small"}"#));
//! # Ok::<(), broker_domain::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod catalog;

mod xrd;

mod parameters;

mod cloud_tags;
mod composition_ref;
mod manifest;
mod names;
mod provider_config;
mod xr;

mod agent;
mod cloud_init;
mod injection;

mod applied;
mod references;
mod scrub;

mod canonical;
mod document;
mod fields;
mod text;

pub use agent::file::AgentFile;
pub use agent::profile::{AgentProfile, AgentValue, AgentVariable};
pub use agent::{Agent, AgentSource, ApiUrl, DebianPackage, Download, ImageReference};
pub use applied::{is_applied, is_drifted, owned_digest};
pub use canonical::Digest;
pub use cloud_init::{MAX_USER_DATA_BYTES, token_in};
pub use cloud_tags::{CloudTags, SkippedTag, TagSkip, cloud_tags};
pub use composition_ref::{CompositionName, composition_ref};
pub use document::{MAX_DEPTH, MAX_DOCUMENT_BYTES, read_document};
pub use injection::{
    Bootstrap, InjectionStrategy, MAX_TOKEN_BYTES, inject_bootstrap, injected, preserve_injection,
    redacted,
};
pub use manifest::{Manifest, Precondition, SealedManifest};
pub use names::{
    APPLIED_DIGEST_ANNOTATION, ARMED_ANNOTATION, BLUEPRINT_VERSION_LABEL, CROSSPLANE_FIELDS,
    EPOCH_ANNOTATION, FIELD_MANAGER, Identity, MANAGED_BY_LABEL, NamespaceName, OWN_LABELS,
    PAUSED_ANNOTATION, PROJECT_LABEL, RESOURCE_LABEL, assigned_namespace, namespace, project_of,
    secret_name,
};
pub use parameters::{MAX_PARAMETERS_BYTES, ParameterSchema, ValidParameters};
pub use provider_config::{
    Provider, ProviderConfigInput, ProviderConfigScope, ProviderConfigUse, ProviderProfile,
    ProviderProfiles, SharedConfigInput, SharedConfigName, provider_config, shared_provider_config,
};
pub use references::{references, references_digest};
pub use scrub::{MAX_MESSAGE_BYTES, scrub};
pub use xr::{Armed, Xr, XrInput, armed, xr};
pub use xrd::{FieldProblem, ProblemKind, Xrd, XrdScope};
