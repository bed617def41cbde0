//! How to reach a control plane, with any identity.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::servers::certificates::{Authority, Credentials};

/// The address of an API server, and the authority for identities on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlPlaneAccess {
    /// Its address.
    pub url: String,
    /// The directory of its certificate authority, see [`Authority::load`].
    pub authority: PathBuf,
    /// One line of JSON for each stage of each request.
    pub audit_log: PathBuf,
}

impl ControlPlaneAccess {
    /// The port of its address.
    pub(in crate::servers) fn port(&self) -> Result<u16> {
        let port = self.url.rsplit(':').next().and_then(|port| port.parse().ok());
        port.with_context(|| format!("{:?} names no port", self.url))
    }

    /// The certificate authority of the API server.
    ///
    /// # Errors
    ///
    /// The run has ended.
    pub fn authority(&self) -> Result<Authority> {
        Authority::load(&self.authority)
    }

    /// A self-contained kubeconfig, as JSON, which every kubeconfig parser accepts.
    pub fn kubeconfig(&self, authority: &Authority, identity: &Credentials) -> String {
        kubeconfig(&self.url, Some(authority), Some(identity))
    }
}

/// The kubeconfig of a server. Over plain HTTP, as for a proxy, it needs no certificates.
pub fn kubeconfig(
    url: &str,
    authority: Option<&Authority>,
    identity: Option<&Credentials>,
) -> String {
    let cluster = match authority {
        Some(authority) => json!({
            "server": url,
            "certificate-authority-data": BASE64_STANDARD.encode(authority.certificate()),
        }),
        None => json!({ "server": url }),
    };
    let user = match identity {
        Some(identity) => json!({
            "client-certificate-data": BASE64_STANDARD.encode(&identity.certificate),
            "client-key-data": BASE64_STANDARD.encode(&identity.key),
        }),
        None => json!({}),
    };
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "run", "cluster": cluster }],
        "users": [{ "name": "run", "user": user }],
        "contexts": [{ "name": "run", "context": { "cluster": "run", "user": "run" } }],
        "current-context": "run",
    })
    .to_string()
}
