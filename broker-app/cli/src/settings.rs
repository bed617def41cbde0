//! Settings: parses the environment variables once into valid types.
//!
//! An empty variable counts as unset. An error is one line with the variable, the value and the allowed values. A value
//! that may contain a password is never shown.

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

/// The connection string of the store.
pub(crate) const DSN: &str = "PLEXSPHERE_DSN";
/// The sweep interval.
pub(crate) const RECONCILE_INTERVAL: &str = "PLEXSPHERE_PROVISIONING_BROKER_RECONCILE_INTERVAL";
/// The lifetime of a bootstrap token.
pub(crate) const TOKEN_TTL: &str = "PLEXSPHERE_PROVISIONING_BROKER_TOKEN_TTL";
/// `false` selects [`Mode::DryRun`].
pub(crate) const ENABLED: &str = "PLEXSPHERE_PROVISIONING_BROKER_ENABLED";
/// The URL at which agents enrol.
pub(crate) const API_URL: &str = "PLEXSPHERE_PROVISIONING_BROKER_API_URL";
/// The address of health and metrics.
pub(crate) const LISTEN: &str = "PLEXSPHERE_PROVISIONING_BROKER_LISTEN";
/// The URL to which events are posted.
pub(crate) const EVENT_URL: &str = "PLEXSPHERE_PROVISIONING_BROKER_EVENT_URL";
/// The kubeconfig files of the management cluster.
pub(crate) const KUBECONFIG: &str = "KUBECONFIG";

/// Every variable that the program reads.
pub(crate) const VARIABLES: [&str; 8] =
    [DSN, RECONCILE_INTERVAL, TOKEN_TTL, ENABLED, API_URL, LISTEN, EVENT_URL, KUBECONFIG];

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8090);

/// Messages truncate a longer value.
const MAX_SHOWN_BYTES: usize = 128;

#[derive(Debug)]
pub(crate) struct Settings {
    dsn: Option<Dsn>,
    pub(crate) api_url: Option<ApiUrl>,
    pub(crate) reconcile_interval: Duration,
    pub(crate) token_ttl: Duration,
    pub(crate) mode: Mode,
    pub(crate) listen: SocketAddr,
    pub(crate) event_url: Option<EventUrl>,
    /// In order of precedence; if empty, the default configuration of Kubernetes clients applies.
    pub(crate) kubeconfig: Vec<PathBuf>,
}

/// A connection string. Never shown: it usually contains a password.
pub(crate) struct Dsn(SecretString);

/// The settings with the variables that a replica requires.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica<'a> {
    pub(crate) dsn: &'a Dsn,
    pub(crate) api_url: &'a ApiUrl,
    pub(crate) settings: &'a Settings,
}

/// An invalid variable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("{variable} is {value:?}; use {allowed}")]
    Value { variable: &'static str, value: String, allowed: Cow<'static, str> },
    /// The value is invalid and may contain a password.
    #[error("{variable} {problem}; use {allowed}")]
    Hidden { variable: &'static str, problem: &'static str, allowed: &'static str },
    /// A required variable is unset.
    #[error("{variable} is empty; use {allowed}")]
    Missing { variable: &'static str, allowed: &'static str },
    /// The token issuer does not allow the lifetime.
    #[error(
        "{TOKEN_TTL} is {}; the issuer of the tokens allows {} to {}",
        format_duration(*.ttl),
        format_duration(*.min),
        format_duration(*.max)
    )]
    TokenTtl { ttl: Duration, min: Duration, max: Duration },
    /// The value is not UTF-8.
    #[error("{variable} is not UTF-8; use plain text")]
    NotText { variable: &'static str },
}

const DSN_ALLOWED: &str = "a connection string such as postgres://USER@HOST:5432/DATABASE";
const SSLMODE_ALLOWED: &str =
    "sslmode=verify-full in its query, or another sslmode where the network is trusted";
const API_URL_ALLOWED: &str =
    "the URL that agents enrol at: https://HOST[:PORT][/PATH], or http on the loopback interface";
const LISTEN_ALLOWED: &str = "an IP address and a port, such as 127.0.0.1:8090";

/// The [`VARIABLES`] of this process.
///
/// # Errors
///
/// [`SettingsError::NotText`].
#[expect(
    clippy::disallowed_methods,
    reason = "the binary is the composition root: it reads the environment once"
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
    /// Parses the variables.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for the first invalid variable.
    pub(crate) fn read(environment: &BTreeMap<String, String>) -> Result<Self, SettingsError> {
        let value_of =
            |name| environment.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let default = BrokerConfig::default();
        Ok(Self {
            dsn: value_of(DSN).map(dsn).transpose()?,
            reconcile_interval: value_of(RECONCILE_INTERVAL)
                .map_or(Ok(default.sweep_interval), reconcile_interval)?,
            token_ttl: value_of(TOKEN_TTL).map_or(Ok(default.token_ttl), token_ttl)?,
            mode: value_of(ENABLED).map_or(Ok(default.mode), mode)?,
            api_url: value_of(API_URL).map(api_url).transpose()?,
            listen: value_of(LISTEN).map_or(Ok(DEFAULT_LISTEN), listen)?,
            event_url: value_of(EVENT_URL).map(EventUrl::parse).transpose()?,
            kubeconfig: value_of(KUBECONFIG).map(kubeconfig).unwrap_or_default(),
        })
    }

    /// The connection string, for a command that needs the store.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Missing`].
    pub(crate) fn store(&self) -> Result<&Dsn, SettingsError> {
        self.dsn.as_ref().ok_or(SettingsError::Missing { variable: DSN, allowed: DSN_ALLOWED })
    }

    /// The settings of a replica; `None` without a store, where the replica is inert.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Missing`] for the URL at which agents enrol.
    pub(crate) fn replica(&self) -> Result<Option<Replica<'_>>, SettingsError> {
        let Some(dsn) = &self.dsn else { return Ok(None) };
        let missing = SettingsError::Missing { variable: API_URL, allowed: API_URL_ALLOWED };
        let api_url = self.api_url.as_ref().ok_or(missing)?;
        Ok(Some(Replica { dsn, api_url, settings: self }))
    }
}

impl SettingsError {
    /// The driver cannot parse the connection string.
    pub(crate) const fn unreadable_dsn() -> Self {
        Self::Hidden { variable: DSN, problem: "cannot be read", allowed: DSN_ALLOWED }
    }

    /// Without an `sslmode`, the server decides whether the connection uses TLS.
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

fn invalid_value(
    variable: &'static str,
    value: &str,
    allowed: impl Into<Cow<'static, str>>,
) -> SettingsError {
    let mut value = value.to_owned();
    if value.len() > MAX_SHOWN_BYTES {
        value.truncate(value.floor_char_boundary(MAX_SHOWN_BYTES));
        value.push('…');
    }
    SettingsError::Value { variable, value, allowed: allowed.into() }
}

fn dsn(text: &str) -> Result<Dsn, SettingsError> {
    let has_scheme = ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    if !has_scheme {
        let problem = "does not begin with postgres:// or postgresql://";
        return Err(SettingsError::Hidden { variable: DSN, problem, allowed: DSN_ALLOWED });
    }
    Ok(Dsn(text.into()))
}

fn reconcile_interval(text: &str) -> Result<Duration, SettingsError> {
    let allowed = BrokerConfig::SWEEP_INTERVALS;
    let interval = humantime::parse_duration(text).ok();
    interval.filter(|interval| allowed.contains(interval)).ok_or_else(|| {
        let [min, max, default] =
            [*allowed.start(), *allowed.end(), BrokerConfig::default().sweep_interval]
                .map(format_duration);
        invalid_value(
            RECONCILE_INTERVAL,
            text,
            format!("a duration from {min} to {max}, such as {default}"),
        )
    })
}

/// Accepts any positive duration; the replica checks the issuer's limits when it starts.
fn token_ttl(text: &str) -> Result<Duration, SettingsError> {
    let ttl = humantime::parse_duration(text).ok().filter(|ttl| !ttl.is_zero());
    ttl.ok_or_else(|| {
        let default = format_duration(BrokerConfig::default().token_ttl);
        invalid_value(TOKEN_TTL, text, format!("a duration of more than zero, such as {default}"))
    })
}

fn mode(text: &str) -> Result<Mode, SettingsError> {
    match text {
        "true" => Ok(Mode::Live),
        "false" => Ok(Mode::DryRun),
        _ => Err(invalid_value(ENABLED, text, "true or false")),
    }
}

fn api_url(text: &str) -> Result<ApiUrl, SettingsError> {
    // The error must not show a password in the URL.
    let hidden = SettingsError::Hidden {
        variable: API_URL,
        problem: "holds credentials",
        allowed: API_URL_ALLOWED,
    };
    let error =
        if text.contains('@') { hidden } else { invalid_value(API_URL, text, API_URL_ALLOWED) };
    ApiUrl::new(text).map_err(|_| error)
}

fn listen(text: &str) -> Result<SocketAddr, SettingsError> {
    text.parse().map_err(|_| invalid_value(LISTEN, text, LISTEN_ALLOWED))
}

/// Files are separated as in a search path; empty entries are ignored.
fn kubeconfig(text: &str) -> Vec<PathBuf> {
    std::env::split_paths(text).filter(|path| !path.as_os_str().is_empty()).collect()
}
