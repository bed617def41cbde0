//! How a bootstrap token gets into a composite resource: three sites, one per strategy of the catalog.

use std::fmt;

use broker_domain::{BootstrapTokenId, Error};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::agent::{Agent, ApiUrl};
use crate::cloud_init;
use crate::manifest::SealedManifest;
use crate::text::quoted;
use crate::xr::{Armed, Xr, first_problem};

/// The longest bootstrap token.
pub const MAX_TOKEN_BYTES: usize = 512;

/// Parameter names that belong to the injection sites; no blueprint may declare them, no caller send them.
pub(crate) const RESERVED_PARAMETERS: [&str; 2] = ["helmValues", "providerSecret"];

/// Where the token goes. The catalog chooses, the broker obeys.
///
/// ```
/// use broker_render::InjectionStrategy;
///
/// let strategy = InjectionStrategy::try_from("helm-values")?;
/// assert_eq!(strategy, InjectionStrategy::HelmValues);
/// # Ok::<(), broker_domain::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InjectionStrategy {
    /// A whole `#cloud-config` document under `spec.userData`.
    CloudInitUserData,
    /// `bootstrapToken`, `apiUrl` and `plexdImage` under `spec.parameters.helmValues`.
    HelmValues,
    /// The bare token as `spec.parameters.providerSecret.bootstrapToken`.
    ProviderSecret,
}

/// What is injected, and which token it is.
pub struct Bootstrap<'a> {
    /// The token's id, which marks the composite resource as armed.
    pub token_id: BootstrapTokenId,
    /// The token itself.
    pub token: &'a SecretString,
    /// The control plane that the agent enrols with.
    pub api_url: &'a ApiUrl,
    /// Where the agent comes from.
    pub agent: &'a Agent,
}

impl InjectionStrategy {
    /// Every strategy.
    pub const ALL: [Self; 3] = [Self::CloudInitUserData, Self::HelmValues, Self::ProviderSecret];

    /// The strategy's name in a catalog.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CloudInitUserData => "cloud-init-user-data",
            Self::HelmValues => "helm-values",
            Self::ProviderSecret => "provider-secret",
        }
    }

    /// The fields below `spec` that the strategy fills.
    pub(crate) const fn leaves(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::CloudInitUserData => &[&["userData"]],
            Self::HelmValues => &[
                &["parameters", "helmValues", "bootstrapToken"],
                &["parameters", "helmValues", "apiUrl"],
                &["parameters", "helmValues", "plexdImage"],
            ],
            Self::ProviderSecret => &[&["parameters", "providerSecret", "bootstrapToken"]],
        }
    }
}

impl fmt::Display for InjectionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl TryFrom<&str> for InjectionStrategy {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text).ok_or_else(|| {
            let allowed = "use cloud-init-user-data, helm-values or provider-secret";
            Error::invalid("injectionStrategy", format!("is {}; {allowed}", quoted(text)))
        })
    }
}

/// Arms a composite resource: the token at its site, the annotation that names it, and no pause.
///
/// # Errors
///
/// [`Error::InvalidInput`] when the token is not printable ASCII of at most 512 bytes, or when the XRD
/// refuses what would be injected. Neither repeats any of it.
pub fn inject_bootstrap(xr: &Xr<'_>, bootstrap: &Bootstrap<'_>) -> Result<SealedManifest, Error> {
    let Some(strategy) = xr.injection() else {
        let problem = "is given for a standalone blueprint; nothing is injected there";
        return Err(Error::invalid("bootstrap_token", problem));
    };
    let token = bootstrap.token.expose_secret();
    let printable = token.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES || !printable {
        let problem = format!("is unusable; use 1 to {MAX_TOKEN_BYTES} printable ASCII characters");
        return Err(Error::invalid("bootstrap_token", problem));
    }
    let mut injected = vec![bootstrap.token.clone()];
    let values = match strategy {
        InjectionStrategy::CloudInitUserData => {
            let document = cloud_init::document(bootstrap)?;
            injected.push(SecretString::from(document.as_str()));
            vec![document]
        }
        InjectionStrategy::HelmValues => vec![
            token.to_owned(),
            bootstrap.api_url.as_str().to_owned(),
            bootstrap.agent.image.as_str().to_owned(),
        ],
        InjectionStrategy::ProviderSecret => vec![token.to_owned()],
    };
    let mut manifest = xr.armed(&Armed::Token(bootstrap.token_id));
    if let Some(spec) = manifest.spec_mut() {
        for (leaf, value) in strategy.leaves().iter().zip(values) {
            insert(spec, leaf, Value::String(value));
        }
    }
    // Sealed before it is checked, so that the token is wiped on the way out of either end.
    let problems = xr.xrd().check(manifest.spec());
    let sealed = SealedManifest::new(manifest, injected);
    first_problem(&problems).map_or(Ok(sealed), Err)
}

/// A re-apply of an armed composite resource with the injection that it already carries.
///
/// Server-side apply removes what its owner leaves out, and the plaintext is long gone: it is taken from
/// the live object. What is missing there stays missing.
pub fn preserve_injection(live: &Value, xr: &Xr<'_>, token_id: BootstrapTokenId) -> SealedManifest {
    let mut manifest = xr.armed(&Armed::Token(token_id));
    if let (Some(strategy), Some(spec)) = (xr.injection(), manifest.spec_mut()) {
        for leaf in strategy.leaves() {
            if let Some(value) = at_leaf(live, leaf) {
                insert(spec, leaf, value.clone());
            }
        }
    }
    SealedManifest::new(manifest, injected(live))
}

/// Whatever was injected into a live object, for [`crate::scrub`] to take out of what others say about it:
/// the texts at all three sites, and the token inside of a cloud-init document.
pub fn injected(live: &Value) -> Vec<SecretString> {
    let leaves = InjectionStrategy::ALL.into_iter().flat_map(InjectionStrategy::leaves);
    let text = |leaf: &&[&str]| at_leaf(live, leaf)?.as_str().filter(|text| !text.is_empty());
    let values = |text: &str| cloud_init::token_in(text).into_iter().chain([text.into()]);
    leaves.filter_map(text).flat_map(values).collect()
}

/// Puts empty strings at the site, for a shell whose XRD insists on it.
pub(crate) fn insert_empty(strategy: InjectionStrategy, spec: &mut Map<String, Value>) {
    for leaf in strategy.leaves() {
        insert(spec, leaf, Value::from(""));
    }
}

/// Removes whatever stands at any of the three sites.
pub(crate) fn remove_sites(spec: &mut Map<String, Value>) {
    spec.remove("userData");
    if let Some(Value::Object(parameters)) = spec.get_mut("parameters") {
        parameters.retain(|name, _| !RESERVED_PARAMETERS.contains(&name.as_str()));
    }
}

/// Every value at any of the three sites.
pub(crate) fn leaves_mut(spec: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut leaves = Vec::new();
    for (key, value) in spec {
        match (key.as_str(), value) {
            ("userData", value) => leaves.push(value),
            ("parameters", Value::Object(parameters)) => {
                let sites = parameters.iter_mut();
                let sites = sites.filter(|(name, _)| RESERVED_PARAMETERS.contains(&name.as_str()));
                let inner = sites.filter_map(|(_, site)| site.as_object_mut());
                leaves.extend(inner.flat_map(|site| site.iter_mut().map(|(_, value)| value)));
            }
            _ => {}
        }
    }
    leaves
}

fn at_leaf<'a>(live: &'a Value, leaf: &[&str]) -> Option<&'a Value> {
    leaf.iter().try_fold(live.get("spec")?, |at, key| at.get(key))
}

fn insert(object: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => drop(object.insert((*key).to_owned(), value)),
        [key, rest @ ..] => {
            let inner = object.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}
