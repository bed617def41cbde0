//! Shared test fixtures: ids, objects and an XRD.

use broker_domain::ProvisionedResourceId;
use serde_json::{Value, json};

pub(crate) const PROJECT: &str = "5e0c4a36-7d0e-4c39-9c1c-3f3d6f1f2a10";

pub(crate) fn id(number: usize) -> String {
    format!("0198a8e2-5d9f-7c31-8a4e-{number:012x}")
}

pub(crate) fn resource_id(number: usize) -> ProvisionedResourceId {
    id(number).parse().unwrap()
}

/// Composite resource `number`, as a list or a watch shows it.
pub(crate) fn object(number: usize, version: u64) -> Value {
    json!({"metadata": {
        "name": format!("pr-{}", id(number)),
        "namespace": format!("plexsphere-project-{PROJECT}"),
        "uid": id(number),
        "resourceVersion": version.to_string(),
    }})
}

/// The text of an XRD of a kind. The plural derives from the kind.
pub(crate) fn xrd(kind: &str, version: &str, scope: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{plural}.example.org")},
        "spec": {
            "group": "example.org",
            "scope": scope,
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": true, "referenceable": true, "schema": schema}],
        },
    })
    .to_string()
}
