//! Act: foreground deletion of one object, guarded by its uid.

use broker_ports::{DeleteRequest, Deleted, PortError, refuse_foreign_write};
use broker_render::scrub;
use http::Method;
use serde_json::json;

use crate::call::Detail;
use crate::error::{Cause, RequestLabel, Verb};
use crate::objects::ObjectClient;

/// Deletes an object at the endpoint of its kind.
pub(crate) async fn delete(
    client: &ObjectClient,
    request: &DeleteRequest<'_>,
) -> Result<Deleted, PortError> {
    let DeleteRequest { project, target, uid, owner, .. } = *request;
    refuse_foreign_write(project, target, owner)?;
    let label = RequestLabel::for_object(Verb::Delete, target);
    let kind = (target.api_version(), target.kind());
    let Some(mut served_kind) = client.kinds().locate(client.server(), kind).await? else {
        return Ok(Deleted::Gone);
    };
    // Background deletion would remove the object while its composed objects still exist.
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "propagationPolicy": "Foreground", "preconditions": {"uid": uid},
    });
    for _ in 0..2 {
        let Some(path) = served_kind.object_path(target.namespace(), target.name()) else {
            let text = "the name is incomplete; a namespaced object needs its namespace";
            return Err(label.failure(Cause::Unaddressable, text).into());
        };
        let body = ("application/json", options.to_string().into_bytes());
        let endpoint = (Method::DELETE, path.as_str());
        let response = client.server().send_body(&label, endpoint, body, Detail::Whole).await?;
        let Err(refusal) = response.into_success() else { return Ok(Deleted::Accepted) };
        let cause = refusal.cause(served_kind.plural());
        if cause == Cause::Vetoed {
            return Ok(Deleted::Vetoed { message: scrub(refusal.message(), &[]) });
        }
        if cause == Cause::Conflict && refusal.is_uid_mismatch() {
            return Ok(Deleted::Replaced);
        }
        if matches!(cause, Cause::ObjectAbsent | Cause::NamespaceAbsent) {
            return Ok(Deleted::Gone);
        }
        // A request to an unserved path changed nothing, so another endpoint may be tried.
        if cause != Cause::KindAbsent {
            return Err(refusal.into_failure(&label, served_kind.plural()).into());
        }
        match client.kinds().relocate(client.server(), kind, &served_kind).await? {
            Some(other_kind) => served_kind = other_kind,
            None => return Ok(Deleted::Gone),
        }
    }
    let text = "discovery lists the kind, but the server does not serve it";
    Err(label.failure(Cause::Unreadable, text).into())
}
