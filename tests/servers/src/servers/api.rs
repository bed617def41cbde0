//! A minimal Kubernetes API client that prepares a control plane: applies objects, and waits until kinds are served.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{
    control_plane::{ControlPlaneAccess, MASTERS},
    probe::Probe,
};

/// The field manager of applied objects.
const FIELD_MANAGER: &str = "cargo-xtask";

/// The timeout for a kind to be served.
const TIMEOUT: Duration = Duration::from_mins(1);

const POLL: Duration = Duration::from_millis(50);

/// The API of a control plane, with full access.
#[derive(Debug, Clone)]
pub struct Api {
    probe: Probe,
}

impl Api {
    /// A client with an identity in the group [`MASTERS`](super::control_plane::MASTERS).
    ///
    /// # Errors
    ///
    /// The run has ended, or its certificates are unusable.
    pub fn connect(access: &ControlPlaneAccess) -> Result<Self> {
        let authority = access.authority()?;
        let admin = authority.identity("admin", Some(MASTERS))?;
        Ok(Self { probe: Probe::new(access.port()?, &authority, &admin)?.with_long_timeout() })
    }

    /// Applies an object at its path, such as `/api/v1/namespaces/sample`.
    ///
    /// # Errors
    ///
    /// The server rejects it, with the server's message, or does not respond.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        // The body is JSON, which is valid YAML.
        self.send("PATCH", &path, Some(("application/apply-patch+yaml", object)))
    }

    /// Merges fields into the object at a path. The status of an object has a separate path.
    ///
    /// # Errors
    ///
    /// The server rejects it, with the server's message, or does not respond.
    pub fn merge(&self, path: &str, fields: &Value) -> Result<Value> {
        self.send("PATCH", path, Some(("application/merge-patch+json", fields)))
    }

    /// Reads an object.
    ///
    /// # Errors
    ///
    /// It does not exist, or the server does not respond.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.send("GET", path, None)
    }

    /// Applies a `CustomResourceDefinition` and waits until its objects are served.
    ///
    /// # Errors
    ///
    /// The server rejects it, or does not serve its objects in time.
    pub fn install_crd(&self, definition: &Value) -> Result<()> {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.apply(&format!("{definitions}/{name}"), definition)?;
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
        let versions = spec["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["served"] == true) {
            let version = text(&version["name"]);
            self.wait_for(&format!("/apis/{group}/{version}/{plural}?limit=1"))?;
        }
        Ok(())
    }

    /// Waits until a GET of a path returns 200.
    ///
    /// # Errors
    ///
    /// The timeout ends first; the error contains the last response.
    pub fn wait_for(&self, path: &str) -> Result<()> {
        let started = Instant::now();
        loop {
            match self.get(path) {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > TIMEOUT => return Err(error),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn send(&self, method: &str, path: &str, content: Option<(&str, &Value)>) -> Result<Value> {
        let body = content.map(|(kind, object)| (kind, object.to_string()));
        let content = body.as_ref().map(|(kind, body)| (*kind, body.as_str()));
        let response = self.probe.send(method, path, content);
        let (status, body) = response.with_context(|| format!("no response to {method} {path}"))?;
        // A rejection is a `Status` or a plain line.
        let object = serde_json::from_str::<Value>(&body);
        if (200..300).contains(&status) {
            return Ok(object.unwrap_or_default());
        }
        let message = object.ok().and_then(|object| Some(object["message"].as_str()?.to_owned()));
        let message = message.unwrap_or_else(|| body.trim().to_owned());
        bail!("{method} {path} returned {status}: {message}")
    }
}
