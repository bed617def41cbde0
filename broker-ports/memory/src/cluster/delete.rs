//! Act: deletion, finalizers, and the garbage collector.

use std::collections::BTreeSet;

use broker_domain::ObjectReference;

use super::object::Object;
use super::state::{Caller, Namespace, State, Verb};
use crate::PortResult;
use broker_ports::{DeleteRequest, Deleted, FOREGROUND};

/// How a deletion treats the dependents of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Propagation {
    /// The object waits for its dependents.
    Foreground,
    /// The dependents are collected after the object.
    Background,
}

impl State {
    pub(super) fn delete(
        &mut self,
        caller: &Caller,
        request: &DeleteRequest<'_>,
    ) -> PortResult<Deleted> {
        let DeleteRequest { project: _, target, uid, .. } = *request;
        self.request(caller, Verb::Delete, (target.api_version(), target.kind()), target)?;
        let Some(object) = self.objects.get(target) else { return Ok(Deleted::Gone) };
        if object.uid != uid {
            return Ok(Deleted::Replaced);
        }
        if let Some(message) = self.deletion_vetoes.get(target) {
            return Ok(Deleted::Vetoed { message: message.clone() });
        }
        self.begin_deletion(target, Propagation::Foreground);
        Ok(Deleted::Accepted)
    }

    /// Marks an object as being deleted, or removes it if it has no finalizer. The last request decides whether the
    /// object waits for its dependents.
    pub(super) fn begin_deletion(&mut self, target: &ObjectReference, propagation: Propagation) {
        let now = self.clock.now();
        self.change(target, |object| {
            if object.deleting.is_none() {
                object.deleting = Some(now);
                // The API server counts this as a spec change.
                object.generation += 1;
            }
            let is_foreground = object.finalizers.iter().any(|finalizer| finalizer == FOREGROUND);
            match propagation {
                Propagation::Foreground if is_foreground => {}
                Propagation::Foreground => object.finalizers.push(FOREGROUND.to_owned()),
                Propagation::Background => {
                    object.finalizers.retain(|present| present != FOREGROUND);
                }
            }
        });
    }

    /// One round of the garbage collector. It also finishes deleted kinds and namespaces.
    pub(super) fn collect_garbage(&mut self) {
        self.delete_dependents();
        self.release_owners();
        self.finish_kinds();
        self.finish_namespaces();
    }

    /// Deletes dependents without an owner, and those whose owner is deleted in the foreground.
    fn delete_dependents(&mut self) {
        let living: BTreeSet<_> = self.objects.values().map(|object| object.uid.as_str()).collect();
        let leaving_owners =
            self.objects.values().filter(|object| is_deleted_in_foreground(object));
        let leaving_owners: BTreeSet<_> =
            leaving_owners.map(|object| object.uid.as_str()).collect();
        let is_garbage = |object: &Object| {
            let mut owners = object.owner_uids().peekable();
            let orphaned = owners.peek().is_some() && owners.all(|owner| !living.contains(owner));
            orphaned || object.owner_uids().any(|owner| leaving_owners.contains(owner))
        };
        let dependents: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, object)| object.deleting.is_none() && is_garbage(object))
            .map(|(reference, _)| reference.clone())
            .collect();
        for reference in dependents {
            self.begin_deletion(&reference, Propagation::Background);
        }
    }

    /// Releases an owner once no blocking dependent is left.
    fn release_owners(&mut self) {
        let is_blocked =
            |owner: &Object| self.objects.values().any(|object| object.blocks(&owner.uid));
        let unblocked: Vec<_> = self
            .objects
            .iter()
            .filter(|(_, owner)| is_deleted_in_foreground(owner) && !is_blocked(owner))
            .map(|(reference, _)| reference.clone())
            .collect();
        for reference in unblocked {
            self.remove_finalizer(&reference, FOREGROUND);
        }
    }

    pub(super) fn remove_finalizer(&mut self, reference: &ObjectReference, finalizer: &str) {
        self.change(reference, |object| object.finalizers.retain(|present| present != finalizer));
    }

    /// Removes a deleted kind after its last object.
    pub(super) fn finish_kinds(&mut self) {
        let used: BTreeSet<_> = self
            .objects
            .keys()
            .map(|object| (object.api_version().to_owned(), object.kind().to_owned()))
            .collect();
        self.kinds.retain(|name, kind| !kind.terminating || used.contains(name));
    }

    /// Removes a deleted namespace after its last object.
    pub(super) fn finish_namespaces(&mut self) {
        let used: BTreeSet<_> =
            self.objects.keys().filter_map(ObjectReference::namespace).collect();
        self.namespaces
            .retain(|name, state| *state == Namespace::Active || used.contains(name.as_str()));
    }
}

fn is_deleted_in_foreground(object: &Object) -> bool {
    object.deleting.is_some() && object.finalizers.iter().any(|present| present == FOREGROUND)
}
