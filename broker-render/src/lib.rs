//! Pure rendering for the Provisioning Broker: from the views of a blueprint, a cloud and a credential to
//! the objects that the API server is sent.
mod agent;
mod applied;
mod canonical;
pub mod catalog;
mod cloud_init;
mod cloud_tags;
mod document;
mod fields;
mod injection;
mod manifest;
mod names;
mod parameters;
mod provider_config;
mod references;
mod scrub;
mod text;
mod xr;
mod xrd;

pub use agent::{Agent, AgentSource, ApiUrl, DebianPackage, Download, ImageReference};
pub use applied::{is_applied, owned_digest};
pub use canonical::Digest;
pub use cloud_init::MAX_USER_DATA_BYTES;
pub use cloud_tags::{CloudTags, SkippedTag, TagSkip, cloud_tags};
pub use document::{MAX_DEPTH, MAX_DOCUMENT_BYTES};
pub use injection::{
    Bootstrap, InjectionStrategy, MAX_TOKEN_BYTES, inject_bootstrap, preserve_injection,
};
pub use manifest::{Manifest, Precondition, SealedManifest};
pub use names::{
    ARMED_ANNOTATION, BLUEPRINT_VERSION_LABEL, EPOCH_ANNOTATION, FIELD_MANAGER, Identity,
    MANAGED_BY_LABEL, NamespaceName, PAUSED_ANNOTATION, PROJECT_LABEL, RESOURCE_LABEL,
    assigned_namespace, namespace, secret_name,
};
pub use parameters::ParameterSchema;
pub use provider_config::{
    Provider, ProviderConfigInput, ProviderConfigScope, ProviderProfile, ProviderProfiles,
    provider_config,
};
pub use references::{references, references_digest};
pub use scrub::{MAX_MESSAGE_BYTES, scrub};
pub use xr::{Armed, Xr, XrInput, armed, xr};
pub use xrd::{FieldProblem, ProblemKind, Scope, Xrd};
