//! Derives the `CustomResourceDefinition` of an XRD as Crossplane does, so that an API server without Crossplane can
//! serve composite resources; and defines any other kind.
//!
//! Crossplane takes only parts of the XRD's schema: of `spec` and `status` the fields, required fields, CEL rules and
//! `oneOf`; of `spec` also whether unknown fields are preserved. The rest is Crossplane's own schema, here without the
//! claims and connection details of legacy kinds.

use serde_json::{Map, Value, json};

/// Derives the definition. The XRD must be valid as far as an API server checks it.
pub fn from_xrd(xrd: &Value) -> Value {
    let spec = &xrd["spec"];
    let scope = scope(xrd);
    let versions = spec["versions"].as_array().into_iter().flatten();
    let versions: Vec<Value> =
        versions.map(|version| derive_version(spec, scope, version)).collect();
    let mut names = spec["names"].clone();
    let mut categories = names["categories"].as_array().cloned().unwrap_or_default();
    categories.push(json!("composite"));
    names["categories"] = Value::from(categories);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": xrd["metadata"]["name"]},
        "spec": {
            "group": spec["group"],
            "names": names,
            "scope": if scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
            "versions": versions,
        },
    })
}

/// The definition of a namespaced kind whose objects may have any fields.
pub fn any_fields(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything},
            }],
        },
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
    LegacyCluster,
}

fn scope(xrd: &Value) -> Scope {
    let is_v1 = xrd["apiVersion"].as_str().is_some_and(|version| version.ends_with("/v1"));
    match xrd["spec"]["scope"].as_str() {
        Some("Cluster") => Scope::Cluster,
        Some("Namespaced") => Scope::Namespaced,
        Some(_) => Scope::LegacyCluster,
        None if is_v1 => Scope::LegacyCluster,
        None => Scope::Namespaced,
    }
}

fn derive_version(xrd_spec: &Value, scope: Scope, version: &Value) -> Value {
    let xrd_schema = &version["schema"]["openAPIV3Schema"];
    let mut schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            // The name becomes a label value.
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}},
        },
    });
    copy(xrd_schema, &mut schema, &["description", "x-kubernetes-validations"]);

    let xrd_spec_schema = &xrd_schema["properties"]["spec"];
    let mut spec = json!({"type": "object"});
    let kept = ["description", "required", "oneOf", "x-kubernetes-validations"];
    copy(xrd_spec_schema, &mut spec, &kept);
    copy(xrd_spec_schema, &mut spec, &["x-kubernetes-preserve-unknown-fields"]);
    spec["properties"] = merged(&xrd_spec_schema["properties"], &spec_fields(xrd_spec, scope));

    let xrd_status_schema = &xrd_schema["properties"]["status"];
    let mut status = json!({"type": "object"});
    copy(xrd_status_schema, &mut status, &kept);
    status["properties"] = merged(&xrd_status_schema["properties"], &status_fields());

    schema["properties"]["spec"] = spec;
    schema["properties"]["status"] = status;
    json!({
        "name": version["name"],
        "served": version["served"],
        "storage": version["referenceable"],
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    })
}

fn copy(from: &Value, to: &mut Value, keywords: &[&str]) {
    for keyword in keywords {
        if let Some(value) = from.get(keyword) {
            to[*keyword] = value.clone();
        }
    }
}

/// Crossplane's own fields override those of the XRD.
fn merged(xrd_fields: &Value, crossplane_fields: &Value) -> Value {
    let mut fields = xrd_fields.as_object().cloned().unwrap_or_default();
    fields.extend(crossplane_fields.as_object().cloned().unwrap_or_default());
    Value::Object(fields)
}

fn spec_fields(xrd_spec: &Value, scope: Scope) -> Value {
    let mut policy = json!({"type": "string", "enum": ["Automatic", "Manual"]});
    if let Some(default) = xrd_spec.get("defaultCompositionUpdatePolicy") {
        policy["default"] = default.clone();
    }
    let mut reference = strings(&["apiVersion", "kind", "name"], &["apiVersion", "kind"]);
    if scope != Scope::Namespaced {
        // An object in a namespace composes only within it.
        reference["properties"]["namespace"] = json!({"type": "string"});
    }
    let fields = json!({
        "compositionRef": strings(&["name"], &["name"]),
        "compositionSelector": label_selector(),
        "compositionRevisionRef": strings(&["name"], &["name"]),
        "compositionRevisionSelector": label_selector(),
        "compositionUpdatePolicy": policy,
        "resourceRefs": {"type": "array", "items": reference, "x-kubernetes-list-type": "atomic"},
    });
    if scope == Scope::LegacyCluster {
        return fields;
    }
    json!({"crossplane": {"type": "object", "properties": fields}})
}

fn status_fields() -> Value {
    let mut condition = strings(
        &["lastTransitionTime", "message", "reason", "status", "type"],
        &["lastTransitionTime", "reason", "status", "type"],
    );
    condition["properties"]["lastTransitionTime"]["format"] = json!("date-time");
    condition["properties"]["observedGeneration"] = json!({"type": "integer", "format": "int64"});
    json!({"conditions": {
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }})
}

fn strings(fields: &[&str], required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), json!({"type": "string"}))).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

fn label_selector() -> Value {
    let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "required": ["matchLabels"], "properties": {"matchLabels": labels}})
}
