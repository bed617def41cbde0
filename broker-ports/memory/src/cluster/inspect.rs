//! Observe: inspections. Each part of an inspection has its own result or error.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use broker_domain::ObjectReference;
use broker_render::{injected, scrub};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::read::NAMESPACE_KIND;
use super::state::{Caller, Namespace, State, Verb};
use crate::PortResult;
use broker_ports::{
    ClusterEvent, Inspected, Inspection, NamespaceState, ObjectReport, PortError, Target,
};

impl State {
    pub(super) fn inspect(&mut self, caller: &Caller, target: &Target) -> PortResult<Inspection> {
        if self.unreachable {
            return Err(PortError::transient("inspect: connection refused"));
        }
        let reference = target.xr.reference()?;
        let live = self.live(caller, &reference);
        let secrets = live.as_ref().ok().and_then(Option::as_ref).map(injected).unwrap_or_default();
        let names = self.composed_names(caller, target, &reference);
        let report = |found: Inspected<Option<Value>>| {
            found?.map(|json| ObjectReport::of(&json, &secrets)).transpose()
        };
        let mut inspection = Inspection::new();
        inspection.cluster = self.identify(caller);
        inspection.namespace = self.namespace_state(caller, target);
        inspection.kind_installed =
            self.get(caller, &reference).map(drop).map(|()| self.kind(&reference).is_some());
        inspection.xr = live.and_then(|live| {
            let scope = target.xr.xrd.scope();
            let report = |json| ObjectReport::of_composite(&json, scope, &secrets);
            live.map(report).transpose()
        });
        inspection.provider_config = match &target.provider_config {
            Some(config) => report(self.live(caller, config)),
            None => Ok(None),
        };
        inspection.composed = names
            .into_iter()
            .map(|name| {
                let found = report(self.live(caller, &name));
                (name, found)
            })
            .collect();
        inspection.events = self.events_about(caller, &reference, &secrets);
        Ok(inspection)
    }

    fn live(&mut self, caller: &Caller, reference: &ObjectReference) -> Inspected<Option<Value>> {
        let found = self.get(caller, reference)?;
        Ok(found.map(|object| object.to_json(reference)))
    }

    /// The composed objects that are recorded, referenced or labelled; a source that fails adds none.
    fn composed_names(
        &mut self,
        caller: &Caller,
        target: &Target,
        xr: &ObjectReference,
    ) -> BTreeSet<ObjectReference> {
        let mut names = target.recorded.clone();
        if let Ok(Some(json)) = self.live(caller, xr) {
            names.extend(broker_render::references(&json, target.xr.xrd.scope()));
        }
        names.extend(self.labelled(caller, target).unwrap_or_default());
        names.retain(|name| target.provider_config.as_ref() != Some(name) && !name.is_plain_data());
        names
    }

    fn namespace_state(&mut self, caller: &Caller, target: &Target) -> Inspected<NamespaceState> {
        let namespace = broker_render::namespace(target.xr.project);
        let what = format!("Namespace {namespace}");
        self.request(caller, Verb::Get, NAMESPACE_KIND, &what)?;
        Ok(match self.namespaces.get(namespace.as_str()) {
            Some(Namespace::Active) => NamespaceState::Active,
            Some(Namespace::Terminating) => NamespaceState::Terminating,
            None => NamespaceState::Absent,
        })
    }

    fn events_about(
        &mut self,
        caller: &Caller,
        about: &ObjectReference,
        secrets: &[SecretString],
    ) -> Inspected<Vec<ClusterEvent>> {
        self.request(caller, Verb::List, ("events.k8s.io/v1", "Event"), about)?;
        let secrets: Vec<_> = secrets.iter().map(ExposeSecret::expose_secret).collect();
        let events = self.events.iter().rev().filter(|(reference, _)| reference == about);
        let mut events: Vec<_> = events
            .map(|(_, event)| {
                let mut event = event.clone();
                event.reason = scrub(&event.reason, &secrets);
                event.message = scrub(&event.message, &secrets);
                event
            })
            .collect();
        events.sort_by_key(|event| Reverse(event.at));
        Ok(events)
    }
}
