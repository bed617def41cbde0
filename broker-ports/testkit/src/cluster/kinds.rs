//! The kinds of the cases: four composite resources, one composed object, one ProviderConfig.

use std::sync::Arc;

use broker_domain::Error;
use broker_render::Xrd;
use serde_json::{Value, json};

use super::PlainKind;

const GROUP: &str = "contract.plexsphere.io";

/// The composite resources of the cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blueprint {
    /// A namespaced machine that boots with cloud-init.
    Machine,
    /// A cluster-scoped composite resource.
    Estate,
    /// A kind that a case may remove.
    Fleeting,
    /// A machine whose schema rejects every user data and repeats it in the error.
    Picky,
}

impl Blueprint {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Machine => ("Machine", "machines"),
            Self::Estate => ("Estate", "estates"),
            Self::Fleeting => ("Fleeting", "fleetings"),
            Self::Picky => ("Picky", "pickies"),
        }
    }

    /// The names of the kind.
    pub(super) fn kind(self) -> PlainKind {
        let (kind, plural) = self.names();
        plain(GROUP, "v1", kind, plural, self != Self::Estate)
    }

    fn document(self, spec: &Value) -> String {
        let (kind, plural) = self.names();
        json!({
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {
                "group": GROUP,
                "scope": if self == Self::Estate { "Cluster" } else { "Namespaced" },
                "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "referenceable": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }],
            },
        })
        .to_string()
    }

    /// The definition that the platform installs.
    pub(super) fn installed(self) -> String {
        let user_data = match self {
            Self::Picky => json!({"type": "string", "pattern": "^never$"}),
            Self::Machine | Self::Estate | Self::Fleeting => json!({"type": "string"}),
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

    /// The definition in the catalog, which accepts anything. So a case can send objects that the installed kind
    /// rejects.
    pub(super) fn claimed(self) -> Result<Arc<Xrd>, Error> {
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        Xrd::parse(self.document(&anything).as_bytes()).map(Arc::new)
    }
}

/// The kind of composed objects.
pub(super) fn part() -> PlainKind {
    plain("parts.plexsphere.io", "v1", "Part", "parts", true)
}

/// The kind of ProviderConfigs.
pub(super) fn config() -> PlainKind {
    plain("contract.crossplane.io", "v1beta1", "ProviderConfig", "providerconfigs", true)
}

pub(super) fn core_namespace() -> PlainKind {
    PlainKind { api_version: "v1".into(), ..plain("", "v1", "Namespace", "namespaces", false) }
}

fn plain(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> PlainKind {
    let api_version = format!("{group}/{version}");
    PlainKind { api_version, kind: kind.to_owned(), plural: plural.to_owned(), namespaced }
}
