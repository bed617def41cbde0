//! What the environment says: read once, at the edge, from a map, into values that cannot be wrong.
//!
//! A value that is empty counts as not set. A bad one is one line that names the variable, the value and what
//! is allowed. What may hold a password is named without its value.

mod event_url;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use broker_app::BrokerConfig;
use broker_app::decide::Mode;
use broker_render::ApiUrl;
use humantime::format_duration;
use secrecy::SecretString;

pub(crate) use event_url::EventUrl;

/// Where the store is.
pub(crate) const DSN: &str = "PLEXSPHERE_DSN";
/// How often everything is looked at.
pub(crate) const RECONCILE_INTERVAL: &str = "PLEXSPHERE_PROVISIONING_BROKER_RECONCILE_INTERVAL";
/// How long a bootstrap token can be consumed.
pub(crate) const TOKEN_TTL: &str = "PLEXSPHERE_PROVISIONING_BROKER_TOKEN_TTL";
/// Whether anything is changed at all.
pub(crate) const ENABLED: &str = "PLEXSPHERE_PROVISIONING_BROKER_ENABLED";
/// The control plane that agents call.
pub(crate) const API_URL: &str = "PLEXSPHERE_PROVISIONING_BROKER_API_URL";
/// Where health and metrics are served.
pub(crate) const LISTEN: &str = "PLEXSPHERE_PROVISIONING_BROKER_LISTEN";
/// Where events go.
pub(crate) const EVENT_URL: &str = "PLEXSPHERE_PROVISIONING_BROKER_EVENT_URL";
/// How the management cluster is reached.
pub(crate) const KUBECONFIG: &str = "KUBECONFIG";

/// Every variable that is read.
pub(crate) const VARIABLES: [&str; 8] =
    [DSN, RECONCILE_INTERVAL, TOKEN_TTL, ENABLED, API_URL, LISTEN, EVENT_URL, KUBECONFIG];

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8090);

/// A value that is longer is cut in messages.
const MOST_SHOWN_BYTES: usize = 128;

/// Everything that the environment says.
#[derive(Debug)]
pub(crate) struct Settings {
    dsn: Option<Dsn>,
    pub(crate) api_url: Option<ApiUrl>,
    pub(crate) reconcile_interval: Duration,
    pub(crate) token_ttl: Duration,
    pub(crate) mode: Mode,
    pub(crate) listen: SocketAddr,
    pub(crate) event_url: Option<EventUrl>,
    /// Files in the order of precedence; none: the convention of the cluster's clients.
    pub(crate) kubeconfig: Vec<PathBuf>,
}

/// A connection string. It holds a password more often than not, so it is never shown.
pub(crate) struct Dsn(SecretString);

/// What a replica needs beyond what every command needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica<'a> {
    pub(crate) dsn: &'a Dsn,
    pub(crate) api_url: &'a ApiUrl,
    pub(crate) settings: &'a Settings,
}

/// A variable that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    /// It holds what is not allowed.
    #[error("{variable} is {value:?}; use {allowed}")]
    Value { variable: &'static str, value: String, allowed: Cow<'static, str> },
    /// The same, where the value may hold a password.
    #[error("{variable} {problem}; use {allowed}")]
    Hidden { variable: &'static str, problem: &'static str, allowed: &'static str },
    /// It has to be set and is not.
    #[error("{variable} is empty; use {allowed}")]
    Missing { variable: &'static str, allowed: &'static str },
    /// The issuer does not allow it.
    #[error(
        "{TOKEN_TTL} is {}; the issuer of the tokens allows {} to {}",
        format_duration(*.ttl),
        format_duration(*.min),
        format_duration(*.max)
    )]
    TokenTtl { ttl: Duration, min: Duration, max: Duration },
    /// Its bytes are no text.
    #[error("{variable} is not UTF-8; use plain text")]
    NotText { variable: &'static str },
}

const DSN_ALLOWED: &str = "a connection string such as postgres://USER@HOST:5432/DATABASE";
const SSLMODE_ALLOWED: &str =
    "sslmode=verify-full in its query, or another sslmode where the network is trusted";
const API_URL_ALLOWED: &str =
    "the URL that agents enrol at: https://HOST[:PORT][/PATH], or http on the loopback interface";
const LISTEN_ALLOWED: &str = "an IP address and a port, such as 127.0.0.1:8090";

/// The variables of this process that are read here.
///
/// # Errors
///
/// [`SettingsError::NotText`].
#[expect(
    clippy::disallowed_methods,
    reason = "the binary is the composition root: it reads the environment, here and once"
)]
pub(crate) fn environment() -> Result<BTreeMap<String, String>, SettingsError> {
    let mut environment = BTreeMap::new();
    for variable in VARIABLES {
        if let Some(value) = std::env::var_os(variable) {
            let value = value.into_string().map_err(|_| SettingsError::NotText { variable })?;
            environment.insert(variable.to_owned(), value);
        }
    }
    Ok(environment)
}

impl Settings {
    /// Reads what is set.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] about the first variable, in the order of [`VARIABLES`], that cannot be used.
    pub(crate) fn read(environment: &BTreeMap<String, String>) -> Result<Self, SettingsError> {
        let set = |name| environment.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let default = BrokerConfig::default();
        Ok(Self {
            dsn: set(DSN).map(dsn).transpose()?,
            reconcile_interval: set(RECONCILE_INTERVAL)
                .map_or(Ok(default.sweep_interval), reconcile_interval)?,
            token_ttl: set(TOKEN_TTL).map_or(Ok(default.token_ttl), token_ttl)?,
            mode: set(ENABLED).map_or(Ok(default.mode), mode)?,
            api_url: set(API_URL).map(api_url).transpose()?,
            listen: set(LISTEN).map_or(Ok(DEFAULT_LISTEN), listen)?,
            event_url: set(EVENT_URL).map(EventUrl::parse).transpose()?,
            kubeconfig: set(KUBECONFIG).map(kubeconfig).unwrap_or_default(),
        })
    }

    /// The store, for a command that cannot do without.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Missing`].
    pub(crate) fn store(&self) -> Result<&Dsn, SettingsError> {
        self.dsn.as_ref().ok_or(SettingsError::Missing { variable: DSN, allowed: DSN_ALLOWED })
    }

    /// What a replica needs; `None` without a store: the replica is inert.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Missing`] for the URL of the control plane, without which no agent could enrol.
    pub(crate) fn replica(&self) -> Result<Option<Replica<'_>>, SettingsError> {
        let Some(dsn) = &self.dsn else { return Ok(None) };
        let missing = SettingsError::Missing { variable: API_URL, allowed: API_URL_ALLOWED };
        let api_url = self.api_url.as_ref().ok_or(missing)?;
        Ok(Some(Replica { dsn, api_url, settings: self }))
    }
}

impl SettingsError {
    /// The driver cannot make anything of the connection string.
    pub(crate) const fn unreadable_dsn() -> Self {
        Self::Hidden { variable: DSN, problem: "cannot be read", allowed: DSN_ALLOWED }
    }

    /// The connection string leaves it to the server whether a password crosses the network in the clear.
    pub(crate) const fn unprotected_dsn() -> Self {
        let problem = "names a remote server without an sslmode";
        Self::Hidden { variable: DSN, problem, allowed: SSLMODE_ALLOWED }
    }
}

impl Dsn {
    /// The connection string, for the driver only.
    pub(crate) const fn secret(&self) -> &SecretString {
        &self.0
    }
}

impl fmt::Debug for Dsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dsn(…)")
    }
}

fn refused(
    variable: &'static str,
    value: &str,
    allowed: impl Into<Cow<'static, str>>,
) -> SettingsError {
    let mut value = value.to_owned();
    if value.len() > MOST_SHOWN_BYTES {
        value.truncate(value.floor_char_boundary(MOST_SHOWN_BYTES));
        value.push('…');
    }
    SettingsError::Value { variable, value, allowed: allowed.into() }
}

fn dsn(text: &str) -> Result<Dsn, SettingsError> {
    let known = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    if !known {
        let problem = "does not begin with postgres:// or postgresql://";
        return Err(SettingsError::Hidden { variable: DSN, problem, allowed: DSN_ALLOWED });
    }
    Ok(Dsn(text.into()))
}

fn reconcile_interval(text: &str) -> Result<Duration, SettingsError> {
    let allowed = BrokerConfig::SWEEP_INTERVALS;
    let interval = humantime::parse_duration(text).ok();
    interval.filter(|interval| allowed.contains(interval)).ok_or_else(|| {
        let [least, most, default] =
            [*allowed.start(), *allowed.end(), BrokerConfig::default().sweep_interval]
                .map(format_duration);
        refused(
            RECONCILE_INTERVAL,
            text,
            format!("a duration from {least} to {most}, such as {default}"),
        )
    })
}

/// The issuer's own window is checked when there is an issuer to be asked.
fn token_ttl(text: &str) -> Result<Duration, SettingsError> {
    let ttl = humantime::parse_duration(text).ok().filter(|ttl| !ttl.is_zero());
    ttl.ok_or_else(|| {
        let default = format_duration(BrokerConfig::default().token_ttl);
        refused(TOKEN_TTL, text, format!("a duration of more than zero, such as {default}"))
    })
}

fn mode(text: &str) -> Result<Mode, SettingsError> {
    match text {
        "true" => Ok(Mode::Live),
        "false" => Ok(Mode::DryRun),
        _ => Err(refused(ENABLED, text, "true or false")),
    }
}

fn api_url(text: &str) -> Result<ApiUrl, SettingsError> {
    // An URL with a password in it is refused by its type, and must not be shown for it.
    let hidden = SettingsError::Hidden {
        variable: API_URL,
        problem: "holds credentials",
        allowed: API_URL_ALLOWED,
    };
    let shown = if text.contains('@') { hidden } else { refused(API_URL, text, API_URL_ALLOWED) };
    ApiUrl::new(text).map_err(|_| shown)
}

fn listen(text: &str) -> Result<SocketAddr, SettingsError> {
    text.parse().map_err(|_| refused(LISTEN, text, LISTEN_ALLOWED))
}

/// Several files are separated as in a search path; an empty entry is none.
fn kubeconfig(text: &str) -> Vec<PathBuf> {
    std::env::split_paths(text).filter(|path| !path.as_os_str().is_empty()).collect()
}
