//! A resource in human format: details, table row and single line.

use broker_domain::{Phase, ProvisionedResource};
use broker_ports::wire;
use comfy_table::Table;
use time::OffsetDateTime;

use super::plain_table;

/// All fields of a resource, without the absent ones.
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
        row("abandoned", "without proof that its objects are deleted".to_owned());
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
    let times = [
        ("first ready", resource.first_ready_at()),
        ("deletion requested", resource.deletion_requested_at()),
    ];
    for (name, time) in times {
        if let Some(time) = time {
            row(name, wire::rfc3339(time));
        }
    }
    row("version", resource.version().to_string());
    table
}

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

pub(crate) fn line(resource: &ProvisionedResource) -> String {
    let width = Phase::ALL.map(|phase| phase.as_str().len()).into_iter().max().unwrap_or_default();
    let (id, phase, note) = (resource.id(), resource.phase(), note(resource));
    format!("{id}  {phase:width$}  {note}").trim_end().to_owned()
}

/// The failure reason, or `abandoned`.
fn note(resource: &ProvisionedResource) -> String {
    match resource.failure() {
        Some(failure) => failure.reason().to_string(),
        None if resource.abandoned() => "abandoned".to_owned(),
        None => String::new(),
    }
}

/// A time without its fraction of a second.
fn seconds(moment: OffsetDateTime) -> String {
    wire::rfc3339(moment.replace_nanosecond(0).unwrap_or(moment))
}
