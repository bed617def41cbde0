//! Crossplane, a provider and the garbage collector, simulated on a real API server, one turn at a
//! time.
//!
//! An XR that is not paused gets one composed object: the XR refers to it, and is ready one turn
//! later. A deleted XR keeps its finalizer until its composed object is gone.
//!
//! Each object is composed once. A composed object that vanishes is not replaced, so that a test
//! can observe the loss.

mod direct_access;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use broker_domain::{ProvisionedResourceId, XrName};
use broker_ports::Clock;
use broker_render::PAUSED_ANNOTATION;
use futures::{FutureExt, StreamExt, stream};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Api, Client, ResourceExt};
use secrecy::SecretString;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::fixtures::Kinds;
use broker_app::SystemClock;
use status::{condition, has_conditions, has_ready_condition, token, write_conditions};

const FINALIZER: &str = "composite.apiextensions.crossplane.io";
const MANAGED_FINALIZER: &str = "finalizer.managedresource.crossplane.io";
const COMPOSITE_LABEL: &str = "crossplane.io/composite";
const MANAGER: &str = "crossplane";

/// A field that a team writes onto composite resources, and its field manager.
pub(super) const NOTE_ANNOTATION: &str = "team.example.org/note";
const TEAM: &str = "a-team";

/// Composite resources handled concurrently.
const CONCURRENCY: usize = 8;

/// The behaviour of a composite resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// It is ready one turn after it was composed.
    Ready,
    /// It is composed and never ready.
    NeverReady,
    /// It fails permanently, with this reason, one turn after it was composed.
    Failing(String),
}

/// The simulated components.
pub struct Crossplane {
    composites: Vec<(Api<DynamicObject>, ApiResource)>,
    parts: Api<DynamicObject>,
    part: ApiResource,
    provider_configs: Api<DynamicObject>,
    behaviours: Mutex<BTreeMap<ProvisionedResourceId, Behaviour>>,
    /// The only kind to handle, or all kinds.
    only_kind: Mutex<Option<&'static str>>,
    /// The names of composed objects.
    composed: Mutex<BTreeSet<String>>,
    /// When each composite resource, by uid, was first reported ready for its current generation.
    ready: Mutex<BTreeMap<(ProvisionedResourceId, String), OffsetDateTime>>,
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
            only_kind: Mutex::default(),
            composed: Mutex::default(),
            ready: Mutex::default(),
        }
    }

    /// Sets the behaviour of a resource's composite resource.
    pub fn behave_for(&self, id: ProvisionedResourceId, behaviour: Behaviour) {
        locked(&self.behaviours).insert(id, behaviour);
    }

    /// When the composite resources of a resource were first reported ready for their current
    /// generation, in order.
    pub(super) fn ready_since(&self, id: ProvisionedResourceId) -> Vec<OffsetDateTime> {
        let ready = locked(&self.ready);
        let mut times: Vec<_> =
            ready.iter().filter(|((of, _), _)| *of == id).map(|(_, at)| *at).collect();
        times.sort();
        times
    }

    /// Handles only one kind from now on, to save requests.
    pub fn handle_only(&self, kind: &'static str) {
        *locked(&self.only_kind) = Some(kind);
    }

    /// Handles every composite resource. Returns the tokens that running machines find.
    pub async fn turn(&self) -> Vec<SecretString> {
        let mut found = Vec::new();
        let only_kind = *locked(&self.only_kind);
        let is_handled =
            |kind: &ApiResource| only_kind.is_none_or(|only_kind| kind.kind == only_kind);
        for (api, kind) in self.composites.iter().filter(|(_, kind)| is_handled(kind)) {
            let listed = api.list(&ListParams::default()).await;
            let composites = listed.expect("the API server lists composite resources").items;
            let turns = composites.iter().map(|xr| self.reconcile(api, kind, xr).boxed());
            let turns: Vec<_> = turns.collect();
            let turns: Vec<_> = stream::iter(turns).buffered(CONCURRENCY).collect().await;
            for (xr, turn) in composites.iter().zip(turns) {
                match turn {
                    Ok(()) => {}
                    // Another writer was first: the next turn observes its result.
                    Err(kube::Error::Api(status)) if is_lost_race(&status) => {}
                    Err(error) => panic!("cannot reconcile {}: {error}", xr.name_any()),
                }
            }
            found.extend(composites.iter().filter_map(token));
        }
        self.collect_provider_configs().await;
        found
    }

    /// Ends the foreground deletion of ProviderConfigs instead of the garbage collector, which may discover the
    /// kind half a minute late.
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
        let paused = xr.annotations().get(PAUSED_ANNOTATION).is_some_and(|paused| paused == "true");
        // Without Crossplane's finalizer, a pause does not hold the deletion.
        let is_held = paused && xr.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if xr.metadata.deletion_timestamp.is_some() && !is_held {
            return self.finalize(api, xr).await;
        }
        if paused {
            return Ok(());
        }
        if xr.data.pointer("/spec/crossplane/resourceRefs").is_none() {
            return self.add_reference(api, xr).await;
        }
        let conditions = self.conditions(xr);
        if has_conditions(xr, &conditions) {
            return Ok(());
        }
        self.compose(kind, xr).await?;
        if has_ready_condition(&conditions)
            && let Some(key) = XrName::id_of(&xr.name_any()).zip(xr.uid())
        {
            locked(&self.ready).entry(key).or_insert_with(|| SystemClock.now());
        }
        write_conditions(api, xr, &conditions).await
    }

    /// Refers to an object before it is created, so that it cannot be lost. This changes the
    /// generation of the XR: for one turn, its Ready condition is about the previous one.
    async fn add_reference(
        &self,
        api: &Api<DynamicObject>,
        xr: &DynamicObject,
    ) -> Result<(), kube::Error> {
        let reference = json!({
            "apiVersion": self.part.api_version, "kind": self.part.kind, "name": part_of(xr),
        });
        let add_reference = json!({
            "metadata": {"finalizers": [FINALIZER], "resourceVersion": xr.resource_version()},
            "spec": {"crossplane": {"resourceRefs": [reference]}},
        });
        let name = xr.name_any();
        api.patch(&name, &parameters(), &Patch::Merge(add_reference)).await?;
        let note = json!({"metadata": {"annotations": {NOTE_ANNOTATION: xr.uid()}}});
        let team = PatchParams { field_manager: Some(TEAM.to_owned()), ..PatchParams::default() };
        api.patch(&name, &team, &Patch::Merge(note)).await?;
        let stale = json!([condition(xr, "Ready", "True", "Available", "")]);
        write_conditions(api, xr, &stale).await
    }

    async fn compose(&self, kind: &ApiResource, xr: &DynamicObject) -> Result<(), kube::Error> {
        let (name, part) = (xr.name_any(), part_of(xr));
        if locked(&self.composed).contains(&part) {
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
        match self.parts.create(&PostParams::default(), &composed).await {
            Ok(_) => {}
            // An interrupted turn has created the object.
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {}
            Err(error) => return Err(error),
        }
        locked(&self.composed).insert(part);
        Ok(())
    }

    /// Deletes the composed object first, then the XR.
    async fn finalize(
        &self,
        api: &Api<DynamicObject>,
        xr: &DynamicObject,
    ) -> Result<(), kube::Error> {
        for part in self.composed_of(xr).await? {
            self.remove(&part.name_any()).await?;
        }
        if self.composed_of(xr).await?.is_empty() {
            let released = json!({"metadata": {"finalizers": null, "uid": xr.uid()}});
            api.patch(&xr.name_any(), &parameters(), &Patch::Merge(released)).await?;
        }
        Ok(())
    }

    async fn remove(&self, part: &str) -> Result<(), kube::Error> {
        self.parts.delete(part, &DeleteParams::default()).await?;
        let released = json!({"metadata": {"finalizers": null}});
        self.parts.patch(part, &parameters(), &Patch::Merge(released)).await.map(drop)
    }

    /// The objects of this XR, not those of an earlier XR with the same name.
    async fn composed_of(&self, xr: &DynamicObject) -> Result<Vec<DynamicObject>, kube::Error> {
        let label = format!("{COMPOSITE_LABEL}={}", xr.name_any());
        let mut parts = self.parts.list(&ListParams::default().labels(&label)).await?.items;
        parts.retain(|part| {
            part.owner_references().iter().any(|owner| Some(&owner.uid) == xr.metadata.uid.as_ref())
        });
        Ok(parts)
    }

    fn conditions(&self, xr: &DynamicObject) -> Value {
        let behaviours = locked(&self.behaviours);
        let behaviour = XrName::id_of(&xr.name_any()).and_then(|id| behaviours.get(&id).cloned());
        let condition = |kind: &str, status: &str, reason: &str, message: &str| {
            condition(xr, kind, status, reason, message)
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

/// Ignores only errors that a race can cause.
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

/// The name of the composed object: unique per XR, also among XRs of the same name.
fn part_of(xr: &DynamicObject) -> String {
    let uid = xr.uid().unwrap_or_default();
    format!("{}-{}", xr.name_any(), uid.get(..8).unwrap_or_default())
}

fn parameters() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
