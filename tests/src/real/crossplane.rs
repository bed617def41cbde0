//! Crossplane, a provider and the garbage collector, played on a real API server, one turn at a time.
//!
//! Of an XR that is not paused one object is composed; the XR refers to it, and is ready a turn later. An XR
//! that is deleted keeps its finalizer until what it composed is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use broker_domain::{ProvisionedResourceId, XrName};
use broker_render::{PAUSED_ANNOTATION, read_document};
use futures::{FutureExt, StreamExt, stream};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Api, Client, ResourceExt};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::furniture::Kinds;

const FINALIZER: &str = "composite.apiextensions.crossplane.io";
const MANAGED_FINALIZER: &str = "finalizer.managedresource.crossplane.io";
const COMPOSITE_LABEL: &str = "crossplane.io/composite";
const MANAGER: &str = "crossplane";

/// Where the agent looks for its token on a machine that booted with cloud-init.
const TOKEN_PATH: &str = "/etc/plexd/bootstrap-token";

/// Composite resources that have their turn at once.
const AT_ONCE: usize = 8;

/// What becomes of a composite resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// It is ready the turn after it was composed.
    Ready,
    /// It is composed and never ready.
    NeverReady,
    /// It fails for good, for this reason, the turn after it was composed.
    Failing(String),
}

/// The players.
pub struct Crossplane {
    composites: Vec<(Api<DynamicObject>, ApiResource)>,
    parts: Api<DynamicObject>,
    part: ApiResource,
    provider_configs: Api<DynamicObject>,
    behaviours: Mutex<BTreeMap<ProvisionedResourceId, Behaviour>>,
    /// Whether the provider finishes deletions; a test may hold them.
    pub deletes: AtomicBool,
}

impl Crossplane {
    pub(super) fn new(admin: &Client, namespace: &str, kinds: &Kinds) -> Self {
        let api = |resource: &ApiResource| Api::namespaced_with(admin.clone(), namespace, resource);
        let resource = |group: &str, version: &str, kind: &str, plural: &str| {
            let kind = GroupVersionKind::gvk(group, version, kind);
            ApiResource::from_gvk_with_plural(&kind, plural)
        };
        let group = kinds.group();
        let composites = Kinds::composites().map(|(kind, plural)| {
            let composite = resource(&group, "v1", kind, plural);
            (api(&composite), composite)
        });
        let part = resource(&group, "v1", "Part", "parts");
        let configs =
            resource(&kinds.provider_group(), "v1beta1", "ProviderConfig", "providerconfigs");
        Self {
            composites: composites.collect(),
            parts: api(&part),
            part,
            provider_configs: api(&configs),
            behaviours: Mutex::default(),
            deletes: AtomicBool::new(true),
        }
    }

    /// Says what becomes of the composite resource of one resource.
    pub fn behave_for(&self, id: ProvisionedResourceId, behaviour: Behaviour) {
        self.behaviours.lock().unwrap_or_else(PoisonError::into_inner).insert(id, behaviour);
    }

    /// Every composite resource has a turn. Answers the tokens that running machines find.
    ///
    /// # Panics
    ///
    /// When the API server does not answer.
    pub async fn turn(&self) -> Vec<SecretString> {
        let mut found = Vec::new();
        for (api, kind) in &self.composites {
            let listed = api.list(&ListParams::default()).await;
            let composites = listed.expect("the API server lists composite resources").items;
            let turns = composites.iter().map(|xr| self.reconcile(api, kind, xr).boxed());
            let turns: Vec<_> = turns.collect();
            let turns: Vec<_> = stream::iter(turns).buffered(AT_ONCE).collect().await;
            for (xr, turn) in composites.iter().zip(turns) {
                match turn {
                    Ok(()) => {}
                    // Somebody else was quicker: the next turn sees what they left.
                    Err(kube::Error::Api(status)) if is_lost_race(&status) => {}
                    Err(error) => panic!("{} cannot have its turn: {error}", xr.name_any()),
                }
            }
            found.extend(composites.iter().filter_map(token));
        }
        self.collect_provider_configs().await;
        found
    }

    /// The garbage collector would end their deletion in the foreground, but may not have heard of the kind
    /// for half a minute.
    async fn collect_provider_configs(&self) {
        let listed = self.provider_configs.list(&ListParams::default()).await;
        let listed = listed.expect("the API server lists ProviderConfigs").items;
        let deleted = |config: &&DynamicObject| config.metadata.deletion_timestamp.is_some();
        for config in listed.iter().filter(deleted) {
            let (name, as_collector) = (config.name_any(), parameters());
            let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let patched = self.provider_configs.patch(&name, &as_collector, &released).await;
            patched.map(drop).or_lost_race();
        }
    }

    async fn reconcile(
        &self,
        api: &Api<DynamicObject>,
        kind: &ApiResource,
        xr: &DynamicObject,
    ) -> Result<(), kube::Error> {
        if xr.annotations().get(PAUSED_ANNOTATION).is_some_and(|paused| paused == "true") {
            return Ok(());
        }
        if xr.metadata.deletion_timestamp.is_some() {
            return self.finalize(api, xr).await;
        }
        if xr.data.pointer("/spec/crossplane/resourceRefs").is_none() {
            return self.refer(api, xr).await;
        }
        let conditions = self.conditions(xr);
        if stands(xr, &conditions) {
            return Ok(());
        }
        self.compose(kind, xr).await?;
        let status = json!({"status": {"conditions": conditions}});
        api.patch_status(&xr.name_any(), &parameters(), &Patch::Merge(status)).await.map(drop)
    }

    /// Refers to what is to be composed before it is created: what is not referred to could be lost.
    async fn refer(&self, api: &Api<DynamicObject>, xr: &DynamicObject) -> Result<(), kube::Error> {
        let reference = json!({
            "apiVersion": self.part.api_version, "kind": self.part.kind, "name": part_of(xr),
        });
        let refer = json!({
            "metadata": {"finalizers": [FINALIZER], "resourceVersion": xr.resource_version()},
            "spec": {"crossplane": {"resourceRefs": [reference]}},
        });
        api.patch(&xr.name_any(), &parameters(), &Patch::Merge(refer)).await.map(drop)
    }

    /// Creates what the XR refers to, unless it is there.
    async fn compose(&self, kind: &ApiResource, xr: &DynamicObject) -> Result<(), kube::Error> {
        let (name, part) = (xr.name_any(), part_of(xr));
        if self.parts.get_opt(&part).await?.is_some() {
            return Ok(());
        }
        let owner = json!({
            "apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": xr.uid(),
            "controller": true, "blockOwnerDeletion": true,
        });
        let composed = DynamicObject::new(&part, &self.part).data(json!({"spec": {}}));
        let mut composed = serde_json::to_value(composed).expect("an object is a document");
        composed["metadata"]["labels"] = json!({COMPOSITE_LABEL: name});
        composed["metadata"]["finalizers"] = json!([MANAGED_FINALIZER]);
        composed["metadata"]["ownerReferences"] = json!([owner]);
        let composed = serde_json::from_value(composed).expect("a document is an object");
        self.parts.create(&PostParams::default(), &composed).await.map(drop)
    }

    /// What it composed goes first, then the XR.
    async fn finalize(
        &self,
        api: &Api<DynamicObject>,
        xr: &DynamicObject,
    ) -> Result<(), kube::Error> {
        if !self.deletes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let name = xr.name_any();
        for part in self.composed_of(&name).await? {
            let part = part.name_any();
            self.parts.delete(&part, &DeleteParams::default()).await?;
            let released = json!({"metadata": {"finalizers": null}});
            self.parts.patch(&part, &parameters(), &Patch::Merge(released)).await?;
        }
        if self.composed_of(&name).await?.is_empty() {
            let released = json!({"metadata": {"finalizers": null, "uid": xr.uid()}});
            api.patch(&name, &parameters(), &Patch::Merge(released)).await?;
        }
        Ok(())
    }

    async fn composed_of(&self, xr: &str) -> Result<Vec<DynamicObject>, kube::Error> {
        let label = ListParams::default().labels(&format!("{COMPOSITE_LABEL}={xr}"));
        Ok(self.parts.list(&label).await?.items)
    }

    fn conditions(&self, xr: &DynamicObject) -> Value {
        let behaviours = self.behaviours.lock().unwrap_or_else(PoisonError::into_inner);
        let behaviour = XrName::id_of(&xr.name_any()).and_then(|id| behaviours.get(&id).cloned());
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
                "observedGeneration": xr.metadata.generation,
            })
        };
        match behaviour.unwrap_or(Behaviour::Ready) {
            Behaviour::Ready => json!([condition("Ready", "True", "Available", "")]),
            Behaviour::NeverReady => json!([condition("Ready", "False", "Creating", "")]),
            Behaviour::Failing(why) => json!([
                condition("Ready", "False", "Creating", ""),
                condition("ProvisioningFailed", "True", "ProvisioningFailed", &why),
            ]),
        }
    }
}

/// What a test does on the cluster, and sees of it.
impl Crossplane {
    /// The composite resource of a resource, if it stands.
    ///
    /// # Panics
    ///
    /// When the API server does not answer.
    pub async fn composite(&self, id: ProvisionedResourceId) -> Option<DynamicObject> {
        let name = XrName::of(id).to_string();
        for (api, _) in &self.composites {
            let found = api.get_opt(&name).await.expect("the API server answers");
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Somebody deletes the composite resource of a resource, and what it composed goes with it.
    ///
    /// # Panics
    ///
    /// When it does not stand.
    pub async fn delete_by_hand(&self, id: ProvisionedResourceId) {
        let name = XrName::of(id).to_string();
        for (api, _) in &self.composites {
            if api.get_opt(&name).await.expect("the API server answers").is_some() {
                api.delete(&name, &DeleteParams::background()).await.expect("it can be deleted");
                while let Some(xr) = api.get_opt(&name).await.expect("the API server answers") {
                    self.finalize(api, &xr).await.or_lost_race();
                }
                return;
            }
        }
        panic!("{name} does not stand");
    }

    /// Somebody changes a composite resource.
    ///
    /// # Panics
    ///
    /// When it cannot be changed.
    pub async fn patch(&self, id: ProvisionedResourceId, patch: Value) {
        let xr = self.composite(id).await.expect("it stands");
        let kind = xr.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let found = self.composites.iter().find(|(_, resource)| resource.kind == kind);
        let (api, _) = found.expect("a kind of this world");
        api.patch(&xr.name_any(), &parameters(), &Patch::Merge(patch)).await.expect("a change");
    }

    /// The names of everything that stands: composite resources, what they composed, ProviderConfigs.
    ///
    /// # Panics
    ///
    /// When the API server does not answer.
    pub async fn standing(&self) -> Vec<String> {
        let mut names = Vec::new();
        let composites = self.composites.iter().map(|(api, _)| api);
        for api in composites.chain([&self.parts, &self.provider_configs]) {
            let listed = api.list(&ListParams::default()).await.expect("the API server lists");
            names.extend(listed.items.iter().map(|object| {
                let kind = object.types.as_ref().map_or("", |types| &types.kind);
                format!("{kind} {}", object.name_any())
            }));
        }
        names.sort();
        names
    }
}

/// Only what a race can do is let pass.
trait OrLostRace {
    fn or_lost_race(self);
}

impl OrLostRace for Result<(), kube::Error> {
    fn or_lost_race(self) {
        match self {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if is_lost_race(&status) => {}
            Err(error) => panic!("the API server refused: {error}"),
        }
    }
}

fn is_lost_race(status: &Status) -> bool {
    matches!(status.code, 404 | 409 | 422)
}

/// The name of what an XR composes: another one for another XR of the same name.
fn part_of(xr: &DynamicObject) -> String {
    let uid = xr.uid().unwrap_or_default();
    format!("{}-{}", xr.name_any(), uid.get(..8).unwrap_or_default())
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// Whether the XR says that already.
fn stands(xr: &DynamicObject, conditions: &Value) -> bool {
    xr.data.pointer("/status/conditions") == Some(conditions)
}

/// The token in the document of a machine that runs: its XR is ready, and not on its way out.
fn token(xr: &DynamicObject) -> Option<SecretString> {
    if xr.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let conditions = xr.data.pointer("/status/conditions")?.as_array()?;
    let ready = |condition: &&Value| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.iter().find(ready)?;
    let document = xr.data.pointer("/spec/userData")?.as_str()?.strip_prefix("#cloud-config\n")?;
    let document = read_document("user data", document.as_bytes()).ok()?;
    let files = document.get("write_files")?.as_array()?;
    let file = files.iter().find(|file| file["path"] == TOKEN_PATH)?;
    Some(file["content"].as_str()?.to_owned().into())
}
