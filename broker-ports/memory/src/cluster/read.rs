//! Observe: readings, cached observations and paged listings.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ClusterId, ObjectReference};

use super::crossplane::COMPOSITE_LABEL;
use super::object::Object;
use super::state::{Caller, State, Verb, of_kind};
use crate::PortResult;
use broker_ports::{
    CachedXr, ConfigPresence, LiveObject, LiveXr, OwnedObject, OwnedPage, OwnedQuery, OwnedRole,
    PortError, Presence, Reading, Refusal, Target, XrReading, XrTarget,
};

pub(super) const NAMESPACE_KIND: (&str, &str) = ("v1", "Namespace");

impl State {
    pub(super) fn identify(&mut self, caller: &Caller) -> PortResult<ClusterId> {
        self.request(caller, Verb::Get, NAMESPACE_KIND, &"Namespace kube-system")?;
        Ok(self.identity.clone())
    }

    pub(super) fn read(&mut self, caller: &Caller, target: &Target) -> PortResult<Reading> {
        let cluster = self.identify(caller)?;
        let xr = self.read_xr(caller, &target.xr)?;
        let provider_config = match &target.provider_config {
            Some(reference) => self.get(caller, reference)?.map(|object| object.to_json(reference)),
            None => None,
        };
        let provider_config = provider_config.map(LiveObject::from_json).transpose()?;
        let mut recorded = BTreeMap::new();
        for reference in &target.recorded {
            let exists = self.get(caller, reference)?.is_some();
            let presence = if exists { Presence::Present } else { Presence::Gone };
            recorded.insert(reference.clone(), presence);
        }
        let labelled = self.labelled(caller, target)?;
        Ok(Reading::new(cluster, xr, provider_config, recorded, labelled))
    }

    fn read_xr(&mut self, caller: &Caller, target: &XrTarget) -> PortResult<XrReading> {
        let reference = target.reference()?;
        if let Some(object) = self.get(caller, &reference)? {
            let xr = LiveXr::from_json(object.to_json(&reference), target.xrd.scope())?;
            return Ok(XrReading::Present(Box::new(xr)));
        }
        if self.kind(&reference).is_none() {
            return Ok(XrReading::KindAbsent);
        }
        // A missing object and a missing namespace give the same response, so a second request distinguishes them.
        let Some(namespace) = reference.namespace() else { return Ok(XrReading::Absent) };
        let what = format!("Namespace {namespace}");
        self.request(caller, Verb::Get, NAMESPACE_KIND, &what)?;
        let namespace_exists = self.namespaces.contains_key(namespace);
        Ok(if namespace_exists { XrReading::Absent } else { XrReading::NamespaceAbsent })
    }

    /// The objects among the blueprint's composed kinds that carry a resource's composite label.
    pub(super) fn labelled(
        &mut self,
        caller: &Caller,
        target: &Target,
    ) -> PortResult<BTreeSet<ObjectReference>> {
        let name = target.xr.resource.xr_name();
        let xr = target.xr.reference()?;
        let mut found = BTreeSet::new();
        for kind in target.composed_kinds.iter() {
            let objects = self.list(caller, (&kind.api_version, &kind.kind))?;
            let ours = objects
                .filter(|(_, object)| object.label(COMPOSITE_LABEL) == Some(name.as_str()))
                .filter(|(reference, _)| {
                    xr.namespace().is_none_or(|namespace| reference.namespace() == Some(namespace))
                });
            found.extend(ours.map(|(reference, _)| reference.clone()));
        }
        Ok(found)
    }

    /// The cached view, without a request. A kind that the caller may not list is not cached.
    pub(super) fn observe(&self, caller: &Caller, target: &XrTarget) -> PortResult<CachedXr> {
        let reference = target.reference()?;
        self.check_list_right(caller, &reference)?;
        let Some(object) = self.cached(&reference) else { return Ok(CachedXr::Absent) };
        let config = match target.config_reference() {
            Some(config) if self.check_list_right(caller, &config).is_ok() => {
                match self.cached(&config) {
                    Some(_) => ConfigPresence::Present,
                    None => ConfigPresence::Missing,
                }
            }
            Some(_) | None => ConfigPresence::Unknown,
        };
        Ok(CachedXr::of(&object.to_json(&reference), target.xrd.scope())?.with_config(config))
    }

    /// The cache's copy of an object.
    fn cached(&self, reference: &ObjectReference) -> Option<&Object> {
        let object = self.watch.frozen.as_ref().unwrap_or(&self.objects).get(reference)?;
        (object.is_ours() && !self.watch.hidden.contains(reference)).then_some(object)
    }

    fn check_list_right(&self, caller: &Caller, reference: &ObjectReference) -> PortResult<()> {
        let kind = (reference.api_version().to_owned(), reference.kind().to_owned());
        let lacks_right = caller.as_ref().is_some_and(|rights| !rights.contains(&kind));
        if lacks_right || self.forbidden.contains(&(Verb::List, kind.1.clone())) {
            let (api_version, kind) = kind;
            let error = PortError::rejected(format!("list {kind} ({api_version}): forbidden"));
            return Err(error.with_refusal(Refusal::Forbidden));
        }
        Ok(())
    }

    pub(super) fn list_owned(
        &mut self,
        caller: &Caller,
        query: &OwnedQuery,
    ) -> PortResult<OwnedPage> {
        let after = query.after.as_deref().map(decode_cursor).transpose()?;
        let xrds = query.kinds.xrds.iter();
        let xrds = xrds.map(|xrd| (OwnedRole::Xr, (xrd.api_version(), xrd.kind().to_owned())));
        let configs = query.kinds.provider_configs.iter();
        let configs = configs.map(|kind| (OwnedRole::ProviderConfig, kind.clone()));
        let mut objects = BTreeMap::new();
        for (role, (api_version, kind)) in xrds.chain(configs) {
            let kind = (api_version.as_str(), kind.as_str());
            // A caller without the right to list cannot watch either.
            drop(self.list(caller, kind)?);
            let cached = of_kind(self.watch.frozen.as_ref().unwrap_or(&self.objects), kind)?;
            let ours = cached.filter(|(reference, object)| {
                object.is_ours() && !self.watch.hidden.contains(reference)
            });
            objects.extend(ours.map(|(reference, object)| {
                let owned = OwnedObject::new(reference.clone(), object.uid.clone(), role);
                let is_deleting = object.deleting.is_some();
                (reference.clone(), if is_deleting { owned.being_deleted() } else { owned })
            }));
        }
        let mut page: Vec<_> = objects
            .into_values()
            .filter(|object| object.resource.is_none_or(|id| !query.except.contains(&id)))
            .filter(|object| after.as_ref().is_none_or(|after| object.reference > *after))
            .collect();
        let more = page.len() > self.page_size;
        page.truncate(self.page_size);
        let next = page.last().filter(|_| more).map(|last| encode_cursor(&last.reference));
        Ok(OwnedPage::new(page, next))
    }
}

/// The page cursor after an object.
fn encode_cursor(last: &ObjectReference) -> String {
    let parts = (last.api_version(), last.kind(), last.name(), last.namespace());
    serde_json::to_string(&parts).unwrap_or_default()
}

fn decode_cursor(text: &str) -> PortResult<ObjectReference> {
    let parts: (String, String, String, Option<String>) =
        serde_json::from_str(text).map_err(|_| {
            PortError::rejected("the page cursor is unknown; start from the first page")
        })?;
    let (api_version, kind, name, namespace) = parts;
    Ok(ObjectReference::new(api_version, kind, name, namespace.as_deref())?)
}
