//! A resource for people and for programs.

use broker_domain::{ClusterId, ObjectReference, Phase, ProvisionedResource};
use broker_ports::wire;
use comfy_table::Table;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::plain_table;

/// A resource as JSON. Keys are added, never changed or removed; docs/cli.md lists them.
pub(crate) fn object(resource: &ProvisionedResource) -> Value {
    let failure = resource.failure().map(
        |failure| json!({"step": failure.step().as_str(), "reason": failure.reason().as_str()}),
    );
    let substrate = resource.substrate();
    // Stored as canonical JSON; what is not would have been refused when the row was read.
    let parameters: Value =
        serde_json::from_str(resource.parameters().as_json()).unwrap_or_default();
    json!({
        "id": resource.id().to_string(),
        "project_id": resource.project_id().to_string(),
        "resource_id": resource.resource_id().to_string(),
        "blueprint_version_id": resource.blueprint_version_id().to_string(),
        "cloud_credential_id": resource.cloud_credential_id().to_string(),
        "phase": resource.phase().as_str(),
        "phase_entered_at": wire::rfc3339(resource.phase_entered_at()),
        "at_rest": resource.at_rest(),
        "failure": failure,
        "mesh_role": resource.mesh_role().as_str(),
        "on_failure": resource.on_failure().as_str(),
        "parameters": parameters,
        "bootstrap_token_id": resource.bootstrap_token_id().map(|token| token.to_string()),
        "xr_name": resource.xr_name().as_str(),
        "cluster_id": substrate.cluster().map(ClusterId::as_str),
        "provider_config": substrate.provider_config().map(reference),
        "composed": substrate.composed().iter().map(reference).collect::<Vec<_>>(),
        "created_at": wire::rfc3339(resource.created_at()),
        "updated_at": wire::rfc3339(resource.updated_at()),
        "first_ready_at": resource.first_ready_at().map(wire::rfc3339),
        "deletion_requested_at": resource.deletion_requested_at().map(wire::rfc3339),
        "abandoned": resource.abandoned(),
        "version": resource.version().get(),
    })
}

fn reference(reference: &ObjectReference) -> Value {
    json!({
        "api_version": reference.api_version(),
        "kind": reference.kind(),
        "name": reference.name(),
        "namespace": reference.namespace(),
    })
}

/// Everything that a person wants to know of one resource; what is not there is left out.
pub(super) fn details(resource: &ProvisionedResource) -> Table {
    let mut table = plain_table();
    let mut row = |name: &str, value: String| {
        table.add_row([name.to_owned(), value]);
    };
    row("id", resource.id().to_string());
    let since = wire::rfc3339(resource.phase_entered_at());
    row("phase", format!("{} since {since}", resource.phase()));
    if let Some(failure) = resource.failure() {
        row("failure", format!("in {}: {}", failure.step(), failure.reason()));
    }
    if resource.abandoned() {
        row("abandoned", "nobody proved that everything is gone".to_owned());
    }
    row("project", resource.project_id().to_string());
    row("resource", resource.resource_id().to_string());
    row("blueprint version", resource.blueprint_version_id().to_string());
    row("credential", resource.cloud_credential_id().to_string());
    row("mesh role", resource.mesh_role().to_string());
    row("on failure", resource.on_failure().to_string());
    row("parameters", resource.parameters().as_json().to_owned());
    row("composite resource", resource.xr_name().to_string());
    let substrate = resource.substrate();
    if let Some(cluster) = substrate.cluster() {
        row("cluster", cluster.as_str().to_owned());
    }
    for composed in substrate.composed() {
        row("composed", composed.to_string());
    }
    if let Some(token) = resource.bootstrap_token_id() {
        row("bootstrap token", token.to_string());
    }
    row("created", wire::rfc3339(resource.created_at()));
    row("updated", wire::rfc3339(resource.updated_at()));
    let moments = [
        ("first ready", resource.first_ready_at()),
        ("deletion requested", resource.deletion_requested_at()),
    ];
    for (name, moment) in moments {
        if let Some(moment) = moment {
            row(name, wire::rfc3339(moment));
        }
    }
    row("version", resource.version().to_string());
    table
}

/// One row per resource.
pub(super) fn overview(resources: &[ProvisionedResource]) -> Table {
    let mut table = plain_table();
    table.set_header(["ID", "PROJECT", "PHASE", "SINCE", "ROLE", "NOTE"]);
    for resource in resources {
        table.add_row([
            resource.id().to_string(),
            resource.project_id().to_string(),
            resource.phase().to_string(),
            seconds(resource.phase_entered_at()),
            resource.mesh_role().to_string(),
            note(resource),
        ]);
    }
    table
}

/// One resource in one line.
pub(crate) fn line(resource: &ProvisionedResource) -> String {
    let width = Phase::ALL.map(|phase| phase.as_str().len()).into_iter().max().unwrap_or_default();
    let (id, phase, note) = (resource.id(), resource.phase(), note(resource));
    format!("{id}  {phase:width$}  {note}").trim_end().to_owned()
}

/// What should not be overlooked.
fn note(resource: &ProvisionedResource) -> String {
    match resource.failure() {
        Some(failure) => failure.reason().to_string(),
        None if resource.abandoned() => "abandoned".to_owned(),
        None => String::new(),
    }
}

/// A moment without the fraction of its second.
fn seconds(moment: OffsetDateTime) -> String {
    wire::rfc3339(moment.replace_nanosecond(0).unwrap_or(moment))
}
