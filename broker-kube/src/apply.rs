//! Act: conditional server-side apply, and its dry run.

use broker_ports::{
    Applied, ApplyRequest, DryRun, LiveObject, ObjectVersion, PortError, refuse_foreign_write,
};
use broker_render::FIELD_MANAGER;
use http::Method;
use serde_json::Value;

use crate::call::Detail;
use crate::error::{Cause, Failure, RequestLabel, Verb};
use crate::kinds::ServedKind;
use crate::objects::ObjectClient;
use crate::response::RefusedResponse;

/// JSON is valid YAML, so the body is sent as JSON.
const APPLY_PATCH: &str = "application/apply-patch+yaml";

enum SendOutcome {
    Object(Value),
    /// The version precondition failed.
    Conflict,
    /// The version matched, but the uid did not: another object has the name.
    NameTaken,
}

pub(crate) async fn apply(
    client: &ObjectClient,
    request: &ApplyRequest,
) -> Result<Applied, PortError> {
    refuse_foreign_write(request.project(), request.target(), request.owner())?;
    match send(client, Verb::Apply, request).await? {
        SendOutcome::Conflict => Ok(Applied::Conflict),
        SendOutcome::NameTaken => Ok(Applied::NameTaken),
        SendOutcome::Object(object) => {
            let version = ObjectVersion::of(&object).map_err(|error| {
                let label = RequestLabel::for_object(Verb::Apply, request.target());
                label.failure(Cause::Unreadable, &error.to_string())
            })?;
            Ok(Applied::Done(version))
        }
    }
}

pub(crate) async fn dry_run(
    client: &ObjectClient,
    request: &ApplyRequest,
) -> Result<DryRun, PortError> {
    refuse_foreign_write(request.project(), request.target(), request.owner())?;
    match send(client, Verb::DryRun, request).await? {
        SendOutcome::Conflict | SendOutcome::NameTaken => Ok(DryRun::Conflict),
        SendOutcome::Object(object) => Ok(DryRun::Accepted(LiveObject::from_json(object)?)),
    }
}

async fn send(
    client: &ObjectClient,
    verb: Verb,
    request: &ApplyRequest,
) -> Result<SendOutcome, Failure> {
    let label = RequestLabel::for_object(verb, request.target());
    let served_kind = locate_exact_version(client, &label, request).await?;
    let target = request.target();
    let Some(path) = served_kind.object_path(target.namespace(), target.name()) else {
        let text = "the name is incomplete; a namespaced object needs its namespace";
        return Err(label.failure(Cause::Unaddressable, text));
    };
    // Forced: the broker takes over each field that it sends.
    let mut path = format!("{path}?fieldManager={FIELD_MANAGER}&force=true");
    let detail = if verb == Verb::DryRun {
        path.push_str("&dryRun=All");
        Detail::Whole
    } else {
        Detail::Metadata
    };
    let body = (APPLY_PATCH, request.expose_for_apply());
    let response = client.server().send_body(&label, (Method::PATCH, &path), body, detail).await?;
    match response.into_object(&label)? {
        Ok(object) => Ok(SendOutcome::Object(object)),
        Err(refusal) => classify_refusal(client, &label, request, &served_kind, &refusal).await,
    }
}

/// The endpoint of the kind in exactly the version of the manifest.
async fn locate_exact_version(
    client: &ObjectClient,
    label: &RequestLabel,
    request: &ApplyRequest,
) -> Result<ServedKind, Failure> {
    let target = request.target();
    let kind = (target.api_version(), target.kind());
    match client.kinds().locate(client.server(), kind).await? {
        Some(exact) if exact.api_version() == target.api_version() => Ok(exact),
        Some(other) => {
            let text = format!("the server serves this kind as {} only", other.api_version());
            Err(label.failure(Cause::KindAbsent, &text))
        }
        None => Err(label.failure(Cause::KindAbsent, "the server does not serve this kind")),
    }
}

/// Maps a refusal. Its message may quote the injected token, so the request scrubs it.
async fn classify_refusal(
    client: &ObjectClient,
    label: &RequestLabel,
    request: &ApplyRequest,
    served_kind: &ServedKind,
    refusal: &RefusedResponse,
) -> Result<SendOutcome, Failure> {
    let cause = refusal.cause(served_kind.plural());
    if cause == Cause::Conflict {
        return Ok(SendOutcome::Conflict);
    }
    if matches!(&cause, Cause::Invalid(fields) if fields.iter().any(|field| field == "metadata.uid"))
    {
        return Ok(SendOutcome::NameTaken);
    }
    if cause == Cause::KindAbsent {
        client.kinds().forget((request.target().api_version(), request.target().kind()));
    }
    // A field that the schema does not declare, or declares with another type, gets a bare 500 from server-side
    // apply. The object is at fault if the server reports ready.
    let object_at_fault = cause == Cause::ServerError(500) && is_ready(client).await;
    let cause = if object_at_fault { Cause::UnprocessableObject } else { cause };
    let failure =
        label.failure_with_scrub(cause, refusal.message(), |message| request.scrub(message));
    Err(failure.with_retry_after(refusal.retry_after()))
}

/// Whether the API server reports ready. A refusal such as 403 also proves that it runs.
async fn is_ready(client: &ObjectClient) -> bool {
    let label = RequestLabel::new(Verb::Get, "/readyz");
    match client.server().get(&label, "/readyz", Detail::Whole).await {
        Err(_) => false,
        Ok(response) => match response.into_success() {
            Ok(()) => true,
            Err(refusal) => !matches!(refusal.cause(""), Cause::ServerError(_) | Cause::Throttled),
        },
    }
}
