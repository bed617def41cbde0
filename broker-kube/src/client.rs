//! The client configuration that the adapter requires. Only the composition root builds a client.

use http::HeaderValue;
use http::header::{InvalidHeaderValue, USER_AGENT};
use kube::Config;

/// Adapts a configuration: every request is sent once and carries this user agent.
///
/// By default `kube` retries after the responses 429, 503 and 504. An apply with response 504 may have happened,
/// so the broker must read before it sends anything again.
///
/// The HTTP client below `kube` still retries one case: a pooled connection closed before the first byte was written.
/// That request did not happen, so the retry is safe.
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
/// If the user agent contains other characters than visible ASCII and spaces.
pub fn client_config(mut config: Config, user_agent: &str) -> Result<Config, InvalidHeaderValue> {
    let user_agent = HeaderValue::from_str(user_agent)?;
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, user_agent));
    config.default_retry = false;
    Ok(config)
}
