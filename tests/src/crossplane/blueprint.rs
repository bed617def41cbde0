//! Blueprints on disk, and what the platform does with them: it installs the XRD and the Composition.

use std::fs;
use std::path::{Path, PathBuf};

use broker_domain::PLAIN_DATA;
use broker_render::catalog::{self, ComposedKind, Files};
use broker_render::read_document;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{PROVIDER, own_blueprints, samples};
use crate::failure::OrFail;
use crate::wait::until;

/// Whose the platform's fields are.
const PLATFORM: &str = "platform";

/// A blueprint in its directory.
#[derive(Debug, Clone)]
pub struct Blueprint {
    /// Its name, which is that of its directory.
    pub slug: String,
    directory: PathBuf,
    metadata: Value,
    xrd: Value,
    composition: Value,
}

/// Objects of some kind, wherever they are.
pub type Objects = Api<DynamicObject>;

impl Blueprint {
    /// The directories that hold blueprints, each a catalog.
    #[must_use]
    pub fn catalogs() -> [PathBuf; 2] {
        [samples(), own_blueprints()]
    }

    /// Every blueprint of every catalog.
    ///
    /// # Panics
    ///
    /// When one cannot be read.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all: Vec<_> =
            Self::catalogs().iter().flat_map(|catalog| in_catalog(catalog)).collect();
        all.sort_by(|one, other| one.slug.cmp(&other.slug));
        all
    }

    /// The samples that people are shown.
    ///
    /// # Panics
    ///
    /// When one cannot be read.
    #[must_use]
    pub fn samples() -> Vec<Self> {
        let mut samples: Vec<_> = in_catalog(&samples()).collect();
        samples.sort_by(|one, other| one.slug.cmp(&other.slug));
        samples
    }

    /// The one of this name.
    ///
    /// # Panics
    ///
    /// When there is none.
    #[must_use]
    pub fn named(slug: &str) -> Self {
        let found = Self::all().into_iter().find(|blueprint| blueprint.slug == slug);
        found.unwrap_or_else(|| panic!("there is no blueprint {slug}"))
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
    pub fn checked(&self) -> catalog::Blueprint {
        let read = |name: &str| {
            let path = self.directory.join(name);
            fs::read(&path).or_fail(path.display())
        };
        let (metadata, xrd) = (read("metadata.json"), read("xrd.yaml"));
        let composition = read("composition.yaml");
        let files = Files { metadata: &metadata, xrd: &xrd, composition: &composition };
        let (checked, problems) = catalog::check(&self.slug, files);
        let problems: Vec<_> = problems.into_iter().map(|problem| problem.message).collect();
        checked.unwrap_or_else(|| panic!("{}: {problems:?}", self.slug))
    }

    /// Whether a Node comes of it.
    #[must_use]
    pub fn is_node(&self) -> bool {
        self.metadata["meshRole"] != "standalone"
    }

    /// Whether it composes Secrets or ConfigMaps.
    #[must_use]
    pub fn composes_plain_data(&self) -> bool {
        let plain = |it: &ComposedKind| PLAIN_DATA.contains(&(&*it.api_version, &*it.kind));
        self.checked().composed_kinds.iter().any(plain)
    }

    /// What has to be given of its parameters, as canonical JSON.
    #[must_use]
    pub fn least_parameters(&self) -> &'static str {
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

    /// The composite resources of a Project's namespace, or of the cluster where they are cluster-scoped.
    #[must_use]
    pub fn composites(&self, admin: &Client, namespace: &str) -> Objects {
        if self.xrd["spec"]["scope"] == "Cluster" {
            self.everywhere(admin)
        } else {
            Api::namespaced_with(admin.clone(), namespace, &self.kind())
        }
    }

    /// Every composite resource, wherever it is.
    fn everywhere(&self, admin: &Client) -> Objects {
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

    /// What it composes, in that namespace or, where that is cluster-scoped, anywhere.
    #[must_use]
    pub fn composed(&self, admin: &Client, namespace: &str) -> Objects {
        if self.xrd["spec"]["scope"] == "Cluster" {
            cluster_nop_resources(admin)
        } else {
            nop_resources(admin, namespace)
        }
    }

    /// Installs XRD and Composition, or brings them back to what they were.
    ///
    /// # Panics
    ///
    /// When one is refused.
    pub async fn install(&self, admin: &Client) {
        self.install_xrd(admin).await;
        self.install_composition(admin, &self.composition).await;
    }

    /// Installs the XRD alone.
    ///
    /// # Panics
    ///
    /// When it is refused.
    pub async fn install_xrd(&self, admin: &Client) {
        apply(&xrds(admin), &self.xrd).await;
    }

    /// Installs another Composition in place of its own.
    ///
    /// # Panics
    ///
    /// When it is refused.
    pub async fn install_composition(&self, admin: &Client, composition: &Value) {
        apply(&compositions(admin), composition).await;
    }

    /// Asks for the deletion of the XRD.
    ///
    /// # Panics
    ///
    /// When it is refused.
    pub async fn delete_xrd(&self, admin: &Client) {
        let background = DeleteParams::background();
        xrds(admin).delete(&self.xrd_name(), &background).await.or_fail("an XRD stays");
    }

    /// Waits until Crossplane has begun to withdraw the kind.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub async fn wait_until_withdrawing(&self, admin: &Client) {
        until(format!("{} to be withdrawn", self.xrd_name()), || async {
            let xrd = xrds(admin).get(&self.xrd_name()).await.or_fail("an XRD");
            let reason = condition(&xrd, "Established")?["reason"].clone();
            (reason == "TerminatingCompositeResource").then_some(())
        })
        .await;
    }

    /// Whether the XRD is there.
    ///
    /// # Panics
    ///
    /// When the API server does not answer.
    pub async fn is_defined(&self, admin: &Client) -> bool {
        xrds(admin).get_opt(&self.xrd_name()).await.or_fail("an XRD").is_some()
    }

    /// Waits until the XRD is gone. Crossplane looks whether objects are left less and less often, at last every
    /// minute, and at once when the XRD changes: so the number of those that are left is written onto it.
    ///
    /// # Panics
    ///
    /// When it stays.
    pub async fn wait_until_withdrawn(&self, admin: &Client) {
        until(format!("{} to be gone", self.xrd_name()), || async {
            if !self.is_defined(admin).await {
                return Some(());
            }
            // Without its kind nothing is left.
            let left = self.everywhere(admin).list(&ListParams::default()).await;
            let left = left.map_or(0, |left| left.items.len()).to_string();
            let note = json!({"metadata": {"annotations": {"platform.example.org/left": left}}});
            // It may be gone by now.
            drop(xrds(admin).patch(&self.xrd_name(), &platform(), &Patch::Merge(note)).await);
            None
        })
        .await;
    }

    /// Waits until Crossplane serves its kind.
    ///
    /// # Panics
    ///
    /// When it does not.
    pub async fn wait_until_offered(&self, admin: &Client) {
        until(format!("{} to be offered", self.xrd_name()), || async {
            let xrd = xrds(admin).get(&self.xrd_name()).await.or_fail("an XRD");
            let served = condition(&xrd, "Established").is_some_and(|one| one["status"] == "True");
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

/// What pretends to be a machine in a namespace.
pub(super) fn nop_resources(admin: &Client, namespace: &str) -> Objects {
    Api::namespaced_with(admin.clone(), namespace, &nop("NopResource"))
}

/// What pretends to be a machine of no namespace.
pub(super) fn cluster_nop_resources(admin: &Client) -> Objects {
    Api::all_with(admin.clone(), &nop("ClusterNopResource"))
}

/// The Secrets of a namespace.
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

fn nop(kind: &str) -> ApiResource {
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

fn platform() -> PatchParams {
    PatchParams::apply(PLATFORM)
}

async fn apply(objects: &Objects, document: &Value) {
    let name = document["metadata"]["name"].as_str().unwrap_or_default();
    objects.patch(name, &platform().force(), &Patch::Apply(document)).await.or_fail(name);
}

fn in_catalog(catalog: &Path) -> impl Iterator<Item = Blueprint> {
    let entries = fs::read_dir(catalog).or_fail(catalog.display()).flatten();
    entries.filter(|entry| entry.path().is_dir()).map(|entry| Blueprint::read(entry.path()))
}

/// A patch that pauses a composite resource, or lets it go on.
#[must_use]
pub fn pause(paused: Option<&str>) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"annotations": {"crossplane.io/paused": paused}}}))
}
