//! The URL to which events are posted, with a `Display` that reveals no secret.

use std::fmt;

use http::Uri;

use super::{EVENT_URL, SettingsError};

/// An `http` or `https` URL. Path and query are never shown: a webhook may have a key there.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EventUrl(Uri);

const ALLOWED: &str =
    "an http or https URL without credentials, such as https://events.example.org/broker";

impl EventUrl {
    pub(super) fn parse(text: &str) -> Result<Self, SettingsError> {
        let invalid =
            |problem| SettingsError::Hidden { variable: EVENT_URL, problem, allowed: ALLOWED };
        let uri: Uri = text.parse().map_err(|_| invalid("is not a URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(invalid("is neither http nor https"));
        }
        match uri.authority() {
            None => Err(invalid("names no host")),
            Some(authority) if authority.as_str().contains('@') => {
                Err(invalid("holds credentials"))
            }
            Some(_) => Ok(Self(uri)),
        }
    }

    /// The whole URL, for requests only.
    pub(crate) const fn uri(&self) -> &Uri {
        &self.0
    }
}

/// Scheme, host and port.
impl fmt::Display for EventUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, authority) = (self.0.scheme_str(), self.0.authority());
        write!(f, "{}://{}", scheme.unwrap_or_default(), authority.map_or("", |host| host.as_str()))
    }
}

impl fmt::Debug for EventUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventUrl({self})")
    }
}
