//! The kinds of the cases: four of composite resources, one of composed objects, one of ProviderConfigs.

use std::sync::Arc;

use broker_domain::Error;
use broker_render::Xrd;
use serde_json::{Value, json};

use super::PlainKind;

const GROUP: &str = "contract.plexsphere.io";

/// The kinds of composite resources in the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blueprint {
    /// A namespaced machine that boots with cloud-init.
    Machine,
    /// A cluster-scoped composite resource.
    ClusterScoped,
    /// A kind that a case may remove.
    Removable,
    /// A machine whose schema rejects every user data and repeats it in the error.
    RejectsUserData,
}

impl Blueprint {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Machine => ("Machine", "machines"),
            Self::ClusterScoped => ("Estate", "estates"),
            Self::Removable => ("Fleeting", "fleetings"),
            Self::RejectsUserData => ("Picky", "pickies"),
        }
    }

    /// The names of the kind.
    pub(super) fn kind(self) -> PlainKind {
        let (kind, plural) = self.names();
        plain_kind(GROUP, "v1", kind, plural, self != Self::ClusterScoped)
    }

    fn document(self, spec: &Value) -> String {
        let (kind, plural) = self.names();
        json!({
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {
                "group": GROUP,
                "scope": if self == Self::ClusterScoped { "Cluster" } else { "Namespaced" },
                "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "referenceable": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }],
            },
        })
        .to_string()
    }

    /// The XRD that the platform installs.
    pub(super) fn installed_xrd(self) -> String {
        let user_data = match self {
            Self::RejectsUserData => json!({"type": "string", "pattern": "^never$"}),
            Self::Machine | Self::ClusterScoped | Self::Removable => json!({"type": "string"}),
        };
        self.document(&json!({
            "type": "object",
            "properties": {
                "parameters": {"type": "object", "properties": {
                    "size": {"type": "string", "enum": ["small", "large"]},
                    "note": {"type": "string"},
                }},
                "userData": user_data,
            },
        }))
    }

    /// The XRD of the catalog. It accepts any object, so a case can send objects that the installed XRD rejects.
    pub(super) fn permissive_xrd(self) -> Result<Arc<Xrd>, Error> {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Xrd::parse(self.document(&anything).as_bytes()).map(Arc::new)
    }
}

/// The kind of composed objects.
pub(super) fn composed_kind() -> PlainKind {
    plain_kind("parts.plexsphere.io", "v1", "Part", "parts", true)
}

/// The kind of ProviderConfigs.
pub(super) fn provider_config_kind() -> PlainKind {
    plain_kind("contract.crossplane.io", "v1beta1", "ProviderConfig", "providerconfigs", true)
}

pub(super) fn namespace_kind() -> PlainKind {
    PlainKind { api_version: "v1".into(), ..plain_kind("", "v1", "Namespace", "namespaces", false) }
}

fn plain_kind(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> PlainKind {
    let api_version = format!("{group}/{version}");
    PlainKind { api_version, kind: kind.to_owned(), plural: plural.to_owned(), namespaced }
}
