//! The ProviderConfig of a resource: the cloud's endpoint, and the Secret with the credential.

mod config_use;

use std::collections::BTreeMap;
use std::fmt;

use broker_domain::{Error, ProjectId};
use serde_json::{Map, Value, json};

use crate::document;
use crate::manifest::{Manifest, Placement};
use crate::names::{Identity, namespace, project_labels};
use crate::text::quoted;
use crate::xrd::{is_kind, is_label, is_subdomain};

pub use config_use::{ProviderConfigUse, SharedConfigName};

/// The discriminator of a cloud's provider, such as `aws` or `hcloud`.
///
/// ```
/// use broker_render::Provider;
///
/// assert_eq!(Provider::new("hcloud")?.as_str(), "hcloud");
/// assert!(Provider::new("AWS").is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provider(String);

impl Provider {
    /// Accepts a DNS label, because API groups contain it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for anything else.
    pub fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if is_label(&name) {
            return Ok(Self(name));
        }
        let allowed = "use up to 63 lower-case letters, digits and inner hyphens";
        Err(Error::invalid("provider", format!("is {}; {allowed}", quoted(&name))))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The API group, kind and scope of a provider's ProviderConfig. Validated, because a
/// wrong profile would fail every declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderProfile {
    group: String,
    version: String,
    kind: String,
    scope: ProviderConfigScope,
    secret_key: Option<String>,
}

/// The scope of a ProviderConfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderConfigScope {
    /// In the Project's namespace.
    Namespaced,
    /// Cluster-scoped.
    Cluster,
}

/// The profiles of an installation. The default profile: group `<provider>.crossplane.io`, version `v1beta1`,
/// kind `ProviderConfig`, namespaced.
///
/// ```
/// use broker_render::{Provider, ProviderConfigScope, ProviderProfile, ProviderProfiles};
///
/// let aws = Provider::new("aws")?;
/// let profile = ProviderProfile::of(&aws)
///     .with_group("aws.m.upbound.io")?
///     .with_kind("ClusterProviderConfig")?
///     .with_scope(ProviderConfigScope::Cluster);
/// let profiles = ProviderProfiles::default().with(aws.clone(), profile);
/// assert_eq!(profiles.of(&aws).api_version(), "aws.m.upbound.io/v1beta1");
/// assert_eq!(
///     profiles.of(&Provider::new("hcloud")?).api_version(),
///     "hcloud.crossplane.io/v1beta1"
/// );
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProviderProfiles(BTreeMap<Provider, ProviderProfile>);

/// The inputs of a ProviderConfig.
pub struct ProviderConfigInput<'a> {
    /// The provider's profile.
    pub profile: &'a ProviderProfile,
    /// The ids.
    pub identity: Identity,
    /// The cloud's endpoint, which is not secret: the text of a JSON object.
    pub endpoint: &'a str,
    /// The Secret with the credential, from [`crate::secret_name`].
    pub secret_name: &'a str,
}

impl ProviderProfile {
    /// The default profile of a provider.
    pub fn of(provider: &Provider) -> Self {
        Self {
            group: format!("{provider}.crossplane.io"),
            version: "v1beta1".to_owned(),
            kind: "ProviderConfig".to_owned(),
            scope: ProviderConfigScope::Namespaced,
            secret_key: None,
        }
    }

    /// Sets the API group.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is not a DNS subdomain.
    pub fn with_group(mut self, group: impl Into<String>) -> Result<Self, Error> {
        self.group = group.into();
        if is_subdomain(&self.group) {
            return Ok(self);
        }
        let problem = format!("is {}; use a DNS subdomain", quoted(&self.group));
        Err(Error::invalid("provider_profile.group", problem))
    }

    /// Sets the API version.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when it is not a DNS label.
    pub fn with_version(mut self, version: impl Into<String>) -> Result<Self, Error> {
        self.version = version.into();
        if is_label(&self.version) {
            return Ok(self);
        }
        let problem = format!("is {}; use a version such as v1beta1", quoted(&self.version));
        Err(Error::invalid("provider_profile.version", problem))
    }

    /// Sets the kind.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for anything but up to 63 letters and digits, a capital first.
    pub fn with_kind(mut self, kind: impl Into<String>) -> Result<Self, Error> {
        self.kind = kind.into();
        if is_kind(&self.kind) {
            return Ok(self);
        }
        let found = quoted(&self.kind);
        let problem = format!("is {found}; use up to 63 letters and digits, a capital first");
        Err(Error::invalid("provider_profile.kind", problem))
    }

    /// Sets the scope.
    #[must_use]
    pub const fn with_scope(mut self, scope: ProviderConfigScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets the key inside the Secret. With it, the ProviderConfig also gets `source`, `secretRef.namespace` and
    /// `secretRef.key`, as most providers expect.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when a Secret cannot have such a key.
    pub fn with_secret_key(mut self, key: impl Into<String>) -> Result<Self, Error> {
        let key = key.into();
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if (1..=253).contains(&key.len())
            && key.chars().all(is_allowed)
            && key != "."
            && !key.starts_with("..")
        {
            self.secret_key = Some(key);
            return Ok(self);
        }
        let found = quoted(&key);
        let problem = format!("is {found}; use a valid key of a Secret, such as credentials.json");
        Err(Error::invalid("provider_profile.secret_key", problem))
    }

    /// The API group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The API version, without the group.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The scope.
    pub const fn scope(&self) -> ProviderConfigScope {
        self.scope
    }

    /// Group and version as manifests spell them.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }
}

impl ProviderProfiles {
    /// Sets the profile of a provider.
    #[must_use]
    pub fn with(mut self, provider: Provider, profile: ProviderProfile) -> Self {
        self.0.insert(provider, profile);
        self
    }

    /// The profile of a provider.
    pub fn of(&self, provider: &Provider) -> ProviderProfile {
        self.0.get(provider).cloned().unwrap_or_else(|| ProviderProfile::of(provider))
    }
}

/// The inputs of a shared ProviderConfig. It depends on nothing else, so every resource that uses it renders the same
/// object.
pub struct SharedConfigInput<'a> {
    /// The provider's profile.
    pub profile: &'a ProviderProfile,
    /// The Project.
    pub project: ProjectId,
    /// The name.
    pub name: &'a SharedConfigName,
    /// The cloud's endpoint, which is not secret: the text of a JSON object.
    pub endpoint: &'a str,
    /// The Secret with the credential, from [`crate::secret_name`].
    pub secret_name: &'a str,
}

/// Renders a ProviderConfig of one resource. It has the composite resource's name, so that deleting it never affects
/// another resource. A Composition derives `providerConfigRef.name` from that name.
///
/// # Errors
///
/// [`Error::InvalidInput`] when the endpoint is not a JSON object within limits.
pub fn provider_config(input: &ProviderConfigInput<'_>) -> Result<Manifest, Error> {
    let ProviderConfigInput { profile, identity, endpoint, secret_name } = input;
    let spec = spec(profile, identity.project, endpoint, secret_name)?;
    let placement = match profile.scope {
        ProviderConfigScope::Namespaced => Placement::ProjectNamespace,
        ProviderConfigScope::Cluster => Placement::Cluster,
    };
    Manifest::new(&profile.api_version(), &profile.kind, identity, placement, spec)
}

/// Renders a ProviderConfig that the resources of a Project share.
///
/// # Errors
///
/// [`Error::InvalidInput`] when the endpoint is not a JSON object within limits, and when the profile is cluster-scoped:
/// two Projects would share the object.
pub fn shared_provider_config(input: &SharedConfigInput<'_>) -> Result<Manifest, Error> {
    let SharedConfigInput { profile, project, name, endpoint, secret_name } = input;
    if profile.scope == ProviderConfigScope::Cluster {
        let problem =
            "is cluster-scoped; a blueprint with a shared ProviderConfig needs a namespaced kind";
        return Err(Error::invalid("provider_profile.scope", problem));
    }
    let spec = spec(profile, *project, endpoint, secret_name)?;
    let (api_version, home) = (profile.api_version(), namespace(*project));
    Manifest::named(
        &api_version,
        &profile.kind,
        name.as_str(),
        Some(&home),
        project_labels(*project),
        spec,
    )
}

fn spec(
    profile: &ProviderProfile,
    project: ProjectId,
    endpoint: &str,
    secret_name: &str,
) -> Result<Map<String, Value>, Error> {
    let endpoint = document::read_json("cloud.endpoint", endpoint.as_bytes())?;
    if !endpoint.is_object() {
        return Err(Error::invalid("cloud.endpoint", "is not a JSON object"));
    }
    let credentials = credentials(profile, project, secret_name);
    Ok([("endpoint".to_owned(), endpoint), ("credentials".to_owned(), credentials)]
        .into_iter()
        .collect())
}

fn credentials(profile: &ProviderProfile, project: ProjectId, secret_name: &str) -> Value {
    match &profile.secret_key {
        None => json!({"secretRef": {"name": secret_name}}),
        Some(key) => json!({
            "source": "Secret",
            "secretRef": {
                "name": secret_name,
                "namespace": namespace(project).as_str(),
                "key": key,
            },
        }),
    }
}
