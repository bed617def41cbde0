//! Blueprints on disk, and their installation by the platform.

use std::fs;
use std::path::{Path, PathBuf};

use broker_domain::PLAIN_DATA;
use broker_render::catalog::{self, ComposedKind, Files};
use broker_render::read_document;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{PROVIDER, sample_blueprints, test_blueprints};
use crate::failure::OrFail;
use crate::wait::until;

/// The platform's field manager.
const PLATFORM: &str = "platform";

/// A blueprint in its directory.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// The name, which is also that of its directory.
    pub slug: String,
    directory: PathBuf,
    metadata: Value,
    xrd: Value,
    composition: Value,
}

/// Objects of one kind, in any scope.
pub type Objects = Api<DynamicObject>;

impl Blueprint {
    /// The directories of blueprints, each a catalog.
    #[must_use]
    pub fn catalogs() -> [PathBuf; 2] {
        [sample_blueprints(), test_blueprints()]
    }

    /// Every blueprint of every catalog.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<_> =
            Self::catalogs().iter().flat_map(|catalog| blueprints_in(catalog)).collect();
        all.sort_by(|one, other| one.slug.cmp(&other.slug));
        all
    }

    /// The public samples.
    #[must_use]
    pub fn samples() -> Vec<Self> {
        let mut samples: Vec<_> = blueprints_in(&sample_blueprints()).collect();
        samples.sort_by(|one, other| one.slug.cmp(&other.slug));
        samples
    }

    /// The blueprint of this name.
    #[must_use]
    pub fn named(slug: &str) -> Self {
        let found = Self::all().into_iter().find(|blueprint| blueprint.slug == slug);
        found.unwrap_or_else(|| panic!("no blueprint has the slug {slug}"))
    }

    fn read(directory: PathBuf) -> Self {
        let document = |name: &str| {
            let path = directory.join(name);
            let bytes = fs::read(&path).or_fail(path.display());
            read_document(name, &bytes).or_fail(path.display())
        };
        let metadata = document("metadata.json");
        Self {
            slug: metadata["slug"].as_str().unwrap_or_default().to_owned(),
            xrd: document("xrd.yaml"),
            composition: document("composition.yaml"),
            metadata,
            directory,
        }
    }

    /// The blueprint as the broker reads it.
    ///
    /// # Panics
    ///
    /// When `catalog check` finds that it cannot be used.
    #[must_use]
    pub fn catalog_blueprint(&self) -> catalog::Blueprint {
        let read = |name: &str| {
            let path = self.directory.join(name);
            fs::read(&path).or_fail(path.display())
        };
        let (metadata, xrd) = (read("metadata.json"), read("xrd.yaml"));
        let composition = read("composition.yaml");
        let files = Files { metadata: &metadata, xrd: &xrd, composition: &composition };
        let (blueprint, problems) = catalog::check(&self.slug, files);
        let problems: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        blueprint.unwrap_or_else(|| panic!("{}: {problems:?}", self.slug))
    }

    /// Whether its resources are Nodes.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.metadata["meshRole"] != "standalone"
    }

    /// Whether it composes Secrets or ConfigMaps.
    #[must_use]
    pub fn composes_plain_data(&self) -> bool {
        let is_plain =
            |kind: &ComposedKind| PLAIN_DATA.contains(&(&*kind.api_version, &*kind.kind));
        self.catalog_blueprint().composed_kinds.iter().any(is_plain)
    }

    /// The smallest parameters that it accepts, as canonical JSON.
    #[must_use]
    pub fn minimal_parameters(&self) -> &'static str {
        match self.slug.as_str() {
            "sample-machine" => r#"{"size":"small"}"#,
            "sample-database" => r#"{"engine":"postgres","storage":{"gib":1}}"#,
            _ => "{}",
        }
    }

    /// Its XRD.
    #[must_use]
    pub fn xrd(&self) -> &Value {
        &self.xrd
    }

    /// Its Composition.
    #[must_use]
    pub fn composition(&self) -> &Value {
        &self.composition
    }

    /// The composite resources in a Project's namespace, or of the cluster for a cluster-scoped kind.
    #[must_use]
    pub fn composites(&self, admin: &Client, namespace: &str) -> Objects {
        if self.xrd["spec"]["scope"] == "Cluster" {
            self.all_composites(admin)
        } else {
            Api::namespaced_with(admin.clone(), namespace, &self.kind())
        }
    }

    /// Every composite resource in any namespace.
    fn all_composites(&self, admin: &Client) -> Objects {
        Api::all_with(admin.clone(), &self.kind())
    }

    fn kind(&self) -> ApiResource {
        let spec = &self.xrd["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
        let version = text(&spec["versions"][0]["name"]);
        let kind = GroupVersionKind::gvk(&group, &version, &kind);
        ApiResource::from_gvk_with_plural(&kind, &text(&spec["names"]["plural"]))
    }

    /// The composed objects in a Project's namespace, or of the cluster for a cluster-scoped kind.
    #[must_use]
    pub fn composed(&self, admin: &Client, namespace: &str) -> Objects {
        if self.xrd["spec"]["scope"] == "Cluster" {
            cluster_nop_resources(admin)
        } else {
            nop_resources(admin, namespace)
        }
    }

    /// Installs XRD and Composition, or restores them.
    pub async fn install(&self, admin: &Client) {
        self.install_xrd(admin).await;
        self.install_composition(admin, &self.composition).await;
    }

    /// Installs the XRD alone.
    pub async fn install_xrd(&self, admin: &Client) {
        apply(&xrds(admin), &self.xrd).await;
    }

    /// Replaces its Composition.
    pub async fn install_composition(&self, admin: &Client, composition: &Value) {
        apply(&compositions(admin), composition).await;
    }

    /// Deletes the XRD without waiting.
    pub async fn delete_xrd(&self, admin: &Client) {
        let background = DeleteParams::background();
        xrds(admin).delete(&self.xrd_name(), &background).await.or_fail("cannot delete an XRD");
    }

    /// Waits until Crossplane has begun to remove the kind.
    pub async fn wait_until_xrd_terminating(&self, admin: &Client) {
        until(format!("{} to be terminating", self.xrd_name()), || async {
            let xrd = xrds(admin).get(&self.xrd_name()).await.or_fail("cannot read an XRD");
            let reason = condition(&xrd, "Established")?["reason"].clone();
            (reason == "TerminatingCompositeResource").then_some(())
        })
        .await;
    }

    /// Whether the XRD exists.
    pub async fn is_defined(&self, admin: &Client) -> bool {
        xrds(admin).get_opt(&self.xrd_name()).await.or_fail("cannot read an XRD").is_some()
    }

    /// Waits until the XRD is deleted. Crossplane polls for remaining objects with a back-off up to one
    /// minute, and reconciles at once when the XRD changes. Therefore each poll annotates the XRD with the
    /// number of remaining objects.
    pub async fn wait_until_xrd_deleted(&self, admin: &Client) {
        until(format!("{} to be deleted", self.xrd_name()), || async {
            if !self.is_defined(admin).await {
                return Some(());
            }
            // Without the kind, no object remains.
            let remaining = self.all_composites(admin).list(&ListParams::default()).await;
            let count = remaining.map_or(0, |remaining| remaining.items.len()).to_string();
            let note = json!({"metadata": {"annotations": {"platform.example.org/left": count}}});
            // The XRD may have been deleted meanwhile.
            drop(xrds(admin).patch(&self.xrd_name(), &platform_patch(), &Patch::Merge(note)).await);
            None
        })
        .await;
    }

    /// Waits until Crossplane serves its kind.
    pub async fn wait_until_served(&self, admin: &Client) {
        until(format!("{} to be served", self.xrd_name()), || async {
            let xrd = xrds(admin).get(&self.xrd_name()).await.or_fail("cannot read an XRD");
            let served = condition(&xrd, "Established")
                .is_some_and(|condition| condition["status"] == "True");
            // The definition is established shortly before its objects are served.
            let composites = self.composites(admin, "default");
            (served && composites.list(&ListParams::default()).await.is_ok()).then_some(())
        })
        .await;
    }

    fn xrd_name(&self) -> String {
        self.xrd["metadata"]["name"].as_str().unwrap_or_default().to_owned()
    }
}

/// A condition of an object.
pub(super) fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    let conditions = object.data.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// The simulated machines of a namespace.
pub(super) fn nop_resources(admin: &Client, namespace: &str) -> Objects {
    Api::namespaced_with(admin.clone(), namespace, &nop_kind("NopResource"))
}

/// The cluster-scoped simulated machines.
pub(super) fn cluster_nop_resources(admin: &Client) -> Objects {
    Api::all_with(admin.clone(), &nop_kind("ClusterNopResource"))
}

pub(super) fn secrets(admin: &Client, namespace: &str) -> Objects {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Secret"));
    Api::namespaced_with(admin.clone(), namespace, &kind)
}

/// The ProviderConfigs of a namespace.
#[must_use]
pub fn provider_configs(admin: &Client, namespace: &str) -> Objects {
    let group = format!("{PROVIDER}.crossplane.io");
    let kind = GroupVersionKind::gvk(&group, "v1beta1", "ProviderConfig");
    Api::namespaced_with(admin.clone(), namespace, &ApiResource::from_gvk(&kind))
}

fn nop_kind(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("nop.crossplane.io", "v1alpha1", kind))
}

fn xrds(admin: &Client) -> Objects {
    let kind =
        GroupVersionKind::gvk("apiextensions.crossplane.io", "v2", "CompositeResourceDefinition");
    Api::all_with(admin.clone(), &ApiResource::from_gvk(&kind))
}

fn compositions(admin: &Client) -> Objects {
    let kind = GroupVersionKind::gvk("apiextensions.crossplane.io", "v1", "Composition");
    Api::all_with(admin.clone(), &ApiResource::from_gvk(&kind))
}

fn platform_patch() -> PatchParams {
    PatchParams::apply(PLATFORM)
}

async fn apply(objects: &Objects, document: &Value) {
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    objects.patch(name, &platform_patch().force(), &Patch::Apply(document)).await.or_fail(name);
}

fn blueprints_in(catalog: &Path) -> impl Iterator<Item = Blueprint> {
    let entries = fs::read_dir(catalog).or_fail(catalog.display()).flatten();
    entries.filter(|entry| entry.path().is_dir()).map(|entry| Blueprint::read(entry.path()))
}

/// A patch that pauses a composite resource, or resumes it if `paused` is `None`.
#[must_use]
pub fn pause_patch(paused: Option<&str>) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"annotations": {"crossplane.io/paused": paused}}}))
}
