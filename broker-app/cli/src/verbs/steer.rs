//! What operators do by hand. The answer says what was done, and names what it was done to.

use broker_ports::Resume;
use serde_json::json;

use super::Desk;
use crate::cli::{AbandonArguments, OneArguments, ReleaseBrakeArguments, ResumeEventsArguments};
use crate::failure::Failure;

/// Lets a resource be.
pub(crate) async fn pause(desk: &mut Desk<'_>, arguments: &OneArguments) -> Result<(), Failure> {
    let id = arguments.id;
    desk.service.pause(&desk.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "paused"});
    Ok(desk.output.done(&format!("{id} is paused"), &object)?)
}

/// Takes a paused resource up again.
pub(crate) async fn resume(desk: &mut Desk<'_>, arguments: &OneArguments) -> Result<(), Failure> {
    let id = arguments.id;
    desk.service.resume(&desk.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "resumed"});
    Ok(desk.output.done(&format!("{id} is resumed"), &object)?)
}

/// Has a resource looked at at once.
pub(crate) async fn reconcile_now(
    desk: &mut Desk<'_>,
    arguments: &OneArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    desk.service.reconcile_now(&desk.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "reconcile_requested"});
    Ok(desk.output.done(&format!("{id} is due now"), &object)?)
}

/// Gives up a teardown.
pub(crate) async fn abandon(
    desk: &mut Desk<'_>,
    arguments: &AbandonArguments,
) -> Result<(), Failure> {
    let AbandonArguments { id, reason, .. } = arguments;
    let resource = desk.service.abandon(&desk.context, *id, reason).await?;
    Ok(desk.output.resource(&resource)?)
}

/// Releases the brake of a cluster.
pub(crate) async fn release_brake(
    desk: &mut Desk<'_>,
    arguments: &ReleaseBrakeArguments,
) -> Result<(), Failure> {
    let cluster = &arguments.cluster;
    desk.service.release_brake(&desk.context, cluster).await?;
    let object = json!({"cluster_id": cluster.as_str(), "done": "brake_released"});
    let sentence = format!("the brake of {} is released", cluster.as_str());
    Ok(desk.output.done(&sentence, &object)?)
}

/// Takes up an event that was set aside.
pub(crate) async fn resume_events(
    desk: &mut Desk<'_>,
    arguments: &ResumeEventsArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    let (how, done, verb) = if arguments.skip {
        (Resume::Skip, "events_skipped", "skipped")
    } else {
        (Resume::Retry, "events_resumed", "delivered again")
    };
    let taken_up = desk.service.resume_events(&desk.context, id, how).await?;
    let Some(event) = taken_up else {
        let object = json!({"id": id.to_string(), "done": "nothing_set_aside", "event": null});
        return Ok(desk.output.done(&format!("no event of {id} was set aside"), &object)?);
    };
    let object = json!({
        "id": id.to_string(),
        "done": done,
        "event": {
            "event_id": event.event_id.to_string(),
            "event_type": event.event_type.as_str(),
            "reason": event.reason,
        },
    });
    let (event_type, event_id, reason) = (event.event_type, event.event_id, event.reason);
    let sentence = format!("{event_type} {event_id} is {verb}; it was set aside for: {reason}");
    Ok(desk.output.done(&sentence, &object)?)
}

/// Blanks what people wrote in an audit.
pub(crate) async fn scrub_audit(
    desk: &mut Desk<'_>,
    arguments: &OneArguments,
) -> Result<(), Failure> {
    let id = arguments.id;
    let lines = desk.service.scrub_audit(&desk.context, id).await?;
    let object = json!({"id": id.to_string(), "done": "audit_scrubbed", "lines": lines});
    Ok(desk.output.done(&format!("{lines} lines of the audit of {id} are blank now"), &object)?)
}
