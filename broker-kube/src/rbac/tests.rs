//! The roles of small catalogs, letter for letter.

use broker_render::catalog::{Files, read};
use broker_render::{Provider, ProviderProfile};

use super::*;

/// A blueprint of a kind; its plural and its slug follow from that.
fn blueprint(kind: &str, scope: &str, provider: &str, composed: &str) -> Blueprint {
    let slug = kind.to_lowercase();
    let plural = format!("{slug}s");
    let metadata = format!(
        r#"{{"slug": "{slug}", "displayName": "{slug}", "description": "for a test", "version": "v1",
            "providerKinds": ["{provider}"], "injectionStrategy": "cloud-init-user-data",
            "parameterSchema": {{"parameters": []}}, "composedKinds": [{composed}]}}"#
    );
    let xrd = format!(
        "apiVersion: apiextensions.crossplane.io/v2
kind: CompositeResourceDefinition
metadata: {{name: {plural}.machines.example.org}}
spec:
  group: machines.example.org
  scope: {scope}
  names: {{kind: {kind}, plural: {plural}}}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              userData: {{type: string}}
              parameters: {{type: object}}
"
    );
    let composition = format!(
        "apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {{name: {slug}}}
spec:
  compositeTypeRef: {{apiVersion: machines.example.org/v1, kind: {kind}}}
  mode: Pipeline
  pipeline: [{{step: compose, functionRef: {{name: any}}}}]
"
    );
    let files = Files {
        metadata: metadata.as_bytes(),
        xrd: xrd.as_bytes(),
        composition: composition.as_bytes(),
    };
    read(&slug, files).unwrap()
}

const SERVER: &str = r#"{"apiVersion": "hcloud.crossplane.io/v1", "kind": "Server"},
    {"apiVersion": "hcloud.crossplane.io/v1", "kind": "Policy"}"#;

fn small() -> Blueprint {
    blueprint("SmallMachine", "Namespaced", "hcloud", SERVER)
}

fn large() -> Blueprint {
    let small = r#"{"apiVersion": "machines.example.org/v1", "kind": "SmallMachine"}"#;
    blueprint("LargeMachine", "Namespaced", "hcloud", small)
}

#[test]
fn a_namespaced_catalog_has_a_reader_and_a_writer() {
    let profiles = ProviderProfiles::default();
    let roles = rbac([&small(), &large()], &profiles);
    assert_eq!(
        roles,
        format!(
            "{HEAD}\
---
# Bind it with a ClusterRoleBinding: the broker watches all Projects at once.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: plexsphere-provisioning-broker-reader
rules:
- apiGroups: [\"hcloud.crossplane.io\"]
  resources:
  - providerconfigs
  verbs: [get, list, watch]
- apiGroups: [\"machines.example.org\"]
  resources:
  - largemachines
  - smallmachines
  verbs: [get, list, watch]
- apiGroups: [\"hcloud.crossplane.io\"]
  resources:
  - policies
  - servers
  verbs: [get, list]
- apiGroups: [\"events.k8s.io\"]
  resources:
  - events
  verbs: [list]
- apiGroups: [\"\"]
  resources:
  - namespaces
  verbs: [get]
---
# Bind it with a RoleBinding in the namespace of each Project, and nowhere else.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: plexsphere-provisioning-broker-writer
rules:
- apiGroups: [\"hcloud.crossplane.io\"]
  resources:
  - providerconfigs
  verbs: [create, patch, delete]
- apiGroups: [\"machines.example.org\"]
  resources:
  - largemachines
  - smallmachines
  verbs: [create, patch, delete]
"
        )
    );
    assert_eq!(roles, rbac([&large(), &small(), &large()], &profiles), "the order matters");
}

#[test]
fn what_stands_in_no_namespace_is_written_by_choice_only() {
    let estate = blueprint("Estate", "Cluster", "aws", "");
    let aws = Provider::new("aws").unwrap();
    let profile = ProviderProfile::of(&aws)
        .with_kind("ClusterProviderConfig")
        .unwrap()
        .with_scope(ProviderConfigScope::Cluster);
    let roles = rbac([&estate], &ProviderProfiles::default().with(aws, profile));
    let (rest, optional) = roles.split_once("---\n# Optional.").unwrap();
    let (reader, writer) = rest.rsplit_once("---\n").unwrap();
    for plural in ["  - estates\n", "  - clusterproviderconfigs\n"] {
        assert!(reader.contains(plural), "{reader}");
        assert!(!writer.contains(plural), "{writer}");
        assert!(optional.contains(plural), "{optional}");
    }
    assert!(writer.ends_with("-writer\nrules: []\n"), "{writer}");
}

#[test]
fn no_right_on_plain_data_is_given_whatever_is_composed() {
    let data =
        r#"{"apiVersion": "v1", "kind": "Secret"}, {"apiVersion": "v1", "kind": "ConfigMap"}"#;
    let leaky = blueprint("Leaky", "Namespaced", "hcloud", data);
    let roles = rbac([&leaky], &ProviderProfiles::default());
    assert!(!roles.contains("  - secrets") && !roles.contains("  - configmaps"), "{roles}");
    assert!(roles.contains("# leaky composes Secrets or ConfigMaps."), "{roles}");
}
