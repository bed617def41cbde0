//! S8 and S14, from the API server's audit log: the broker reads an object before it changes it, and changes
//! only its own objects.

use std::collections::BTreeMap;

use broker_domain::{Phase, ProvisionedResource, XrName};

use crate::cluster::AuditedRequest;

/// The last read of an object by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastRead {
    /// The object existed.
    Found,
    /// The object did not exist.
    Absent,
    /// The read failed with this status.
    Failed(u16),
}

/// S14: every written object is named after a resource, or a shared ProviderConfig, and lies in the Project's namespace.
pub(super) fn foreign_writes(requests: &[AuditedRequest], namespace: &str) -> Vec<String> {
    let writes = requests.iter().filter(|request| request.is_write());
    let foreign = writes.filter(|request| {
        let own_name = request.name.as_deref().is_some_and(|name| XrName::id_of(name).is_some());
        let is_shared_config = request.resource == "providerconfigs";
        !(own_name || is_shared_config) || request.namespace.as_deref() != Some(namespace)
    });
    foreign.map(|request| format!("S14: {request:?}")).collect()
}

/// S8: a created object had been read by name and was absent, or is created for the first time; a
/// changed or deleted object had been read.
pub(super) fn writes_without_read(requests: &[AuditedRequest]) -> Vec<String> {
    let mut last_reads: BTreeMap<(&str, &str), LastRead> = BTreeMap::new();
    let mut listed: Vec<&str> = Vec::new();
    let mut violations = Vec::new();
    for request in requests {
        let kind = request.resource.as_str();
        if request.verb == "list" {
            listed.push(kind);
        }
        let Some(name) = request.name.as_deref() else { continue };
        let last_read = last_reads.get(&(kind, name)).copied();
        let (now, is_allowed) = match (request.verb.as_str(), request.code) {
            ("get", 200) => (Some(LastRead::Found), true),
            ("get", 404) => (Some(LastRead::Absent), true),
            ("get", code) => (Some(LastRead::Failed(code)), true),
            // The first apply of an object needs no earlier read, because it fails if the name is taken. Any
            // later creation needs a read that found no object.
            ("patch", 201) => {
                (Some(LastRead::Found), matches!(last_read, None | Some(LastRead::Absent)))
            }
            ("patch", 200) => (last_read, last_read == Some(LastRead::Found)),
            // An orphan is found by a direct list, which is not cached.
            ("delete", 200 | 202) => {
                (last_read, last_read == Some(LastRead::Found) || listed.contains(&kind))
            }
            // The request had no effect.
            _ => (last_read, true),
        };
        if !is_allowed {
            violations.push(format!("S8: {request:?} after {last_read:?}"));
        }
        if let Some(now) = now {
            last_reads.insert((kind, name), now);
        }
    }
    violations
}

/// S8: before a resource is Deleted, the last read of each of its objects by name found it absent.
/// Later reads by the orphan scan do not count.
pub(super) fn deletions_without_proof(
    requests: &[AuditedRequest],
    resource: &ProvisionedResource,
) -> Vec<String> {
    if resource.phase() != Phase::Deleted || resource.abandoned() {
        return Vec::new();
    }
    let mut last: BTreeMap<&str, u16> = BTreeMap::new();
    let own = requests
        .iter()
        .filter(|request| request.name.as_deref() == Some(resource.xr_name().as_str()));
    let before = own.filter(|request| request.at < resource.phase_entered_at());
    for request in before.filter(|request| request.verb == "get") {
        last.insert(&request.resource, request.code);
    }
    let found = last.iter().filter(|(_, code)| **code != 404);
    let mut violations: Vec<_> = found
        .map(|(kind, code)| {
            format!("S8: Deleted, although the last read of {kind} returned {code}")
        })
        .collect();
    // The name of a ProviderConfig is recorded before its first apply: no record means no object.
    let objects = 1 + usize::from(resource.own_provider_config().is_some());
    if last.len() < objects {
        violations.push(format!("S8: Deleted, and only {last:?} were read"));
    }
    violations
}
