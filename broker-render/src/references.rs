//! The references of a live composite resource to its composed objects. Teardown waits until these are gone.

use std::collections::BTreeSet;

use broker_domain::{ObjectReference, ReferencesDigest};
use serde_json::Value;

use crate::canonical::Digest;
use crate::xrd::XrdScope;

/// The composed objects that a live composite resource names. A reference without a namespace gets the
/// namespace of the composite resource. Entries without a name refer to no object yet and are skipped.
pub fn references(live: &Value, scope: XrdScope) -> BTreeSet<ObjectReference> {
    let spec = live.get("spec");
    let holder = match scope {
        XrdScope::Namespaced | XrdScope::Cluster => spec.and_then(|spec| spec.get("crossplane")),
        XrdScope::LegacyCluster => spec,
    };
    let entries = holder.and_then(|holder| holder.get("resourceRefs")).and_then(Value::as_array);
    let own_namespace = live.get("metadata").and_then(|metadata| metadata.get("namespace"));
    let reference = |entry: &Value| {
        let text =
            |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let namespace = text("namespace").or_else(|| own_namespace.and_then(Value::as_str));
        ObjectReference::new(text("apiVersion")?, text("kind")?, text("name")?, namespace).ok()
    };
    entries.into_iter().flatten().filter_map(reference).collect()
}

/// The digest of a set of references.
pub fn references_digest(references: &BTreeSet<ObjectReference>) -> ReferencesDigest {
    let mut bytes = Vec::new();
    for reference in references {
        // Prefix each part with its length, so that different sets never give equal bytes.
        let parts = [
            Some(reference.api_version()),
            Some(reference.kind()),
            reference.namespace(),
            Some(reference.name()),
        ];
        for part in parts {
            bytes.extend(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
            bytes.extend(part.unwrap_or_default().as_bytes());
        }
    }
    ReferencesDigest::new(*Digest::of(&bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(references: &BTreeSet<ObjectReference>) -> Vec<String> {
        references.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn references_are_read_per_scope() {
        let refs = json!([{"apiVersion": "v1", "kind": "A", "name": "x"}]);
        let modern = json!({"metadata": {"namespace": "ns"}, "spec": {"crossplane": {"resourceRefs": refs}}});
        let legacy = json!({"metadata": {}, "spec": {"resourceRefs": refs}});
        assert_eq!(names(&references(&modern, XrdScope::Namespaced)), ["A x in ns (v1)"]);
        assert_eq!(names(&references(&legacy, XrdScope::LegacyCluster)), ["A x (v1)"]);
        assert!(references(&modern, XrdScope::LegacyCluster).is_empty());
        assert!(references(&legacy, XrdScope::Cluster).is_empty());
    }

    #[test]
    fn reference_without_namespace_gets_the_xr_namespace() {
        let live = json!({"metadata": {"namespace": "ns"}, "spec": {"crossplane": {"resourceRefs": [
            {"apiVersion": "v1", "kind": "A", "name": "x"},
            {"apiVersion": "v1", "kind": "A", "name": "x", "namespace": "other"},
            {"apiVersion": "v1", "kind": "A", "name": "x", "namespace": ""},
            {"apiVersion": "v1", "kind": "A"},
            {"apiVersion": "v1", "kind": "A", "name": ""},
            "nonsense",
        ]}}});
        assert_eq!(
            names(&references(&live, XrdScope::Namespaced)),
            ["A x in ns (v1)", "A x in other (v1)"]
        );
    }

    #[test]
    fn references_digest_distinguishes_sets() {
        let set = |names: &[(&str, Option<&str>)]| {
            let reference = |(name, namespace): &(&str, Option<&str>)| {
                ObjectReference::new("v1", "A", *name, *namespace)
            };
            references_digest(&names.iter().map(|entry| reference(entry).unwrap()).collect())
        };
        assert_eq!(set(&[("a", None), ("b", None)]), set(&[("b", None), ("a", None)]));
        assert_ne!(set(&[]), set(&[("a", None)]));
        assert_ne!(set(&[("a", None)]), set(&[("a", Some("n"))]));
        assert_ne!(set(&[("ab", Some("c"))]), set(&[("a", Some("bc"))]));
    }
}
