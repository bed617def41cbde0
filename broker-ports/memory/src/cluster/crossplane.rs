//! Observe: simulates Crossplane. One round per tick reconciles every composite resource.
//!
//! The order of its writes, its finalizer, its conditions and their reasons match real Crossplane.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ObjectReference, ProvisionedResourceId, XrName};
use broker_render::catalog::ComposedKind;
use broker_render::{PAUSED_ANNOTATION, XrdScope, composition_ref, references};
use serde_json::{Map, Value, json};

use super::behaviour::{Behaviour, Outcome};
use super::object::Object;
use super::ownership::{Manager, Operation};
use super::provider::Managed;
use super::state::{KindName, State};
use broker_ports::ClusterEvent;

/// Crossplane's label on composed objects.
pub(super) const COMPOSITE_LABEL: &str = "crossplane.io/composite";

/// The annotation that names a composed object's slot: the name of its template in the Composition.
const SLOT_ANNOTATION: &str = "crossplane.io/composition-resource-name";
const FINALIZER: &str = "composite.apiextensions.crossplane.io";
/// The manager of the references and of composed objects.
const FIELD_OWNER: &str = "apiextensions.crossplane.io/composite";
/// The manager of all other fields that Crossplane writes.
const CONTROLLER: &str = "crossplane";
const PAUSED_MESSAGE: &str =
    "Reconciliation (including deletion) is paused via the pause annotation";

/// A controller of the cluster that a test can stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The garbage collector; without it no foreground deletion finishes.
    GarbageCollector,
    /// The providers, which create and delete composed objects.
    Provider,
    /// Crossplane itself.
    Crossplane,
}

/// The scripts of Crossplane and the providers, and their progress.
#[derive(Default)]
pub(super) struct Crossplane {
    pub(super) by_kind: BTreeMap<KindName, Behaviour>,
    pub(super) by_resource: BTreeMap<ProvisionedResourceId, Behaviour>,
    pub(super) stopped: BTreeSet<Part>,
    pub(super) tick: u64,
    /// When a composite resource was first composed, by uid.
    pub(super) composed_at: BTreeMap<String, u64>,
    /// The objects that providers manage, by uid.
    pub(super) managed: BTreeMap<String, Managed>,
}

impl State {
    /// One round of Crossplane over all composite resources.
    pub(super) fn reconcile_composites(&mut self) {
        let composites: Vec<_> = self
            .objects
            .keys()
            .filter(|reference| self.kind(reference).is_some_and(|kind| kind.xrd.is_some()))
            .cloned()
            .collect();
        for reference in composites {
            if let Some(behaviour) = self.behaviour_of(&reference) {
                self.reconcile(&reference, &behaviour);
            }
        }
    }

    fn behaviour_of(&self, xr: &ObjectReference) -> Option<Behaviour> {
        let kind = (xr.api_version().to_owned(), xr.kind().to_owned());
        let for_resource =
            XrName::id_of(xr.name()).and_then(|id| self.crossplane.by_resource.get(&id));
        for_resource.or_else(|| self.crossplane.by_kind.get(&kind)).cloned()
    }

    fn reconcile(&mut self, xr: &ObjectReference, behaviour: &Behaviour) {
        let Some(object) = self.objects.get(xr) else { return };
        if object.annotation(PAUSED_ANNOTATION) == Some("true") {
            // Paused: neither finalizer nor deletion is handled, so a paused object blocks its own deletion.
            let paused = ("Synced", "False", "ReconcilePaused", PAUSED_MESSAGE);
            self.set_conditions(xr, CONTROLLER, &[RESPONSIVE, paused]);
            return;
        }
        if object.deleting.is_some() {
            // Crossplane removes its finalizer first. The status follows only if another finalizer keeps the object.
            let deleting = ("Ready", "False", "Deleting", "");
            self.remove_finalizer(xr, FINALIZER);
            self.set_conditions(xr, CONTROLLER, &[RESPONSIVE, deleting, SYNCED]);
            return;
        }
        self.change(xr, |object| {
            if !object.finalizers.iter().any(|present| present == FINALIZER) {
                object.finalizers.push(FINALIZER.to_owned());
            }
        });
        self.select_composition(xr);
        if let Outcome::Unsynced { message } = &behaviour.outcome {
            self.report_error(xr, message);
            return;
        }
        match self.compose(xr, behaviour) {
            Ok(()) => self.propagate(xr, behaviour),
            Err(message) => self.report_error(xr, &message),
        }
    }

    fn scope_of(&self, xr: &ObjectReference) -> XrdScope {
        let xrd = self.kind(xr).and_then(|kind| kind.xrd.as_ref());
        xrd.map_or(XrdScope::Namespaced, |xrd| xrd.scope())
    }

    /// The existing objects that a composite resource refers to and owns.
    fn composed_of(&self, xr: &ObjectReference) -> Vec<(ObjectReference, &Object)> {
        let Some(composite) = self.objects.get(xr) else { return Vec::new() };
        let live = json!({"metadata": {"namespace": xr.namespace()}, "spec": composite.spec()});
        let names = references(&live, self.scope_of(xr)).into_iter();
        names
            .filter_map(|name| self.objects.get_key_value(&name))
            .filter(|(_, object)| object.is_owned_by(&composite.uid))
            .map(|(name, object)| (name.clone(), object))
            .collect()
    }

    /// Crossplane selects a Composition if the composite resource names none, and then its revision. Each is a write of
    /// `spec` and a new generation. Real Crossplane selects at random; the simulation selects a Composition that
    /// no blueprint has.
    fn select_composition(&mut self, xr: &ObjectReference) {
        let scope = self.scope_of(xr);
        let Some(object) = self.objects.get(xr) else { return };
        let live = json!({"spec": object.spec()});
        let default_name = || format!("{}-composition", xr.kind().to_lowercase());
        let composition = composition_ref(&live, scope).map_or_else(default_name, str::to_owned);
        for (key, name) in [
            ("compositionRef", composition.clone()),
            ("compositionRevisionRef", format!("{composition}-0000001")),
        ] {
            self.change(xr, |object| {
                object.write(CONTROLLER, Operation::Update, |content| {
                    own_fields(content, scope).insert(key.to_owned(), json!({ "name": name }));
                });
            });
        }
    }

    /// Reports an error of a function or of the API server as a condition and an event.
    fn report_error(&mut self, xr: &ObjectReference, message: &str) {
        let message = format!("cannot compose resources: {message}");
        let unsynced = ("Synced", "False", "ReconcileError", message.as_str());
        self.set_conditions(xr, CONTROLLER, &[RESPONSIVE, unsynced]);
        let at = Some(self.clock.now());
        let reason = "ComposeResources".to_owned();
        let mut event = ClusterEvent::new(at, reason, message);
        event.warning = true;
        self.record_event(xr, event);
    }

    /// Names the objects, stores references to them, and only then creates them: an unreferenced object could be lost.
    fn compose(&mut self, xr: &ObjectReference, behaviour: &Behaviour) -> Result<(), String> {
        let Some(composite) = self.objects.get(xr).cloned() else { return Ok(()) };
        let mut composed = Vec::new();
        for (position, kind) in behaviour.composed.iter().enumerate() {
            let slot = behaviour.object_name(position);
            composed.push((slot.clone(), self.composed_name(xr, &slot, kind)?));
        }
        let scope = self.scope_of(xr);
        let entries: Vec<_> = composed.iter().map(|(_, name)| entry(xr, name)).collect();
        let mut refs = Map::from_iter([("spec".to_owned(), json!({}))]);
        own_fields(&mut refs, scope).insert("resourceRefs".to_owned(), Value::Array(entries));
        self.change(xr, |object| {
            let owner = Manager::new(FIELD_OWNER, Operation::Apply);
            object.ownership.apply(&owner, &mut object.content, &refs);
        });
        let tick = self.crossplane.tick;
        self.crossplane.composed_at.entry(composite.uid.clone()).or_insert(tick);
        for (position, (slot, name)) in composed.iter().enumerate() {
            self.put_composed(xr, &composite, slot, name);
            let Some(object) = self.objects.get(name).filter(|_| !name.is_plain_data()) else {
                // No provider manages plain data.
                continue;
            };
            let uid = object.uid.clone();
            let before = self.crossplane.managed.remove(&uid);
            let managed = Managed {
                position: position as u64,
                behaviour: behaviour.clone(),
                provider_config: xr.name().to_owned(),
                composed_at: before.as_ref().map_or(tick, |managed| managed.composed_at),
                deletion_seen_at: before.and_then(|managed| managed.deletion_seen_at),
            };
            self.crossplane.managed.insert(uid, managed);
        }
        Ok(())
    }

    /// The name of the object in a slot: the existing one or a new one.
    fn composed_name(
        &mut self,
        xr: &ObjectReference,
        slot: &str,
        kind: &ComposedKind,
    ) -> Result<ObjectReference, String> {
        let mut composed = self.composed_of(xr).into_iter();
        let existing =
            composed.find(|(_, object)| object.annotation(SLOT_ANNOTATION) == Some(slot));
        if let Some((reference, _)) = existing {
            return Ok(reference);
        }
        let name = (kind.api_version.clone(), kind.kind.clone());
        let Some(served) = self.kinds.get(&name) else {
            return Err(format!(
                "no matches for kind {:?} in version {:?}",
                kind.kind, kind.api_version
            ));
        };
        let namespace = if served.namespaced { xr.namespace() } else { None };
        let reference = |name: String| {
            ObjectReference::new(kind.api_version.as_str(), kind.kind.as_str(), name, namespace)
                .map_err(|error| error.to_string())
        };
        self.check_create(served, &reference(xr.name().to_owned())?)
            .map_err(|(_, message)| message)?;
        reference(format!("{}-{:012x}", xr.name(), self.mint()))
    }

    /// Creates a composed object or updates it from the composite resource.
    fn put_composed(
        &mut self,
        xr: &ObjectReference,
        composite: &Object,
        slot: &str,
        name: &ObjectReference,
    ) {
        let mut fields = composite.spec().cloned().unwrap_or_else(|| json!({}));
        if let Value::Object(fields) = &mut fields {
            fields.retain(|key, _| !["crossplane", "resourceRefs"].contains(&key.as_str()));
        }
        let content = json!({
            "metadata": {
                "labels": {COMPOSITE_LABEL: xr.name()},
                "annotations": {SLOT_ANNOTATION: slot},
            },
            "spec": {"forProvider": {"fields": fields}, "providerConfigRef": {"name": xr.name()}},
        });
        let Value::Object(content) = content else { return };
        let apply = |object: &mut Object| {
            let owner = Manager::new(FIELD_OWNER, Operation::Apply);
            object.ownership.apply(&owner, &mut object.content, &content);
        };
        if self.objects.contains_key(name) {
            self.change(name, apply);
            return;
        }
        let mut object = self.new_object();
        apply(&mut object);
        object.owners.push(json!({
            "apiVersion": xr.api_version(), "kind": xr.kind(), "name": xr.name(),
            "uid": composite.uid, "controller": true, "blockOwnerDeletion": true,
        }));
        self.store(name, object);
    }

    /// The composite resource is ready when all its composed objects are.
    fn propagate(&mut self, xr: &ObjectReference, behaviour: &Behaviour) {
        let Some(uid) = self.objects.get(xr).map(|object| object.uid.clone()) else { return };
        let composed = self.composed_of(xr).into_iter();
        let mut unready: Vec<_> = composed
            .filter(|(name, object)| !name.is_plain_data() && !is_ready(object))
            .filter_map(|(_, object)| object.annotation(SLOT_ANNOTATION))
            .collect();
        unready.sort_unstable();
        let message = format!("Unready resources: {}", first_three(&unready));
        let ready = if unready.is_empty() {
            ("Ready", "True", "Available", "")
        } else {
            ("Ready", "False", "Creating", message.as_str())
        };
        let mut conditions = vec![RESPONSIVE, SYNCED, ready];
        let since = self.crossplane.composed_at.get(&uid).copied().unwrap_or_default();
        let mut failure = behaviour.declared_failure.as_ref();
        if let Outcome::Failing { after, message } = &behaviour.outcome
            && self.crossplane.tick - since >= *after
        {
            failure = Some(message);
        }
        if let Some(message) = failure {
            conditions.push(("ProvisioningFailed", "True", "ProvisioningFailed", message));
        }
        self.set_conditions(xr, CONTROLLER, &conditions);
    }
}

const RESPONSIVE: (&str, &str, &str, &str) = ("Responsive", "True", "WatchCircuitClosed", "");
const SYNCED: (&str, &str, &str, &str) = ("Synced", "True", "ReconcileSuccess", "");

/// The location of Crossplane's own fields in the `spec` of a composite resource.
fn own_fields(content: &mut Map<String, Value>, scope: XrdScope) -> &mut Map<String, Value> {
    let spec = object_in(content, "spec");
    match scope {
        XrdScope::LegacyCluster => spec,
        XrdScope::Namespaced | XrdScope::Cluster => object_in(spec, "crossplane"),
    }
}

fn object_in<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let inner = object.entry(key.to_owned()).or_insert_with(|| json!({}));
    if !inner.is_object() {
        *inner = json!({});
    }
    inner.as_object_mut().expect("the line above stored an object")
}

/// A reference to a composed object, without the namespace if it is the composite resource's.
fn entry(xr: &ObjectReference, composed: &ObjectReference) -> Value {
    let mut entry = json!({
        "apiVersion": composed.api_version(), "kind": composed.kind(), "name": composed.name(),
    });
    if let Some(namespace) = composed.namespace()
        && xr.namespace().is_none()
    {
        entry["namespace"] = json!(namespace);
    }
    entry
}

/// Shortens a list as Crossplane does.
fn first_three(names: &[&str]) -> String {
    match names {
        [one, two, three] => format!("{one}, {two}, and {three}"),
        [one, two, three, more @ ..] => {
            format!("{one}, {two}, {three}, and {} more", more.len())
        }
        few => few.join(", "),
    }
}

pub(super) fn is_ready(object: &Object) -> bool {
    object.condition("Ready").is_some_and(|ready| ready["status"] == json!("True"))
}
