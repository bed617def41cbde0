//! `history`: the audit of a resource, oldest entry first.

use broker_domain::Phase;
use broker_ports::{AuditRecord, LeaseEpoch, wire};
use serde_json::{Value, json};

use super::CommandContext;
use crate::cli::ResourceArguments;
use crate::failure::Failure;

const HEADINGS: [&str; 7] = ["AT", "ACTION", "PHASE", "VERSION", "ACTOR", "CORRELATION ID", "TEXT"];

pub(crate) async fn history(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let lines = context.service.history(&context.context, arguments.id).await?;
    let rows: Vec<_> = lines.iter().map(row).collect();
    let objects: Vec<_> = lines.iter().map(object).collect();
    let object = json!({"id": arguments.id.to_string(), "history": objects});
    Ok(context.output.rows(&HEADINGS, &rows, &object)?)
}

fn row(line: &AuditRecord) -> Vec<String> {
    let entry = &line.entry;
    let phase = match (entry.previous_phase, entry.new_phase) {
        (Some(from), Some(to)) if from != to => format!("{from} -> {to}"),
        (_, Some(phase)) | (Some(phase), None) => phase.to_string(),
        (None, None) => String::new(),
    };
    vec![
        wire::rfc3339(line.at),
        entry.action.to_string(),
        phase,
        line.version.map(|version| version.to_string()).unwrap_or_default(),
        entry.attribution.actor.to_string(),
        entry.attribution.correlation_id.to_string(),
        entry.event_data.clone().unwrap_or_default(),
    ]
}

fn object(line: &AuditRecord) -> Value {
    let entry = &line.entry;
    json!({
        "sequence": line.sequence,
        "at": wire::rfc3339(line.at),
        "project_id": entry.project.map(|project| project.to_string()),
        "action": entry.action.as_str(),
        "actor": entry.attribution.actor.as_str(),
        "correlation_id": entry.attribution.correlation_id.as_str(),
        "previous_phase": entry.previous_phase.map(Phase::as_str),
        "new_phase": entry.new_phase.map(Phase::as_str),
        "failed_step": entry.failed_step.map(Phase::as_str),
        "version": line.version.map(broker_domain::Version::get),
        "epoch": line.epoch.map(LeaseEpoch::get),
        "text": entry.event_data,
    })
}
