//! The objects that must exist on the API server before Crossplane starts, or that replace those of its package
//! manager.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use broker_app::render::read_document;

use crate::failure::cannot;
use crate::servers::{api::Api, certificates::Authority};

/// Crossplane's own namespace.
const NAMESPACE: &str = "crossplane-system";

/// The API path of webhook configurations, with which the API server calls Crossplane.
const WEBHOOK_CONFIGURATIONS: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// The API path of function revisions, in which Crossplane finds the addresses of its functions.
const FUNCTION_REVISIONS: &str = "/apis/pkg.crossplane.io/v1/functionrevisions";

/// Creates the objects through the API server.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) api: Api,
}

impl Objects {
    /// Installs every `CustomResourceDefinition` of a directory and waits until their objects are served: Crossplane
    /// does not wait.
    pub(super) fn define(&self, directory: &Path) -> Result<()> {
        for entry in fs::read_dir(directory).with_context(cannot("read", directory))? {
            let path = entry.with_context(cannot("read", directory))?.path();
            self.api.install_crd(&read(&path)?)?;
        }
        Ok(())
    }

    pub(super) fn create_namespace(&self) -> Result<()> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.api.apply(&format!("/api/v1/namespaces/{NAMESPACE}"), &namespace).map(drop)
    }

    /// Registers the address of a function. The revision is paused, so that the package manager does not pull an image
    /// that does not exist.
    pub(super) fn register_function(&self, name: &str, port: u16) -> Result<()> {
        let revision = json!({
            "apiVersion": "pkg.crossplane.io/v1",
            "kind": "FunctionRevision",
            "metadata": {
                "name": name,
                "labels": {"pkg.crossplane.io/package": name},
                "annotations": {"crossplane.io/paused": "true"},
            },
            "spec": {
                "desiredState": "Active",
                "image": format!("localhost/{name}:none"),
                "revision": 1,
            },
        });
        let path = format!("{FUNCTION_REVISIONS}/{name}");
        self.api.apply(&path, &revision)?;
        let status = json!({"status": {
            "endpoint": format!("dns:///localhost:{port}"),
            "capabilities": ["composition"],
        }});
        self.api.merge(&format!("{path}/status"), &status).map(drop)
    }

    /// Installs the webhook configuration of Usages: the API server asks Crossplane before it deletes an object that a
    /// Usage protects.
    ///
    /// Crossplane's configuration in `file` names a Service. A control plane without nodes cannot reach it, so a local
    /// URL replaces the Service.
    pub(super) fn configure_usages(
        &self,
        file: &Path,
        port: u16,
        authority: &Authority,
    ) -> Result<()> {
        let mut configuration = read(file)?;
        let hooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
        for hook in hooks.into_iter().flatten() {
            hook["clientConfig"] = json!({
                "url": format!("https://localhost:{port}/validate-no-usages"),
                "caBundle": BASE64_STANDARD.encode(authority.certificate()),
            });
        }
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.api.apply(&format!("{WEBHOOK_CONFIGURATIONS}/{name}"), &configuration).map(drop)
    }
}

fn read(path: &Path) -> Result<Value> {
    let text = fs::read(path).with_context(cannot("read", path))?;
    let name = path.to_string_lossy();
    read_document(&name, &text).with_context(cannot("parse", path))
}
