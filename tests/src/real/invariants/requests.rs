//! S8 and S14, from the API server's own log: whatever the broker changed there it had looked at before, and it
//! was its own.

use std::collections::BTreeMap;

use broker_domain::{Phase, ProvisionedResource, XrName};

use crate::cluster::AuditedRequest;

/// How an object was looked at last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// By name, and it was there.
    Found,
    /// By name, and it was not.
    Missed,
    /// By name, and nothing was learnt.
    Failed(u16),
}

/// S14: everything that is written is named after a resource and stands in the Project's namespace.
pub(super) fn elsewhere(asked: &[AuditedRequest], home: &str) -> Vec<String> {
    let writes = asked.iter().filter(|request| request.is_write());
    let astray = writes.filter(|request| {
        let own_name = request.name.as_deref().is_some_and(|name| XrName::id_of(name).is_some());
        !own_name || request.namespace.as_deref() != Some(home)
    });
    astray.map(|request| format!("S14: {request:?}")).collect()
}

/// S8: what is made had been looked for by name and not found, or is made for the first time; what is changed or deleted
/// had been seen.
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
            // The first apply of an object that no request named before is its own look: it creates on a free name
            // only, and is refused on a taken one. Anything later needs a look that missed it.
            ("patch", 201) => (Some(Look::Found), matches!(look, None | Some(Look::Missed))),
            ("patch", 200) => (look, look == Some(Look::Found)),
            // An orphan is found by a list, which is no cache.
            ("delete", 200 | 202) => (look, look == Some(Look::Found) || listed.contains(&kind)),
            // Nothing came of it.
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

/// S8: nothing is called Deleted whose objects were not looked for by name, last of all, and not found. Whoever looks
/// afterwards, for orphans, proves nothing about that.
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
    // The name of a ProviderConfig is on record before its first apply: without it there is none.
    let objects = 1 + usize::from(resource.substrate().provider_config().is_some());
    if last.len() < objects {
        objections.push(format!("S8: Deleted, and only {last:?} were looked for"));
    }
    objections
}
