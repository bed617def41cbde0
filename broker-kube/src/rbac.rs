//! The roles that the broker needs on a management cluster, derived from the blueprint catalog.
//!
//! Three roles, none with a right on Secrets or ConfigMaps:
//!
//! | role | binding | rights |
//! |---|---|---|
//! | `plexsphere-provisioning-broker-reader` | a `ClusterRoleBinding` | get, list and watch on composite resources and ProviderConfigs, get and list on composed objects, list on events, get on namespaces |
//! | `plexsphere-provisioning-broker-writer` | a `RoleBinding` in each Project's namespace | create, patch and delete on composite resources and ProviderConfigs |
//! | `plexsphere-provisioning-broker-cluster-writer` | an optional `ClusterRoleBinding` | create, patch and delete on cluster-scoped kinds |
//!
//! The third role exists only if the catalog has cluster-scoped kinds. Its binding lets the broker write objects
//! outside every Project namespace; the broker itself only writes objects named `pr-<id>`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use broker_domain::PLAIN_DATA;
use broker_render::catalog::{Blueprint, ComposedKind};
use broker_render::{Provider, ProviderConfigScope, ProviderConfigUse, ProviderProfiles};
use kube::core::{ApiResource, GroupVersionKind};

type Resources = BTreeMap<String, BTreeSet<String>>;

/// The roles as YAML, ready to apply. The output does not depend on the order of the blueprints.
///
/// A catalog names composed kinds and ProviderConfigs without their plurals. This function derives plurals as
/// Kubernetes does for its own kinds; correct the line by hand if a provider uses another plural.
///
/// ```
/// use broker_render::ProviderProfiles;
///
/// let roles = broker_kube::rbac([], &ProviderProfiles::default());
/// assert!(roles.contains("name: plexsphere-provisioning-broker-reader"));
/// assert!(!roles.contains("cluster-writer"));
/// ```
pub fn rbac<'a>(
    blueprints: impl IntoIterator<Item = &'a Blueprint>,
    profiles: &ProviderProfiles,
) -> String {
    let mut kinds = GrantedKinds::default();
    for blueprint in blueprints {
        kinds.add(blueprint, profiles);
    }
    kinds.render()
}

#[derive(Default)]
struct GrantedKinds {
    /// Namespaced composite resources and ProviderConfigs.
    namespaced: Resources,
    /// Cluster-scoped composite resources and ProviderConfigs.
    cluster: Resources,
    composed: Resources,
    /// Blueprints that compose Secrets or ConfigMaps.
    with_plain_data: BTreeSet<String>,
}

impl GrantedKinds {
    fn add(&mut self, blueprint: &Blueprint, profiles: &ProviderProfiles) {
        let xrd = &blueprint.xrd;
        let resources =
            if xrd.scope().is_namespaced() { &mut self.namespaced } else { &mut self.cluster };
        insert(resources, xrd.group(), xrd.plural());
        let writes_config = blueprint.provider_config != ProviderConfigUse::Platform;
        // A validated blueprint has only valid provider names.
        for provider in
            blueprint.provider_kinds.iter().filter(|_| writes_config).flat_map(Provider::new)
        {
            let profile = profiles.of(&provider);
            let resources = match profile.scope() {
                ProviderConfigScope::Namespaced => &mut self.namespaced,
                ProviderConfigScope::Cluster => &mut self.cluster,
            };
            insert(resources, profile.group(), &plural(&profile.api_version(), profile.kind()));
        }
        for ComposedKind { api_version, kind } in &blueprint.composed_kinds {
            if PLAIN_DATA.contains(&(api_version, kind)) {
                self.with_plain_data.insert(blueprint.slug.clone());
            } else {
                insert(&mut self.composed, group(api_version), &plural(api_version, kind));
            }
        }
    }

    fn render(&self) -> String {
        let mut text = String::from(HEADER);
        for slug in &self.with_plain_data {
            let _ = writeln!(
                text,
                "# {slug} composes Secrets or ConfigMaps. The broker does not read them and needs no right on them."
            );
        }
        let mut watched = self.namespaced.clone();
        for (group, plurals) in &self.cluster {
            watched.entry(group.clone()).or_default().extend(plurals.iter().cloned());
        }
        // A kind may be both composed and watched, such as a nested composite resource: grants it once.
        let composed = difference(&self.composed, &watched);
        let single = |group: &str, plural: &str| {
            Resources::from([(group.to_owned(), [plural.to_owned()].into())])
        };
        write_role(
            &mut text,
            "reader",
            "Bind it with a ClusterRoleBinding: the broker watches all Projects at once.",
            &[
                (&watched, "get, list, watch"),
                (&composed, "get, list"),
                (&single("events.k8s.io", "events"), "list"),
                (&single("", "namespaces"), "get"),
            ],
        );
        write_role(
            &mut text,
            "writer",
            "Bind it with a RoleBinding in the namespace of each Project, and nowhere else.",
            &[(&self.namespaced, "create, patch, delete")],
        );
        if !self.cluster.is_empty() {
            write_role(
                &mut text,
                "cluster-writer",
                "Optional. Bind it with a ClusterRoleBinding to provision cluster-scoped kinds.",
                &[(&self.cluster, "create, patch, delete")],
            );
        }
        text
    }
}

const HEADER: &str = "\
# What the Provisioning Broker may do on its management cluster. Generated from the blueprint catalog by
# `provisioning-broker rbac`; regenerate it when the catalog changes.
";

fn write_role(text: &mut String, name: &str, binding_note: &str, rules: &[(&Resources, &str)]) {
    let _ = write!(
        text,
        "---\n# {binding_note}\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  \
         name: plexsphere-provisioning-broker-{name}\n"
    );
    let rules: Vec<_> = rules
        .iter()
        .flat_map(|(resources, verbs)| resources.iter().map(move |resource| (resource, verbs)))
        .collect();
    let _ = writeln!(text, "rules:{}", if rules.is_empty() { " []" } else { "" });
    for ((group, plurals), verbs) in rules {
        let _ = writeln!(text, "- apiGroups: [\"{group}\"]\n  resources:");
        for plural in plurals {
            let _ = writeln!(text, "  - {plural}");
        }
        let _ = writeln!(text, "  verbs: [{verbs}]");
    }
}

fn insert(resources: &mut Resources, group: &str, plural: &str) {
    resources.entry(group.to_owned()).or_default().insert(plural.to_owned());
}

fn difference(resources: &Resources, others: &Resources) -> Resources {
    let remaining = resources.iter().map(|(group, plurals)| {
        let known = others.get(group);
        let is_new = |plural: &&String| known.is_none_or(|known| !known.contains(*plural));
        (group.clone(), plurals.iter().filter(is_new).cloned().collect::<BTreeSet<_>>())
    });
    remaining.filter(|(_, plurals)| !plurals.is_empty()).collect()
}

fn group(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

fn plural(api_version: &str, kind: &str) -> String {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group(api_version), "", kind)).plural
}

#[cfg(test)]
mod tests {
    use broker_render::catalog::{Files, read};
    use broker_render::{Provider, ProviderProfile};
    use serde_json::json;

    use super::*;
    use crate::testing::xrd;

    /// A blueprint of a kind. Slug and plural derive from the kind.
    fn blueprint(kind: &str, scope: &str, provider: &str, composed: &str) -> Blueprint {
        let slug = kind.to_lowercase();
        let metadata = format!(
            r#"{{"slug": "{slug}", "displayName": "{slug}", "description": "for a test", "version": "v1",
                "providerKinds": ["{provider}"], "injectionStrategy": "cloud-init-user-data",
                "parameterSchema": {{"parameters": []}}, "composedKinds": [{composed}]}}"#
        );
        let xrd = xrd(kind, "v1", scope);
        let composition = json!({
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": slug},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": kind},
                "mode": "Pipeline",
                "pipeline": [{"step": "compose", "functionRef": {"name": "any"}}],
            },
        })
        .to_string();
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
        let small = r#"{"apiVersion": "example.org/v1", "kind": "SmallMachine"}"#;
        blueprint("LargeMachine", "Namespaced", "hcloud", small)
    }

    #[test]
    fn namespaced_catalog_yields_reader_and_writer() {
        let profiles = ProviderProfiles::default();
        let roles = rbac([&small(), &large()], &profiles);
        assert_eq!(roles, format!("{HEADER}{}", include_str!("rbac/namespaced.yaml")));
        assert_eq!(
            roles,
            rbac([&large(), &small(), &large()], &profiles),
            "the output must not depend on the order"
        );
    }

    #[test]
    fn cluster_scoped_kinds_are_written_by_the_optional_role() {
        let cluster_scoped = blueprint("Estate", "Cluster", "aws", "");
        let aws = Provider::new("aws").unwrap();
        let profile = ProviderProfile::of(&aws)
            .with_kind("ClusterProviderConfig")
            .unwrap()
            .with_scope(ProviderConfigScope::Cluster);
        let roles = rbac([&cluster_scoped], &ProviderProfiles::default().with(aws, profile));
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
    fn provider_configs_of_the_platform_are_not_granted() {
        let mut platform = blueprint("Leased", "Namespaced", "hcloud", "");
        platform.provider_config = ProviderConfigUse::Platform;
        let roles = rbac([&platform], &ProviderProfiles::default());
        assert!(roles.contains("  - leaseds\n"), "{roles}");
        assert!(!roles.contains("providerconfigs"), "{roles}");
    }

    #[test]
    fn composed_secrets_are_not_granted() {
        let data =
            r#"{"apiVersion": "v1", "kind": "Secret"}, {"apiVersion": "v1", "kind": "ConfigMap"}"#;
        let leaky = blueprint("Leaky", "Namespaced", "hcloud", data);
        let roles = rbac([&leaky], &ProviderProfiles::default());
        assert!(!roles.contains("  - secrets") && !roles.contains("  - configmaps"), "{roles}");
        assert!(roles.contains("# leaky composes Secrets or ConfigMaps."), "{roles}");
    }
}
