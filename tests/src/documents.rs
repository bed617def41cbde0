//! Builders of documents that a platform team writes.

use serde_json::{Value, json};

/// The XRD of a namespaced kind and its plural. All versions have one schema of `spec`, and composite
/// resources refer to the last one.
#[must_use]
pub fn xrd(group: &str, (kind, plural): (&str, &str), versions: &[&str], spec: &Value) -> Value {
    let version = |name: &&str| {
        json!({
            "name": name, "served": true, "referenceable": Some(name) == versions.last(),
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        })
    };
    json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}
