//! One response of the API server, mapped to a [`Cause`].
//!
//! Status codes and details decide. Message text decides only where the API server offers nothing else: for a kind
//! that is not served, and for an admission webhook.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Cause, Failure, RequestLabel};

/// The plain-text body for a path that is not served. Every other error body is JSON.
const NO_SUCH_PATH: &str = "404 page not found";

pub(crate) struct ApiResponse {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
}

impl ApiResponse {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        let wait = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = wait.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        Self { status, retry_after, body }
    }

    pub(crate) fn into_object(
        self,
        label: &RequestLabel,
    ) -> Result<Result<Value, RefusedResponse>, Failure> {
        if !self.status.is_success() {
            return Ok(Err(self.into_refusal()));
        }
        let object = serde_json::from_slice(&self.body).map_err(|error| {
            // Reports the position only: the text there may be a secret.
            let text = format!("no JSON at byte {} of the response", error.column());
            label.failure(Cause::Unreadable, &text)
        })?;
        Ok(Ok(object))
    }

    pub(crate) fn into_success(self) -> Result<(), RefusedResponse> {
        if self.status.is_success() { Ok(()) } else { Err(self.into_refusal()) }
    }

    fn into_refusal(self) -> RefusedResponse {
        let Self { status, retry_after, body } = self;
        let parsed: Option<StatusBody> =
            serde_json::from_slice(&body).ok().filter(|body: &StatusBody| body.kind == "Status");
        let plain = String::from_utf8_lossy(&body).trim().to_owned();
        let no_such_path = status == StatusCode::NOT_FOUND && plain == NO_SUCH_PATH;
        let default_message =
            || status.canonical_reason().unwrap_or("no reason was given").to_owned();
        let mut body =
            parsed.unwrap_or_else(|| StatusBody { message: plain, ..StatusBody::default() });
        if body.message.is_empty() {
            body.message = default_message();
        }
        RefusedResponse { status: status.as_u16(), retry_after, no_such_path, body }
    }
}

pub(crate) struct RefusedResponse {
    status: u16,
    retry_after: Option<Duration>,
    no_such_path: bool,
    body: StatusBody,
}

/// The `Status` object of the Kubernetes API, reduced to the fields that decide a cause.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusBody {
    kind: String,
    message: String,
    details: StatusDetails,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusDetails {
    kind: String,
    causes: Vec<StatusCause>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusCause {
    reason: String,
    field: String,
}

impl RefusedResponse {
    /// The cause, for a request about objects that are served under `plural`.
    pub(crate) fn cause(&self, plural: &str) -> Cause {
        if self.is_vetoed_by_admission() {
            return Cause::Vetoed;
        }
        match self.status {
            401 => Cause::Unauthenticated,
            403 if self.has_cause("NamespaceTerminating") => Cause::NamespaceTerminating,
            403 => Cause::Forbidden,
            404 if self.no_such_path => Cause::KindAbsent,
            404 if self.body.details.kind == plural => Cause::ObjectAbsent,
            404 if self.body.details.kind == "namespaces" => Cause::NamespaceAbsent,
            409 => Cause::Conflict,
            410 => Cause::Expired,
            422 => Cause::Invalid(self.fields()),
            429 => Cause::Throttled,
            400..=499 => Cause::Refused(self.status),
            500..=599 => Cause::ServerError(self.status),
            // A redirect: no API server sends one to an API client.
            _ => Cause::Unreadable,
        }
    }

    /// Whether admission refused the request. Crossplane's webhook refuses a deletion with 409 and puts its text
    /// into the reason; the API server prefixes the text of every webhook.
    fn is_vetoed_by_admission(&self) -> bool {
        let message = &self.body.message;
        let by_webhook =
            message.starts_with("admission webhook ") && message.contains(" denied the request");
        // A ValidatingAdmissionPolicy runs inside the API server, which sends 422 as for a schema violation.
        let by_policy =
            message.contains("ValidatingAdmissionPolicy ") && message.contains("denied request");
        (400..500).contains(&self.status) && (by_webhook || by_policy)
    }

    /// Whether the uid precondition of a deletion failed. Only the message distinguishes this conflict; the store and
    /// the request handler word it differently.
    pub(crate) fn is_uid_mismatch(&self) -> bool {
        let contains = |text| self.body.message.contains(text);
        self.status == 409
            && (contains("UID in the precondition") || contains("UID in precondition"))
    }

    pub(crate) fn fields(&self) -> Vec<String> {
        let fields = self.body.details.causes.iter().map(|cause| cause.field.clone());
        fields.filter(|field| !field.is_empty()).collect()
    }

    fn has_cause(&self, reason: &str) -> bool {
        self.body.details.causes.iter().any(|cause| cause.reason == reason)
    }

    /// The message of the API server. It may quote the request body.
    pub(crate) fn message(&self) -> &str {
        &self.body.message
    }

    /// Only for a request whose body holds no secret.
    pub(crate) fn into_failure(self, label: &RequestLabel, plural: &str) -> Failure {
        label.failure(self.cause(plural), self.message()).with_retry_after(self.retry_after)
    }

    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(status: u16, body: impl Into<Bytes>) -> RefusedResponse {
        let status = StatusCode::from_u16(status).unwrap();
        ApiResponse::new(status, &HeaderMap::new(), body.into()).into_refusal()
    }

    fn status_json(message: &str, details: &Value) -> String {
        json!({"kind": "Status", "message": message, "details": details}).to_string()
    }

    #[test]
    fn refusal_maps_to_its_cause() {
        let field = json!({"causes": [{"field": "spec.size"}, {"field": ""}]});
        let terminating = json!({"causes": [{"reason": "NamespaceTerminating"}]});
        let veto = "admission webhook \"a.b\" denied the request: in use";
        let text = || "text".to_owned();
        let rows = [
            (
                "the object of the requested kind",
                404,
                status_json("", &json!({"kind": "machines"})),
                Cause::ObjectAbsent,
            ),
            (
                "the namespace",
                404,
                status_json("", &json!({"kind": "namespaces"})),
                Cause::NamespaceAbsent,
            ),
            (
                "a plain-text 404 for the kind",
                404,
                "404 page not found\n".to_owned(),
                Cause::KindAbsent,
            ),
            ("a page from another server proves nothing", 404, text(), Cause::Refused(404)),
            ("an empty page proves nothing", 404, String::new(), Cause::Refused(404)),
            (
                "another kind of object",
                404,
                status_json("", &json!({"kind": "other"})),
                Cause::Refused(404),
            ),
            ("a missing permission", 403, status_json("", &json!({})), Cause::Forbidden),
            (
                "a terminating namespace",
                403,
                status_json("", &terminating),
                Cause::NamespaceTerminating,
            ),
            ("a webhook by 403", 403, status_json(veto, &json!({})), Cause::Vetoed),
            ("a webhook by 409", 409, status_json(veto, &json!({})), Cause::Vetoed),
            (
                "a policy of the API server itself",
                422,
                status_json(
                    "x \"y\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                    &json!({}),
                ),
                Cause::Vetoed,
            ),
            ("a plain conflict", 409, status_json("changed", &json!({})), Cause::Conflict),
            (
                "invalid fields",
                422,
                status_json("", &field),
                Cause::Invalid(vec!["spec.size".into()]),
            ),
            ("an expired page", 410, status_json("", &json!({})), Cause::Expired),
            ("too many requests", 429, text(), Cause::Throttled),
            ("a bad request", 400, text(), Cause::Refused(400)),
            ("a broken webhook", 500, status_json(veto, &json!({})), Cause::ServerError(500)),
            ("a redirect", 302, String::new(), Cause::Unreadable),
        ];
        for (why, status, body, expected) in rows {
            assert_eq!(refusal(status, body).cause("machines"), expected, "{why}");
        }
    }

    #[test]
    fn response_without_message_gets_the_status_reason() {
        assert_eq!(refusal(503, "").message(), "Service Unavailable");
        assert_eq!(refusal(503, "later").message(), "later");
        assert_eq!(refusal(599, status_json("", &json!({}))).message(), "no reason was given");
    }

    #[test]
    fn retry_after_is_parsed_as_seconds() {
        let rows = [("7", Some(7)), (" 1 ", Some(1)), ("soon", None), ("-1", None)];
        for (text, seconds) in rows {
            let headers = [(header::RETRY_AFTER, text.parse().unwrap())].into_iter().collect();
            let response = ApiResponse::new(StatusCode::TOO_MANY_REQUESTS, &headers, Bytes::new());
            assert_eq!(response.retry_after, seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn truncated_response_is_not_quoted() {
        let label = RequestLabel::new(crate::error::Verb::Get, "an object");
        let response =
            ApiResponse::new(StatusCode::OK, &HeaderMap::new(), r#"{"userData": "canary"#.into());
        let Err(failure) = response.into_object(&label) else {
            panic!("a truncated response was accepted")
        };
        let cause = std::error::Error::source(&failure).and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&Cause::Unreadable));
        assert!(!failure.to_string().contains("canary"), "{failure}");
    }
}
