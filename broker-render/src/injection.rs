//! Act stage: puts a bootstrap token into a composite resource, at one of three sites.

use std::fmt;

use broker_domain::{BootstrapTokenId, Error, ResourceHandle};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use crate::agent::{Agent, ApiUrl};
use crate::cloud_init::{self, Enrolment};
use crate::manifest::SealedManifest;
use crate::scrub::escape;
use crate::text::quoted;
use crate::xr::{Armed, Xr, armed, first_problem};
use crate::xrd::Xrd;

/// The maximum length of a bootstrap token in bytes.
pub const MAX_TOKEN_BYTES: usize = 512;

/// Parameter names that belong to the injection sites. Blueprints may not declare them, and callers may not
/// send them.
pub(crate) const RESERVED_PARAMETERS: [&str; 2] = ["helmValues", "providerSecret"];

/// The injection site of the token, chosen by the catalog.
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
    /// `bootstrapToken`, `apiUrl` and `plexdImage` under `spec.parameters.helmValues`; also `projectId` and
    /// `resourceHandle` where the XRD declares them.
    HelmValues,
    /// The bare token as `spec.parameters.providerSecret.bootstrapToken`.
    ProviderSecret,
}

/// The values to inject, and the id of the token.
pub struct Bootstrap<'a> {
    /// The id of the token; it marks the composite resource as armed.
    pub token_id: BootstrapTokenId,
    /// The token itself.
    pub token: &'a SecretString,
    /// The control plane for enrolment.
    pub api_url: &'a ApiUrl,
    /// The contract and the delivery of the agent.
    pub agent: &'a Agent,
    /// The handle of the Resource that the Node will represent. Its Project is the composite resource's.
    pub handle: &'a ResourceHandle,
}

/// The path of an injected field below `spec`.
pub(crate) type FieldPath = &'static [&'static str];

impl InjectionStrategy {
    /// Every strategy.
    pub const ALL: [Self; 3] = [Self::CloudInitUserData, Self::HelmValues, Self::ProviderSecret];

    /// The name in a catalog.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CloudInitUserData => "cloud-init-user-data",
            Self::HelmValues => "helm-values",
            Self::ProviderSecret => "provider-secret",
        }
    }

    /// The fields that an XRD has to declare; the first one contains the token.
    pub(crate) const fn field_paths(self) -> &'static [FieldPath] {
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

    /// The fields that an XRD may declare. Published XRDs without them stay valid.
    pub(crate) const fn optional_field_paths(self) -> &'static [FieldPath] {
        match self {
            Self::HelmValues => &[
                &["parameters", "helmValues", "projectId"],
                &["parameters", "helmValues", "resourceHandle"],
            ],
            Self::CloudInitUserData | Self::ProviderSecret => &[],
        }
    }

    /// The fields that the strategy fills in a composite resource of this XRD.
    pub(crate) fn filled_paths(self, xrd: &Xrd) -> impl Iterator<Item = FieldPath> {
        let optional = self.optional_field_paths().iter();
        self.field_paths()
            .iter()
            .chain(optional.filter(|path| xrd.spec().takes_text(path)))
            .copied()
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

/// Arms a composite resource: injects the token, sets the annotation that names it, and removes the pause.
///
/// # Errors
///
/// [`Error::InvalidInput`] when the token is not printable ASCII of at most 512 bytes, or when the XRD
/// rejects the injected values. The error repeats none of them.
pub fn inject_bootstrap(xr: &Xr<'_>, bootstrap: &Bootstrap<'_>) -> Result<SealedManifest, Error> {
    let Some(strategy) = xr.injection() else {
        let problem = "is given for a standalone blueprint; only a node has a token";
        return Err(Error::invalid("bootstrap_token", problem));
    };
    let token = bootstrap.token.expose_secret();
    let printable = token.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES || !printable {
        let problem = format!("is unusable; use 1 to {MAX_TOKEN_BYTES} printable ASCII characters");
        return Err(Error::invalid("bootstrap_token", problem));
    }
    let Bootstrap { api_url, agent, handle, .. } = *bootstrap;
    let enrolment = Enrolment { token, api_url, project: xr.project(), handle };
    let values = values(strategy, &enrolment, agent)?;
    let mut manifest = xr.unpinned(&Armed::Token(bootstrap.token_id));
    if let Some(spec) = manifest.spec_mut() {
        insert_declared(strategy, xr.xrd(), spec, values);
    }
    let mut injected = vec![bootstrap.token.clone()];
    injected.extend(injected_in(manifest.spec()));
    // Seal before the check, so that the token is wiped on every exit.
    let problems = xr.xrd().check(manifest.spec());
    let sealed = SealedManifest::new(xr.pin(manifest), injected);
    first_problem(&problems).map_or(Ok(sealed), Err)
}

/// Re-applies an armed composite resource with its existing injection and Composition.
///
/// Server-side apply removes fields that their owner omits, and the broker no longer has the plaintext. It
/// copies the injection from the live object.
///
/// # Errors
///
/// [`Error::InvalidInput`] when the live object is not armed with this token, or when part of the injection
/// is missing. Otherwise the annotation would name an injection that is missing.
pub fn preserve_injection(
    live: &Value,
    xr: &Xr<'_>,
    token_id: BootstrapTokenId,
) -> Result<SealedManifest, Error> {
    let arming = Armed::Token(token_id);
    if armed(live) != Some(arming.to_string().as_str()) {
        let problem = format!("is not armed with {arming}; it has no injection to keep");
        return Err(Error::invalid("metadata.annotations", problem));
    }
    let spec = live.get("spec").unwrap_or(&Value::Null);
    let mut preserved = Vec::new();
    for path in xr.injection().map_or(&[][..], InjectionStrategy::field_paths) {
        let value = text_at(spec, path).ok_or_else(|| {
            let problem = "is missing on the live object; it has no injection to keep";
            Error::invalid(format!("spec.{}", path.join(".")), problem)
        })?;
        preserved.push((path, value));
    }
    // An object that an earlier release armed has none of them.
    let optional = xr.injection().map_or(&[][..], InjectionStrategy::optional_field_paths);
    preserved.extend(optional.iter().filter_map(|path| Some((path, text_at(spec, path)?))));
    let mut manifest = xr.reapply(live, &arming);
    if let Some(spec) = manifest.spec_mut() {
        for (path, value) in preserved {
            insert(spec, path, Value::from(value));
        }
    }
    Ok(SealedManifest::new(manifest, injected(live)))
}

/// The injected secrets of a live object, for [`crate::scrub`]: the token-bearing value of each site, and the
/// token inside a cloud-init document. The other injected values are not secret.
pub fn injected(live: &Value) -> Vec<SecretString> {
    live.get("spec").map(injected_in).unwrap_or_default()
}

fn injected_in(spec: &Value) -> Vec<SecretString> {
    // The first field of each strategy contains the token.
    let paths =
        InjectionStrategy::ALL.into_iter().filter_map(|strategy| strategy.field_paths().first());
    let values = |text: &str| {
        let token = cloud_init::token_in(text);
        // A YAML file inside of the document escapes once more than the scrubber undoes.
        let escaped = token.as_ref().map(|token| escape(token.expose_secret()).into());
        token.into_iter().chain(escaped).chain([text.into()])
    };
    paths.filter_map(|path| text_at(spec, path)).flat_map(values).collect()
}

/// Redacts an object for people: replaces every value at an injection site, and every other text that
/// contains one.
///
/// ```
/// use serde_json::json;
///
/// let object = json!({"spec": {"userData": "#cloud-config", "size": 3}, "note": "x #cloud-config"});
/// let shown = broker_render::redacted(&object);
/// assert_eq!(shown, json!({"spec": {"userData": "█", "size": 3}, "note": "█"}));
/// ```
pub fn redacted(object: &Value) -> Value {
    let hidden = injected(object);
    let mut shown = object.clone();
    if let Some(spec) = shown.get_mut("spec").and_then(Value::as_object_mut) {
        for path in injected_values_mut(spec) {
            if path.as_str().is_none_or(|text| !text.is_empty()) {
                *path = Value::from(REDACTED);
            }
        }
    }
    let hidden: Vec<_> = hidden.iter().map(SecretString::expose_secret).collect();
    hide(&mut shown, &hidden);
    shown
}

const REDACTED: &str = "█";

fn hide(value: &mut Value, hidden: &[&str]) {
    match value {
        Value::String(text) => {
            if hidden.iter().any(|secret| text.contains(secret)) {
                REDACTED.clone_into(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, hidden)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, hidden)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The values for a strategy's fields, required and optional, in their order.
fn values(
    strategy: InjectionStrategy,
    enrolment: &Enrolment<'_>,
    agent: &Agent,
) -> Result<Vec<String>, Error> {
    let Enrolment { token, api_url, project, handle } = *enrolment;
    Ok(match strategy {
        InjectionStrategy::CloudInitUserData => vec![cloud_init::document(enrolment, agent)?],
        InjectionStrategy::HelmValues => vec![
            token.to_owned(),
            api_url.as_str().to_owned(),
            agent.image.as_str().to_owned(),
            project.to_string(),
            handle.as_str().to_owned(),
        ],
        InjectionStrategy::ProviderSecret => vec![token.to_owned()],
    })
}

/// Inserts the values of the fields that the XRD declares.
fn insert_declared(
    strategy: InjectionStrategy,
    xrd: &Xrd,
    spec: &mut Map<String, Value>,
    values: Vec<String>,
) {
    let paths = strategy.field_paths().iter().chain(strategy.optional_field_paths());
    for (path, value) in paths.copied().zip(values) {
        if strategy.filled_paths(xrd).any(|filled| filled == path) {
            insert(spec, path, Value::String(value));
        }
    }
}

/// Inserts a sample injection, to check it against an XRD.
pub(crate) fn insert_sample(
    strategy: InjectionStrategy,
    xrd: &Xrd,
    spec: &mut Map<String, Value>,
) -> Result<(), Error> {
    let enrolment = Enrolment {
        token: "a-token-of-thirty-two-characters",
        api_url: &ApiUrl::new("https://api.plexsphere.example")?,
        project: "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10".parse()?,
        handle: &ResourceHandle::new("web-1")?,
    };
    insert_declared(strategy, xrd, spec, values(strategy, &enrolment, &Agent::default())?);
    Ok(())
}

/// Inserts empty strings, for a shell whose XRD requires the site.
pub(crate) fn insert_empty(strategy: InjectionStrategy, xrd: &Xrd, spec: &mut Map<String, Value>) {
    for path in strategy.filled_paths(xrd) {
        insert(spec, path, Value::from(""));
    }
}

pub(crate) fn remove_sites(spec: &mut Map<String, Value>) {
    spec.remove("userData");
    if let Some(Value::Object(parameters)) = spec.get_mut("parameters") {
        parameters.retain(|name, _| !RESERVED_PARAMETERS.contains(&name.as_str()));
    }
}

pub(crate) fn injected_values_mut(spec: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut values = Vec::new();
    for (key, value) in spec {
        match (key.as_str(), value) {
            ("userData", value) => values.push(value),
            ("parameters", Value::Object(parameters)) => {
                let sites = parameters.iter_mut();
                let sites = sites.filter(|(name, _)| RESERVED_PARAMETERS.contains(&name.as_str()));
                let inner = sites.filter_map(|(_, site)| site.as_object_mut());
                values.extend(inner.flat_map(|site| site.iter_mut().map(|(_, value)| value)));
            }
            _ => {}
        }
    }
    values
}

/// A text that is not empty.
fn text_at<'a>(spec: &'a Value, path: &[&str]) -> Option<&'a str> {
    let value = path.iter().try_fold(spec, |value, key| value.get(key))?;
    value.as_str().filter(|text| !text.is_empty())
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
