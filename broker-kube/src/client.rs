//! A client as the adapter needs it. Only the composition root makes one.

use http::HeaderValue;
use http::header::{InvalidHeaderValue, USER_AGENT};
use kube::Config;

/// Turns a configuration into one that the adapter may be given: every request is sent once, and says who
/// sent it.
///
/// By itself `kube` repeats what was answered with 429, 503 or 504. An apply that was answered with 504 may
/// have happened, and the broker has to look before it sends anything again.
///
/// The HTTP client below repeats one thing only: a request that a pooled connection closed on before a byte
/// of it was written. That did not happen, so it cannot happen twice.
///
/// ```
/// use kube::Config;
///
/// let config = Config::new("https://127.0.0.1:6443".parse()?);
/// let config = broker_kube::client_config(config, "provisioning-broker/0.1.0")?;
/// assert!(!config.default_retry);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the user agent is not made of visible ASCII characters and spaces.
pub fn client_config(mut config: Config, user_agent: &str) -> Result<Config, InvalidHeaderValue> {
    let user_agent = HeaderValue::from_str(user_agent)?;
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, user_agent));
    config.default_retry = false;
    Ok(config)
}
