//! The Kubernetes API for whoever furnishes a control plane: objects are applied, and kinds are there when
//! the call returns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{
    control_plane::{ControlPlaneAccess, MASTERS},
    probe::Probe,
};

/// Who owns what is applied here.
const FIELD_MANAGER: &str = "cargo-xtask";

/// A kind that is not served by then never will be.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often is looked whether a kind is served.
const POLL: Duration = Duration::from_millis(50);

/// The API of a control plane, as somebody who may do everything.
#[derive(Debug, Clone)]
pub struct Api {
    probe: Probe,
}

impl Api {
    /// The API at an address, as a member of the group that may do everything.
    ///
    /// # Errors
    ///
    /// When the run has ended, or its certificates cannot be used.
    pub fn of(access: &ControlPlaneAccess) -> Result<Self> {
        let authority = access.authority()?;
        let admin = authority.identity("admin", Some(MASTERS))?;
        Ok(Self { probe: Probe::new(access.port()?, &authority, &admin)?.patient() })
    }

    /// Creates an object, or changes it to this. `path` is the object's own, such as
    /// `/api/v1/namespaces/sample`.
    ///
    /// # Errors
    ///
    /// When the server refuses it, with the server's own words, or does not answer.
    pub fn apply(&self, path: &str, object: &Value) -> Result<Value> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
        // JSON is YAML.
        self.send("PATCH", &path, Some(("application/apply-patch+yaml", object)))
    }

    /// Changes some fields of an object; its status is at a path of its own.
    ///
    /// # Errors
    ///
    /// When the server refuses it, with the server's own words, or does not answer.
    pub fn merge(&self, path: &str, fields: &Value) -> Result<Value> {
        self.send("PATCH", path, Some(("application/merge-patch+json", fields)))
    }

    /// What is at a path.
    ///
    /// # Errors
    ///
    /// When there is nothing, or the server does not answer.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.send("GET", path, None)
    }

    /// Installs a `CustomResourceDefinition`, or changes it to this, and waits until its objects are served.
    ///
    /// # Errors
    ///
    /// When the server refuses it, or never serves its objects.
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

    /// Waits until a GET of a path is answered with 200.
    ///
    /// # Errors
    ///
    /// When that takes too long, with the last answer.
    pub fn wait_for(&self, path: &str) -> Result<()> {
        let started = Instant::now();
        loop {
            match self.get(path) {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > PATIENCE => return Err(error),
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }

    fn send(&self, method: &str, path: &str, content: Option<(&str, &Value)>) -> Result<Value> {
        let body = content.map(|(kind, object)| (kind, object.to_string()));
        let content = body.as_ref().map(|(kind, body)| (*kind, body.as_str()));
        let answer = self.probe.send(method, path, content);
        let (status, body) = answer.with_context(|| format!("no answer to {method} {path}"))?;
        // A refusal is a `Status` or a plain line.
        let object = serde_json::from_str::<Value>(&body);
        if (200..300).contains(&status) {
            return Ok(object.unwrap_or_default());
        }
        let message = object.ok().and_then(|object| Some(object["message"].as_str()?.to_owned()));
        let message = message.unwrap_or_else(|| body.trim().to_owned());
        bail!("{method} {path} was answered with {status}: {message}")
    }
}
