//! S6, S7 and S10: the objects on the cluster, and the owners of their fields.

use broker_domain::{Phase, ProvisionedResource};
use broker_render::{ARMED_ANNOTATION, FIELD_MANAGER};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::real::crossplane::NOTE_ANNOTATION;

/// The paths of the broker's fields in a composite resource or a ProviderConfig.
const BROKER_FIELDS: [&str; 10] = [
    "f:metadata/f:labels/f:app.kubernetes.io/managed-by",
    "f:metadata/f:labels/f:plexsphere.io/",
    "f:metadata/f:annotations/f:plexsphere.io/",
    "f:metadata/f:annotations/f:crossplane.io/paused",
    "f:spec/f:crossplane/f:compositionRef",
    "f:spec/f:parameters",
    "f:spec/f:userData",
    "f:spec/f:cloudTags",
    "f:spec/f:endpoint",
    "f:spec/f:credentials",
];

pub(super) fn violations(
    resource: &ProvisionedResource,
    existing: &[DynamicObject],
) -> Vec<String> {
    let name = resource.xr_name().to_string();
    let own: Vec<_> = existing.iter().filter(|object| object.name_any().contains(&name)).collect();
    let of_kind = |kind: &str| own.iter().filter(|object| kind_of(object) == kind).count();
    let (configs, parts) = (of_kind("ProviderConfig"), of_kind("Part"));
    let composites = own.len() - configs - parts;
    let mut violations = count_violations(resource, (configs, composites, parts));
    let ours = own.iter().filter(|object| kind_of(object) != "Part");
    violations.extend(ours.flat_map(|object| field_violations(object)));
    violations
}

/// S6, S7: at most one object of each kind per resource, and none for a Deleted resource.
fn count_violations(
    resource: &ProvisionedResource,
    existing @ (configs, composites, _): (usize, usize, usize),
) -> Vec<String> {
    let words = format!("ProviderConfigs, composite resources and composed objects: {existing:?}");
    if configs > 1 || composites > 1 {
        return vec![format!("S6: {words}")];
    }
    let own_config = usize::from(resource.own_provider_config().is_some());
    match resource.phase() {
        Phase::Ready if existing != (own_config, 1, 1) => {
            vec![format!("Ready without its objects: {words}")]
        }
        Phase::Deleted if !resource.abandoned() && existing != (0, 0, 0) => {
            vec![format!("S7: {words}")]
        }
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Ready
        | Phase::Failed
        | Phase::Deregistering
        | Phase::Deprovisioning
        | Phase::Deleted => Vec::new(),
    }
}

/// S10: the broker owns only its own fields, and a team's field is unchanged.
fn field_violations(object: &DynamicObject) -> Vec<String> {
    let mut violations = Vec::new();
    let managed = object.managed_fields().iter();
    let by_us = managed.filter(|entry| entry.manager.as_deref() == Some(FIELD_MANAGER));
    for fields in by_us.filter_map(|entry| entry.fields_v1.as_ref()) {
        let mut paths = Vec::new();
        leaf_paths(&fields.0, "", &mut paths);
        // A spec without declared fields is empty, and still ours.
        paths.retain(|path| path != "f:spec");
        let foreign =
            paths.into_iter().filter(|path| !BROKER_FIELDS.iter().any(|own| path.starts_with(own)));
        violations.extend(foreign.map(|path| format!("S10: the broker took {path} over")));
    }
    let refers = object.data.pointer("/spec/crossplane/resourceRefs").is_some();
    let armed = object.annotations().contains_key(ARMED_ANNOTATION);
    // The note is written one request after the reference; a turn may be cut off in between.
    if let Some(note) = object.annotations().get(NOTE_ANNOTATION)
        && Some(note) != object.uid().as_ref()
    {
        violations.push(format!("S10: the team's note says {note}"));
    }
    if object.data.pointer("/status/conditions").is_some() && armed {
        if !refers {
            violations.push("S10: Crossplane's references were removed".to_owned());
        }
        if !object.annotations().contains_key(NOTE_ANNOTATION) {
            violations.push("S10: the team's note was removed".to_owned());
        }
    }
    violations
}

/// Every leaf path of a field set.
fn leaf_paths(fields: &Value, at: &str, found: &mut Vec<String>) {
    let below = fields.as_object().filter(|fields| !fields.is_empty());
    let Some(below) = below else {
        found.push(at.to_owned());
        return;
    };
    for (field, deeper) in below.iter().filter(|(field, _)| *field != ".") {
        let path = if at.is_empty() { field.clone() } else { format!("{at}/{field}") };
        leaf_paths(deeper, &path, found);
    }
}

fn kind_of(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}
