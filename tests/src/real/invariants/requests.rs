//! S8 and S14, from the API server's own log: the broker has read every object before it changed
//! it, and the object was its own.

use std::collections::BTreeMap;

use broker_domain::{Phase, ProvisionedResource, XrName};

use crate::cluster::AuditedRequest;

/// The last read of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// By name: the object existed.
    Found,
    /// By name: the object did not exist.
    Missed,
    /// By name, without a result.
    Failed(u16),
}

/// S14: every written object is named after a resource and lies in the Project's namespace.
pub(super) fn elsewhere(asked: &[AuditedRequest], home: &str) -> Vec<String> {
    let writes = asked.iter().filter(|request| request.is_write());
    let astray = writes.filter(|request| {
        let own_name = request.name.as_deref().is_some_and(|name| XrName::id_of(name).is_some());
        !own_name || request.namespace.as_deref() != Some(home)
    });
    astray.map(|request| format!("S14: {request:?}")).collect()
}

/// S8: a created object had been read by name and was absent, or is created for the first time; a
/// changed or deleted object had been read.
pub(super) fn unfounded(asked: &[AuditedRequest]) -> Vec<String> {
    let mut looks: BTreeMap<(&str, &str), Look> = BTreeMap::new();
    let mut listed: Vec<&str> = Vec::new();
    let mut objections = Vec::new();
    for request in asked {
        let kind = request.resource.as_str();
        if request.verb == "list" {
            listed.push(kind);
        }
        let Some(name) = request.name.as_deref() else { continue };
        let look = looks.get(&(kind, name)).copied();
        let (now, founded) = match (request.verb.as_str(), request.code) {
            ("get", 200) => (Some(Look::Found), true),
            ("get", 404) => (Some(Look::Missed), true),
            ("get", code) => (Some(Look::Failed(code)), true),
            // The first apply of an object needs no earlier read: it creates under a free name
            // only, and fails on a taken one. Any later creation needs a read that missed it.
            ("patch", 201) => (Some(Look::Found), matches!(look, None | Some(Look::Missed))),
            ("patch", 200) => (look, look == Some(Look::Found)),
            // An orphan is found by a direct list, which is not cached.
            ("delete", 200 | 202) => (look, look == Some(Look::Found) || listed.contains(&kind)),
            // The request had no effect.
            _ => (look, true),
        };
        if !founded {
            objections.push(format!("S8: {request:?} after {look:?}"));
        }
        if let Some(now) = now {
            looks.insert((kind, name), now);
        }
    }
    objections
}

/// S8: before a resource is Deleted, the last read of each of its objects by name found it absent.
/// Later reads by the orphan scan do not count.
pub(super) fn unproven(asked: &[AuditedRequest], resource: &ProvisionedResource) -> Vec<String> {
    if resource.phase() != Phase::Deleted || resource.abandoned() {
        return Vec::new();
    }
    let mut last: BTreeMap<&str, u16> = BTreeMap::new();
    let own = asked.iter().filter(|it| it.name.as_deref() == Some(resource.xr_name().as_str()));
    let before = own.filter(|request| request.at < resource.phase_entered_at());
    for request in before.filter(|request| request.verb == "get") {
        last.insert(&request.resource, request.code);
    }
    let found = last.iter().filter(|(_, code)| **code != 404);
    let mut objections: Vec<_> =
        found.map(|(kind, code)| format!("S8: Deleted, and {kind} answered {code}")).collect();
    // The name of a ProviderConfig is recorded before its first apply: no record means no object.
    let objects = 1 + usize::from(resource.substrate().provider_config().is_some());
    if last.len() < objects {
        objections.push(format!("S8: Deleted, and only {last:?} were read"));
    }
    objections
}
