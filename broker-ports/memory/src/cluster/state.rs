//! The state of the simulated API server: kinds, namespaces, objects and permissions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use broker_domain::{ClusterId, ObjectReference};
use broker_render::Xrd;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::crossplane::Crossplane;
use super::object::{Object, timestamp};
use super::ownership::{Operation, Ownership};
use super::watch::Watch;
use crate::PortResult;
use broker_ports::{Clock, ClusterEvent, PortError, Presence, Refusal};

/// A verb of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the verb of its name")]
pub enum Verb {
    Get,
    List,
    Create,
    Patch,
    Delete,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
            Self::Patch => "apply",
            Self::Delete => "delete",
        })
    }
}

/// apiVersion and kind.
pub(super) type KindName = (String, String);

/// The caller: unrestricted, or with rights on some kinds only.
pub(super) type Caller = Option<Arc<BTreeSet<KindName>>>;

/// A kind that the API server serves.
pub(super) struct Kind {
    /// The XRD, for the kind of a composite resource.
    pub(super) xrd: Option<Arc<Xrd>>,
    pub(super) namespaced: bool,
    /// The kind was deleted and waits for its last object.
    pub(super) terminating: bool,
}

/// A namespace that exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    Active,
    Terminating,
}

/// A version of an object, as a watch delivers it. It may hold a token, so it is not printed.
#[derive(Clone)]
pub struct StoredVersion {
    /// The object.
    pub reference: ObjectReference,
    /// The API server's response.
    pub object: Value,
    /// Whether the object exists after this version.
    pub presence: Presence,
}

pub(super) struct State {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) identity: ClusterId,
    pub(super) kinds: BTreeMap<KindName, Kind>,
    pub(super) namespaces: BTreeMap<String, Namespace>,
    pub(super) objects: BTreeMap<ObjectReference, Object>,
    pub(super) deletion_vetoes: BTreeMap<ObjectReference, String>,
    /// The message of the admission webhook, for each kind that it refuses to apply.
    pub(super) apply_denials: BTreeMap<String, String>,
    pub(super) events: Vec<(ObjectReference, ClusterEvent)>,
    pub(super) forbidden: BTreeSet<(Verb, String)>,
    pub(super) unreachable: bool,
    pub(super) credentials_expired: bool,
    pub(super) requests: BTreeMap<Verb, u64>,
    pub(super) page_size: usize,
    pub(super) watch: Watch,
    pub(super) crossplane: Crossplane,
    pub(super) resource_version: u64,
    /// Every version of every object; `None` until a test starts the recording.
    pub(super) versions: Option<Vec<StoredVersion>>,
    minted_numbers: u64,
}

impl State {
    pub(super) fn new(clock: Arc<dyn Clock>, identity: ClusterId) -> Self {
        Self {
            clock,
            identity,
            kinds: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            objects: BTreeMap::new(),
            deletion_vetoes: BTreeMap::new(),
            apply_denials: BTreeMap::new(),
            events: Vec::new(),
            forbidden: BTreeSet::new(),
            unreachable: false,
            credentials_expired: false,
            requests: BTreeMap::new(),
            page_size: 500,
            watch: Watch::default(),
            crossplane: Crossplane::default(),
            // Versions start above 1, so an apply that requires version 1 succeeds only on a free name.
            resource_version: 100,
            versions: None,
            minted_numbers: 0,
        }
    }

    /// A number that was never used before.
    pub(super) const fn mint(&mut self) -> u64 {
        self.minted_numbers += 1;
        self.minted_numbers
    }

    pub(super) fn mint_uid(&mut self) -> String {
        // The upper half distinguishes uids from other ids in a test.
        Uuid::from_u64_pair(0x0b1e_c700_0000_4000, self.mint()).to_string()
    }

    /// Counts a request. Fails if the server is unreachable or the caller lacks the right.
    pub(super) fn request(
        &mut self,
        caller: &Caller,
        verb: Verb,
        kind: (&str, &str),
        what: &dyn fmt::Display,
    ) -> PortResult<()> {
        if self.unreachable {
            return Err(PortError::transient(format!("{verb} {what}: connection refused")));
        }
        *self.requests.entry(verb).or_default() += 1;
        if self.credentials_expired {
            let refused = PortError::transient(format!("{verb} {what}: Unauthorized"));
            return Err(refused.with_refusal(Refusal::Unauthenticated));
        }
        let (api_version, name) = kind;
        let lacks_right = caller
            .as_ref()
            .is_some_and(|rights| !rights.contains(&(api_version.to_owned(), name.to_owned())));
        if lacks_right || self.forbidden.contains(&(verb, name.to_owned())) {
            let refused = PortError::rejected(format!("{verb} {what}: forbidden"));
            return Err(refused.with_refusal(Refusal::Forbidden));
        }
        Ok(())
    }

    /// Reads one object by name. A missing namespace reads as a missing object, as on a real server.
    pub(super) fn get(
        &mut self,
        caller: &Caller,
        reference: &ObjectReference,
    ) -> PortResult<Option<&Object>> {
        let kind = (reference.api_version(), reference.kind());
        self.request(caller, Verb::Get, kind, reference)?;
        Ok(self.objects.get(reference))
    }

    /// Lists the objects of a kind, in order.
    pub(super) fn list(
        &mut self,
        caller: &Caller,
        kind: (&str, &str),
    ) -> PortResult<impl Iterator<Item = (&ObjectReference, &Object)>> {
        self.request(caller, Verb::List, kind, &format_args!("{} ({})", kind.1, kind.0))?;
        of_kind(&self.objects, kind)
    }

    pub(super) fn kind(&self, reference: &ObjectReference) -> Option<&Kind> {
        self.kinds.get(&(reference.api_version().to_owned(), reference.kind().to_owned()))
    }

    /// A new, empty object that is not stored yet.
    pub(super) fn new_object(&mut self) -> Object {
        Object {
            uid: self.mint_uid(),
            // The version in a dry run's response.
            resource_version: 1,
            generation: 1,
            created: self.clock.now(),
            deleting: None,
            finalizers: Vec::new(),
            owners: Vec::new(),
            content: Map::new(),
            ownership: Ownership::default(),
        }
    }

    pub(super) fn store(&mut self, reference: &ObjectReference, mut object: Object) {
        self.resource_version += 1;
        object.resource_version = self.resource_version;
        self.watch.notify_change(reference, &object);
        self.record_version(reference, &object, Presence::Present);
        self.objects.insert(reference.clone(), object);
    }

    /// Changes an object. A no-op keeps the version; a changed `spec` raises the generation. Removing the last
    /// finalizer of an object that is being deleted removes the object.
    pub(super) fn change(&mut self, reference: &ObjectReference, edit: impl FnOnce(&mut Object)) {
        let Some(before) = self.objects.get(reference) else { return };
        let mut after = before.clone();
        edit(&mut after);
        if after == *before {
            return;
        }
        if after.spec() != before.spec() {
            after.generation += 1;
        }
        if after.deleting.is_some() && after.finalizers.is_empty() {
            self.objects.remove(reference);
            self.resource_version += 1;
            self.watch.notify_change(reference, &after);
            self.record_version(reference, &after, Presence::Gone);
        } else {
            self.store(reference, after);
        }
    }

    fn record_version(&mut self, reference: &ObjectReference, object: &Object, presence: Presence) {
        if let Some(versions) = &mut self.versions {
            let (reference, object) = (reference.clone(), object.to_json(reference));
            versions.push(StoredVersion { reference, object, presence });
        }
    }

    /// Sets status conditions as a controller does: each keeps the time of its last transition and refers to the
    /// current generation.
    pub(super) fn set_conditions(
        &mut self,
        reference: &ObjectReference,
        manager: &str,
        conditions: &[(&str, &str, &str, &str)],
    ) {
        let now = timestamp(self.clock.now());
        self.change(reference, |object| {
            let generation = object.generation;
            let mut kept = match object.content.get("status").and_then(|s| s.get("conditions")) {
                Some(Value::Array(conditions)) => conditions.clone(),
                _ => Vec::new(),
            };
            for (kind, status, reason, message) in conditions {
                let old = object.condition(kind).filter(|old| old["status"] == json!(status));
                let since = old.map_or(&now, |old| &old["lastTransitionTime"]).clone();
                let mut new = json!({
                    "type": kind, "status": status, "reason": reason,
                    "lastTransitionTime": since, "observedGeneration": generation,
                });
                if !message.is_empty() {
                    new["message"] = json!(message);
                }
                match kept.iter_mut().find(|kept| kept["type"] == json!(kind)) {
                    Some(kept) => *kept = new,
                    None => kept.push(new),
                }
            }
            object.write(manager, Operation::UpdateStatus, |content| {
                let status = content.entry("status").or_insert_with(|| json!({}));
                status["conditions"] = Value::Array(kept);
            });
        });
    }

    /// Drops state of objects that no longer exist.
    pub(super) fn drop_stale_state(&mut self) {
        let living: BTreeSet<_> = self.objects.values().map(|object| object.uid.as_str()).collect();
        self.crossplane.managed.retain(|uid, _| living.contains(uid.as_str()));
        self.crossplane.composed_at.retain(|uid, _| living.contains(uid.as_str()));
    }

    /// Records an event about an object; a repetition only updates its time.
    pub(super) fn record_event(&mut self, about: &ObjectReference, event: ClusterEvent) {
        let is_repetition = |(reference, earlier): &(ObjectReference, ClusterEvent)| {
            reference == about && earlier.reason == event.reason && earlier.message == event.message
        };
        self.events.retain(|entry| !is_repetition(entry));
        self.events.push((about.clone(), event));
    }
}

/// The objects of a kind, in order.
pub(super) fn of_kind<'a>(
    objects: &'a BTreeMap<ObjectReference, Object>,
    kind: (&str, &str),
) -> PortResult<impl Iterator<Item = (&'a ObjectReference, &'a Object)>> {
    // No Kubernetes name sorts before this character.
    let first = ObjectReference::new(kind.0, kind.1, "!", None)?;
    let of_kind =
        move |reference: &ObjectReference| (reference.api_version(), reference.kind()) == kind;
    Ok(objects.range(first..).take_while(move |(reference, _)| of_kind(reference)))
}
