//! How the composed objects of a blueprint refer to their ProviderConfig. It decides which one the broker writes.

use std::fmt;
use std::sync::Arc;

use broker_domain::{Error, XrName};

use crate::text::quoted;
use crate::xrd::is_subdomain;

/// How the composed objects of a blueprint refer to their ProviderConfig.
///
/// Its text is the value of `providerConfig` in `metadata.json` and of the stored blueprint.
///
/// ```
/// use broker_render::ProviderConfigUse;
///
/// let shared = ProviderConfigUse::parse("shared:openstack")?;
/// assert_eq!(shared.to_string(), "shared:openstack");
/// assert_eq!(ProviderConfigUse::parse("platform")?, ProviderConfigUse::Platform);
/// assert!(ProviderConfigUse::parse("shared:pr-0198a8e2-5d9f-7c31-8a4e-0f6d2b9c1e57").is_err());
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderConfigUse {
    /// By the name of the composite resource: the broker writes one for each resource.
    #[default]
    PerResource,
    /// By a literal name of a namespaced kind: the resources of a Project share one.
    Shared(SharedConfigName),
    /// By a literal name of a cluster-scoped kind: the platform owns it, and the broker writes none.
    Platform,
}

/// The name of a shared ProviderConfig: a DNS subdomain, and not the name of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedConfigName(Arc<str>);

impl SharedConfigName {
    /// Accepts a name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] when no object can have the name, or a resource may have it.
    pub fn new(name: &str) -> Result<Self, Error> {
        if is_subdomain(name) && XrName::id_of(name).is_none() {
            return Ok(Self(name.into()));
        }
        let problem = format!("is {}; use a DNS subdomain other than pr-<id>", quoted(name));
        Err(Error::invalid("provider_config.name", problem))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SharedConfigName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ProviderConfigUse {
    /// Reads the text form.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidInput`] for anything but `per-resource`, `shared:NAME` and `platform`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match (text, text.strip_prefix("shared:")) {
            ("per-resource", _) => Ok(Self::PerResource),
            ("platform", _) => Ok(Self::Platform),
            (_, Some(name)) => SharedConfigName::new(name).map(Self::Shared),
            (_, None) => {
                let found = quoted(text);
                let problem = format!("is {found}; use per-resource, shared:NAME or platform");
                Err(Error::invalid("provider_config", problem))
            }
        }
    }
}

impl fmt::Display for ProviderConfigUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerResource => f.write_str("per-resource"),
            Self::Shared(name) => write!(f, "shared:{name}"),
            Self::Platform => f.write_str("platform"),
        }
    }
}
