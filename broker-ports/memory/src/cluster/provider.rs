//! Observe: simulates the providers, which create composed objects, report their state and delete them.

use broker_domain::ObjectReference;

use super::behaviour::Behaviour;
use super::crossplane::Part;
use super::state::State;

/// The finalizer that keeps a composed object until its provider has deleted the external resource.
pub(super) const MANAGED_FINALIZER: &str = "finalizer.managedresource.crossplane.io";

const CONTROLLER: &str = "provider";

/// A composed object that a provider manages.
pub(super) struct Managed {
    pub(super) position: u64,
    pub(super) behaviour: Behaviour,
    pub(super) provider_config: String,
    /// The tick at which it was composed.
    pub(super) composed_at: u64,
    /// The tick at which the provider saw its deletion.
    pub(super) deletion_seen_at: Option<u64>,
}

impl State {
    /// Runs one round of the providers over all composed objects.
    pub(super) fn reconcile_managed(&mut self) {
        let managed: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, object)| self.crossplane.managed.contains_key(&object.uid))
            .map(|(reference, object)| (reference.clone(), object.uid.clone()))
            .collect();
        for (reference, uid) in managed {
            self.manage(&reference, &uid);
        }
    }

    fn manage(&mut self, reference: &ObjectReference, uid: &str) {
        let tick = self.crossplane.tick;
        let Some(object) = self.objects.get(reference) else { return };
        let deleting = object.deleting.is_some();
        let Some(managed) = self.crossplane.managed.get_mut(uid) else { return };
        if deleting {
            managed.deletion_seen_at.get_or_insert(tick);
        }
        let Managed { position, behaviour, provider_config, composed_at, deletion_seen_at } =
            &*managed;
        let (age, deletion_seen_at) = (tick - composed_at, *deletion_seen_at);
        let ready = behaviour.outcome.ready(*position, age);
        let finalized =
            deletion_seen_at.is_some_and(|since| tick - since >= behaviour.finalize_after);
        let problem = behaviour.outcome.provider_error().filter(|_| !deleting).map(str::to_owned);
        let required_config = behaviour.needs_provider_config.then(|| provider_config.clone());
        let problem =
            problem.or_else(|| self.missing_provider_config(reference, &required_config?));
        if let Some(message) = &problem {
            let unsynced = ("Synced", "False", "ReconcileError", message.as_str());
            let unready = ("Ready", "False", if deleting { "Deleting" } else { "Creating" }, "");
            self.set_conditions(reference, CONTROLLER, &[unready, unsynced]);
        } else if finalized {
            self.remove_finalizer(reference, MANAGED_FINALIZER);
        } else {
            // A provider adds its finalizer before it creates anything.
            if !deleting {
                self.change(reference, |object| {
                    if !object.finalizers.iter().any(|present| present == MANAGED_FINALIZER) {
                        object.finalizers.push(MANAGED_FINALIZER.to_owned());
                    }
                });
            }
            let was_ready = self
                .objects
                .get(reference)
                .is_some_and(|object| object.condition("Ready").is_some());
            let ready = match (deleting, ready) {
                (true, _) => Some(("Ready", "False", "Deleting", "")),
                (false, true) => Some(("Ready", "True", "Available", "")),
                (false, false) if was_ready => Some(("Ready", "False", "Unavailable", "")),
                // An object that was never ready has no Ready condition.
                (false, false) => None,
            };
            let synced = Some(("Synced", "True", "ReconcileSuccess", ""));
            let conditions: Vec<_> = [ready, synced].into_iter().flatten().collect();
            self.set_conditions(reference, CONTROLLER, &conditions);
        }
    }

    fn missing_provider_config(&self, composed: &ObjectReference, name: &str) -> Option<String> {
        let exists = self.objects.iter().any(|(reference, object)| {
            reference.name() == name
                && object.is_ours()
                && self.kind(reference).is_some_and(|kind| kind.xrd.is_none())
                && reference
                    .namespace()
                    .is_none_or(|namespace| composed.namespace() == Some(namespace))
        });
        (!exists).then(|| format!("connect failed: cannot get ProviderConfig: {name:?} not found"))
    }

    /// Whether later ticks alone will change something.
    pub(super) fn is_waiting(&self) -> bool {
        if self.crossplane.stopped.contains(&Part::Provider) {
            return false;
        }
        let tick = self.crossplane.tick;
        self.objects.values().any(|object| {
            self.crossplane.managed.get(&object.uid).is_some_and(|managed| {
                let Managed { position, behaviour, composed_at, deletion_seen_at, .. } = managed;
                match deletion_seen_at {
                    Some(since) => tick - since < behaviour.finalize_after,
                    None => behaviour.outcome.is_pending(*position, tick - composed_at),
                }
            })
        })
    }
}
