//! Operator commands. Each output names the operation and its target.

use broker_domain::ProvisionedResourceId;
use broker_ports::{DeadLetter, Redrive};
use serde_json::{Map, Value, json};

use super::CommandContext;
use crate::cli::{AbandonArguments, RedriveEventsArguments, ResourceArguments};
use crate::failure::Failure;

pub(crate) async fn pause(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    context.service.pause(&context.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "paused"});
    Ok(context.output.done(&format!("{id} is paused"), &object)?)
}

pub(crate) async fn resume(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    context.service.resume(&context.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "resumed"});
    Ok(context.output.done(&format!("{id} is resumed"), &object)?)
}

pub(crate) async fn reconcile_now(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    context.service.reconcile_now(&context.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "reconcile_requested"});
    Ok(context.output.done(&format!("{id} is due now"), &object)?)
}

pub(crate) async fn abandon(
    context: &mut CommandContext<'_>,
    arguments: &AbandonArguments,
) -> Result<(), Failure> {
    let AbandonArguments { id, reason, .. } = arguments;
    let resource = context.service.abandon(&context.context, *id, reason).await?;
    Ok(context.output.resource(&resource)?)
}

pub(crate) async fn retry(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let resource = context.service.retry(&context.context, arguments.id).await?;
    Ok(context.output.resource(&resource)?)
}

/// Redrives or skips dead-lettered events.
pub(crate) async fn redrive_events(
    context: &mut CommandContext<'_>,
    arguments: &RedriveEventsArguments,
) -> Result<(), Failure> {
    let (mode, done, participle) = if arguments.skip {
        (Redrive::Skip, "events_skipped", "skipped")
    } else {
        (Redrive::Retry, "events_redriven", "delivered again")
    };
    let Some(id) = arguments.id else {
        let redriven =
            context.service.redrive_all_events(&context.context, arguments.project, mode);
        let redriven = redriven.await?;
        let events: Vec<_> = redriven
            .iter()
            .map(|redriven| event_object(redriven.resource, &redriven.event))
            .collect();
        let sentence = format!("events {participle}: {}", events.len());
        return Ok(context.output.done(&sentence, &json!({"done": done, "events": events}))?);
    };
    let redriven = context.service.redrive_events(&context.context, id, mode).await?;
    let Some(event) = redriven else {
        let object = json!({"id": id.to_string(), "done": "no_dead_letter", "event": null});
        return Ok(context.output.done(&format!("{id} has no dead-lettered event"), &object)?);
    };
    let mut event_json = event_object(id, &event);
    event_json.remove("id");
    let object = json!({"id": id.to_string(), "done": done, "event": event_json});
    let (event_type, event_id, reason) = (event.event_type, event.event_id, event.reason);
    let sentence =
        format!("{event_type} {event_id} is {participle}; it was dead-lettered for: {reason}");
    Ok(context.output.done(&sentence, &object)?)
}

/// A dead-lettered event and its resource, as JSON.
fn event_object(resource: ProvisionedResourceId, event: &DeadLetter) -> Map<String, Value> {
    let DeadLetter { event_id, event_type, reason, .. } = event;
    Map::from_iter([
        ("id".to_owned(), resource.to_string().into()),
        ("event_id".to_owned(), event_id.to_string().into()),
        ("event_type".to_owned(), event_type.as_str().into()),
        ("reason".to_owned(), reason.as_str().into()),
    ])
}

pub(crate) async fn scrub_audit(
    context: &mut CommandContext<'_>,
    arguments: &ResourceArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    let lines = context.service.scrub_audit(&context.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "audit_scrubbed", "lines": lines});
    Ok(context.output.done(&format!("erased the text of {lines} audit lines of {id}"), &object)?)
}
