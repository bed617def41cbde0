//! Observe: methods by which a test changes and inspects the cluster. They bypass the port.

use std::collections::BTreeSet;
use std::sync::Arc;

use broker_domain::{ClusterId, ObjectReference, ProvisionedResourceId};
use broker_render::Xrd;
use serde_json::{Map, Value, json};

use super::MemoryCluster;
use super::agent::AgentDocument;
use super::behaviour::Behaviour;
use super::crossplane::Part;
use super::delete::Propagation;
use super::object::{Object, merge_patch};
use super::ownership::Operation;
use super::state::{Kind, Namespace, StoredVersion, Verb};
use super::watch::HintDelivery;
use broker_ports::ClusterEvent;

/// Whether objects of a kind are namespaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KindScope {
    /// Each in a namespace.
    Namespaced,
    /// Outside of any namespace.
    Cluster,
}

/// The effect of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Something changed.
    Changed,
    /// Nothing changed, but later ticks will change something.
    Waiting,
    /// Nothing changes until a test or the broker acts.
    Idle,
}

/// Changes that the platform makes.
impl MemoryCluster {
    /// Serves the kind of an XRD.
    pub fn install_xrd(&self, xrd: &Arc<Xrd>) {
        let name = (xrd.api_version(), xrd.kind().to_owned());
        let namespaced = xrd.scope().is_namespaced();
        let kind = Kind { xrd: Some(Arc::clone(xrd)), namespaced, terminating: false };
        self.state().kinds.insert(name, kind);
    }

    /// Serves any other kind without validation.
    pub fn install_kind(&self, api_version: &str, kind: &str, scope: KindScope) {
        let name = (api_version.to_owned(), kind.to_owned());
        let namespaced = scope == KindScope::Namespaced;
        self.state().kinds.insert(name, Kind { xrd: None, namespaced, terminating: false });
    }

    /// Deletes a kind: first its objects, then the kind itself.
    pub fn remove_kind(&self, api_version: &str, kind: &str) {
        let mut state = self.state();
        let name = (api_version.to_owned(), kind.to_owned());
        if let Some(kind) = state.kinds.get_mut(&name) {
            kind.terminating = true;
        }
        let of_kind = |object: &&ObjectReference| {
            (object.api_version(), object.kind()) == (api_version, kind)
        };
        let objects: Vec<_> = state.objects.keys().filter(of_kind).cloned().collect();
        for reference in objects {
            state.begin_deletion(&reference, Propagation::Background);
        }
        state.finish_kinds();
    }

    /// Creates a namespace.
    pub fn create_namespace(&self, name: &str) {
        self.state().namespaces.insert(name.to_owned(), Namespace::Active);
    }

    /// Deletes a namespace: first its objects, then the namespace itself.
    pub fn terminate_namespace(&self, name: &str) {
        let mut state = self.state();
        if let Some(namespace) = state.namespaces.get_mut(name) {
            *namespace = Namespace::Terminating;
        }
        let is_inside = |object: &&ObjectReference| object.namespace() == Some(name);
        let objects: Vec<_> = state.objects.keys().filter(is_inside).cloned().collect();
        for reference in objects {
            state.begin_deletion(&reference, Propagation::Background);
        }
        state.finish_namespaces();
    }

    /// Replaces the cluster's identity, as another cluster at the same address would.
    pub fn swap_identity(&self, identity: ClusterId) {
        self.state().identity = identity;
    }

    /// Deletes every object and namespace at once, like the loss of etcd.
    pub fn lose_everything(&self) {
        let mut state = self.state();
        state.objects.clear();
        state.namespaces.clear();
        state.watch.listeners.end();
    }

    /// Takes a backup. The returned closure restores every object with its uid, like a restore of etcd.
    pub fn back_up(&self) -> impl Fn() + use<> {
        let (cluster, objects) = (self.clone(), self.state().objects.clone());
        move || {
            let mut state = cluster.state();
            state.objects.clone_from(&objects);
            state.watch.listeners.end();
        }
    }
}

/// Writes of people and controllers.
impl MemoryCluster {
    /// Creates an object, with finalizers and owners, if its name is free and its kind is served.
    pub fn create_as(&self, manager: &str, reference: &ObjectReference, object: &Value) {
        let mut state = self.state();
        if state.objects.contains_key(reference) || state.kind(reference).is_none() {
            return;
        }
        let mut created = state.new_object();
        patch(&mut created, manager, object);
        state.store(reference, created);
    }

    /// Applies a JSON merge patch as a field manager.
    pub fn patch_as(&self, manager: &str, reference: &ObjectReference, changes: &Value) {
        self.state().change(reference, |object| patch(object, manager, changes));
    }

    /// Deletes an object in the background, as `kubectl delete` does: its dependents are deleted afterwards.
    pub fn delete_in_background(&self, reference: &ObjectReference) {
        self.state().begin_deletion(reference, Propagation::Background);
    }

    /// Adds a finalizer that no simulated controller removes.
    pub fn add_finalizer(&self, reference: &ObjectReference, finalizer: &str) {
        self.state().change(reference, |object| object.finalizers.push(finalizer.to_owned()));
    }

    /// Removes a finalizer.
    pub fn remove_finalizer(&self, reference: &ObjectReference, finalizer: &str) {
        self.state().remove_finalizer(reference, finalizer);
    }

    /// Pauses a composite resource for Crossplane.
    pub fn pause(&self, reference: &ObjectReference) {
        self.annotate(reference, broker_render::PAUSED_ANNOTATION, json!("true"));
    }

    /// Removes the pause of a composite resource.
    pub fn unpause(&self, reference: &ObjectReference) {
        self.annotate(reference, broker_render::PAUSED_ANNOTATION, Value::Null);
    }

    fn annotate(&self, reference: &ObjectReference, key: &str, value: Value) {
        let annotations = Map::from_iter([(key.to_owned(), value)]);
        self.patch_as("kubectl", reference, &json!({"metadata": {"annotations": annotations}}));
    }

    /// Vetoes the deletion of an object, as a Usage does.
    pub fn veto(&self, reference: &ObjectReference, message: impl Into<String>) {
        self.state().deletion_vetoes.insert(reference.clone(), message.into());
    }

    /// Removes the veto on an object.
    pub fn lift_veto(&self, reference: &ObjectReference) {
        self.state().deletion_vetoes.remove(reference);
    }

    /// Adds an admission webhook that denies every apply to objects of a kind.
    pub fn deny(&self, kind: &str, message: impl Into<String>) {
        self.state().apply_denials.insert(kind.to_owned(), message.into());
    }

    /// Removes the webhook for a kind.
    pub fn stop_denying(&self, kind: &str) {
        self.state().apply_denials.remove(kind);
    }

    /// Records an event about an object.
    pub fn record_event(&self, about: &ObjectReference, event: ClusterEvent) {
        self.state().record_event(about, event);
    }
}

/// Fault injection.
impl MemoryCluster {
    /// Forbids a verb on a kind, such as `NopResource`, `Namespace` or `Event`.
    pub fn forbid(&self, verb: Verb, kind: &str) {
        self.state().forbidden.insert((verb, kind.to_owned()));
    }

    /// Removes all prohibitions.
    pub fn allow_everything(&self) {
        self.state().forbidden.clear();
    }

    /// Stops the API server: every call fails with "connection refused".
    pub fn take_down(&self) {
        self.state().unreachable = true;
    }

    /// Restarts the API server with its data.
    pub fn bring_back(&self) {
        self.state().unreachable = false;
    }

    /// Expires the broker's credentials: every call is unauthorized.
    pub fn log_out(&self) {
        self.state().credentials_expired = true;
    }

    /// Renews the credentials.
    pub fn log_in(&self) {
        self.state().credentials_expired = false;
    }

    /// Stops a part of the cluster.
    pub fn stop(&self, part: Part) {
        self.state().crossplane.stopped.insert(part);
    }

    /// Restarts a part of the cluster.
    pub fn start(&self, part: Part) {
        self.state().crossplane.stopped.remove(&part);
    }

    /// Freezes the watch cache: until [`catch_up_cache`](Self::catch_up_cache), observations and listings return the state
    /// of this moment.
    pub fn freeze_cache(&self) {
        let mut state = self.state();
        state.watch.frozen = Some(state.objects.clone());
    }

    /// Hides an object from the watch cache until [`catch_up_cache`](Self::catch_up_cache).
    pub fn hide_from_cache(&self, reference: &ObjectReference) {
        self.state().watch.hidden.insert(reference.clone());
    }

    /// Makes the watch cache current and complete.
    pub fn catch_up_cache(&self) {
        let mut state = self.state();
        state.watch.frozen = None;
        state.watch.hidden.clear();
    }

    /// Sets the delivery of hints.
    pub fn deliver_hints(&self, delivery: HintDelivery) {
        self.state().watch.delivery = delivery;
    }

    /// Ends every stream of hints.
    pub fn end_hints(&self) {
        self.state().watch.listeners.end();
    }

    /// Sets the page size of listings.
    pub fn set_page_size(&self, objects: usize) {
        self.state().page_size = objects.max(1);
    }
}

/// Simulated time: garbage collector, providers and Crossplane work in ticks.
impl MemoryCluster {
    /// Sets the behaviour of composite resources of a kind.
    pub fn behave(&self, xrd: &Xrd, behaviour: Behaviour) {
        let name = (xrd.api_version(), xrd.kind().to_owned());
        self.state().crossplane.by_kind.insert(name, behaviour);
    }

    /// Sets the behaviour of one composite resource, which overrides its kind's.
    pub fn behave_for(&self, resource: ProvisionedResourceId, behaviour: Behaviour) {
        self.state().crossplane.by_resource.insert(resource, behaviour);
    }

    /// Runs one round of garbage collector, providers and Crossplane, except stopped parts.
    pub fn tick(&self) -> Activity {
        let mut state = self.state();
        let before = state.resource_version;
        let stopped = state.crossplane.stopped.clone();
        state.crossplane.tick += 1;
        if !stopped.contains(&Part::GarbageCollector) {
            state.collect_garbage();
        }
        if !stopped.contains(&Part::Provider) {
            state.reconcile_managed();
        }
        if !stopped.contains(&Part::Crossplane) {
            state.reconcile_composites();
        }
        state.drop_stale_state();
        match (state.resource_version != before, state.is_waiting()) {
            (true, _) => Activity::Changed,
            (false, true) => Activity::Waiting,
            (false, false) => Activity::Idle,
        }
    }

    /// Ticks until nothing changes, at most `limit` times. Returns the number of ticks.
    pub fn settle(&self, limit: usize) -> usize {
        (1..=limit).find(|_| self.tick() == Activity::Idle).unwrap_or(limit)
    }
}

/// Read access for a test.
impl MemoryCluster {
    /// Whether an object exists.
    pub fn exists(&self, reference: &ObjectReference) -> bool {
        self.state().objects.contains_key(reference)
    }

    /// Whether a namespace exists, including one that is being deleted.
    pub fn namespace_exists(&self, name: &str) -> bool {
        self.state().namespaces.contains_key(name)
    }

    /// All existing objects.
    pub fn objects(&self) -> BTreeSet<ObjectReference> {
        self.state().objects.keys().cloned().collect()
    }

    /// An object as the API server returns it. It may hold a token.
    pub fn object(&self, reference: &ObjectReference) -> Option<Value> {
        self.state().objects.get(reference).map(|object| object.to_json(reference))
    }

    /// Records every version of every object from now on.
    pub fn keep_versions(&self) {
        self.state().versions = Some(Vec::new());
    }

    /// The recorded versions, in order. They may hold tokens.
    pub fn versions(&self) -> Vec<StoredVersion> {
        self.state().versions.clone().unwrap_or_default()
    }

    /// How many requests of a verb the port sent.
    pub fn requests(&self, verb: Verb) -> u64 {
        self.state().requests.get(&verb).copied().unwrap_or_default()
    }

    /// How many writing requests the port sent.
    pub fn writes(&self) -> u64 {
        self.requests(Verb::Patch) + self.requests(Verb::Delete)
    }

    /// The machines with an injected token.
    pub fn agent_documents(&self) -> Vec<AgentDocument> {
        self.state().agent_documents()
    }

    /// The token that a resource's machine finds, if any.
    pub fn bootstrap_token_of(
        &self,
        resource: ProvisionedResourceId,
    ) -> Option<broker_ports::BootstrapToken> {
        let is_own = |document: &AgentDocument| document.resource == resource;
        self.agent_documents().into_iter().find(is_own).map(|document| document.token)
    }
}

/// A JSON merge patch of the fields that clients can write.
fn patch(object: &mut Object, manager: &str, changes: &Value) {
    let Value::Object(mut changes) = changes.clone() else { return };
    changes.retain(|key, _| ["metadata", "spec", "status"].contains(&key.as_str()));
    if let Some(Value::Object(metadata)) = changes.get_mut("metadata") {
        if let Some(finalizers) = metadata.remove("finalizers") {
            object.finalizers = serde_json::from_value(finalizers).unwrap_or_default();
        }
        if let Some(owners) = metadata.remove("ownerReferences") {
            object.owners = serde_json::from_value(owners).unwrap_or_default();
        }
        metadata.retain(|key, _| ["labels", "annotations"].contains(&key.as_str()));
    }
    let operation =
        if changes.contains_key("status") { Operation::UpdateStatus } else { Operation::Update };
    object.write(manager, operation, |content| merge_patch(content, &changes));
}
