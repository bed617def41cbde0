//! Act: foreground deletion of one object, guarded by its uid.

use broker_ports::{DeleteRequest, Deleted, PortError, refuse_foreign_write};
use broker_render::scrub;
use http::Method;
use serde_json::json;

use crate::call::Detail;
use crate::error::{Cause, RequestLabel, Verb};
use crate::objects::Objects;

/// Deletes an object at the endpoint that serves its kind now.
pub(crate) async fn delete(
    objects: &Objects,
    request: &DeleteRequest<'_>,
) -> Result<Deleted, PortError> {
    let DeleteRequest { project, target, uid, .. } = *request;
    refuse_foreign_write(project, target)?;
    let asked = RequestLabel::of(Verb::Delete, target);
    let kind = (target.api_version(), target.kind());
    let Some(mut served) = objects.kinds().locate(objects.server(), kind).await? else {
        return Ok(Deleted::Gone);
    };
    // Background deletion would remove the object while its composed objects still exist.
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": "Foreground", "preconditions": {"uid": uid},
    });
    for _ in 0..2 {
        let Some(path) = served.object(target.namespace(), target.name()) else {
            let text = "the name is incomplete; a namespaced object needs its namespace";
            return Err(asked.failed(Cause::Unaddressable, text).into());
        };
        let body = ("application/json", options.to_string().into_bytes());
        let sent = (Method::DELETE, path.as_str());
        let answer = objects.server().put(&asked, sent, body, Detail::Whole).await?;
        let Err(refusal) = answer.into_acceptance() else { return Ok(Deleted::Accepted) };
        let cause = refusal.cause(served.plural());
        if cause == Cause::Vetoed {
            return Ok(Deleted::Vetoed { message: scrub(refusal.message(), &[]) });
        }
        if cause == Cause::Conflict && refusal.is_other_uid() {
            return Ok(Deleted::Replaced);
        }
        if matches!(cause, Cause::ObjectAbsent | Cause::NamespaceAbsent) {
            return Ok(Deleted::Gone);
        }
        // A path that is not served changed nothing, so the request may go to another endpoint.
        if cause != Cause::KindAbsent {
            return Err(refusal.into_failure(&asked, served.plural()).into());
        }
        match objects.kinds().relocate(objects.server(), kind, &served).await? {
            Some(elsewhere) => served = elsewhere,
            None => return Ok(Deleted::Gone),
        }
    }
    let text = "discovery lists the kind, but the server does not serve it";
    Err(asked.failed(Cause::Unreadable, text).into())
}
