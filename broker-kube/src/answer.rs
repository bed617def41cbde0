//! What the API server answered, and what that means.
//!
//! Statuses and details decide, words only where the API server has nothing else: an absent kind, an
//! admission webhook.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Asked, Cause, Failure};

/// What the API server says for a path that it does not serve; everything else it says in JSON.
const NO_SUCH_PATH: &str = "404 page not found";

/// An answer, whatever it says.
pub(crate) struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    body: Bytes,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, headers: &HeaderMap, body: Bytes) -> Self {
        let wait = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = wait.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs);
        Self { status, retry_after, body }
    }

    /// The object that was answered, or the refusal.
    pub(crate) fn into_object(
        self,
        asked: &Asked,
    ) -> Result<Result<Value, RefusedAnswer>, Failure> {
        if !self.status.is_success() {
            return Ok(Err(self.into_refusal()));
        }
        let object = serde_json::from_slice(&self.body).map_err(|error| {
            // Only where it broke: what stands there may be a secret.
            let words = format!("no JSON at byte {} of the answer", error.column());
            asked.failed(Cause::Unreadable, &words)
        })?;
        Ok(Ok(object))
    }

    /// Nothing but whether it was taken.
    pub(crate) fn into_acceptance(self) -> Result<(), RefusedAnswer> {
        if self.status.is_success() { Ok(()) } else { Err(self.into_refusal()) }
    }

    fn into_refusal(self) -> RefusedAnswer {
        let Self { status, retry_after, body } = self;
        let said: Option<Said> =
            serde_json::from_slice(&body).ok().filter(|said: &Said| said.kind == "Status");
        let plain = String::from_utf8_lossy(&body).trim().to_owned();
        let no_such_path = status == StatusCode::NOT_FOUND && plain == NO_SUCH_PATH;
        let unsaid = || status.canonical_reason().unwrap_or("no reason was given").to_owned();
        let mut said = said.unwrap_or_else(|| Said { message: plain, ..Said::default() });
        if said.message.is_empty() {
            said.message = unsaid();
        }
        RefusedAnswer { status: status.as_u16(), retry_after, no_such_path, said }
    }
}

/// The API server did not do as it was asked.
pub(crate) struct RefusedAnswer {
    status: u16,
    retry_after: Option<Duration>,
    no_such_path: bool,
    said: Said,
}

/// The `Status` of the Kubernetes API, as far as anything follows from it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    kind: String,
    message: String,
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    kind: String,
    causes: Vec<Detail>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Detail {
    reason: String,
    field: String,
}

impl RefusedAnswer {
    /// The cause, for a request about objects that are served under this plural.
    pub(crate) fn cause(&self, plural: &str) -> Cause {
        if self.is_veto() {
            return Cause::Vetoed;
        }
        match self.status {
            401 => Cause::Unauthenticated,
            403 if self.has_cause("NamespaceTerminating") => Cause::NamespaceTerminating,
            403 => Cause::Forbidden,
            404 if self.no_such_path => Cause::KindAbsent,
            404 if self.said.details.kind == plural => Cause::ObjectAbsent,
            404 if self.said.details.kind == "namespaces" => Cause::NamespaceAbsent,
            409 => Cause::Conflict,
            410 => Cause::Expired,
            422 => Cause::Invalid(self.fields()),
            429 => Cause::Throttled,
            400..=499 => Cause::Refused(self.status),
            500..=599 => Cause::ServerError(self.status),
            // Nobody sends an API client elsewhere.
            _ => Cause::Unreadable,
        }
    }

    /// An admission webhook refused it. Crossplane's answers a deletion with 409 and its words as the
    /// reason; the API server puts its own in front of whatever a webhook says.
    fn is_veto(&self) -> bool {
        let said = &self.said.message;
        let by_webhook =
            said.starts_with("admission webhook ") && said.contains(" denied the request");
        // The same policy without a webhook: the API server evaluates it itself, and answers 422 as for a schema.
        let by_policy =
            said.contains("ValidatingAdmissionPolicy ") && said.contains("denied request");
        (400..500).contains(&self.status) && (by_webhook || by_policy)
    }

    /// A deletion met another object of that name. The answer differs from other conflicts in words only,
    /// and in other words when the API server noticed it only at its store.
    pub(crate) fn is_other_uid(&self) -> bool {
        let said = |words| self.said.message.contains(words);
        self.status == 409 && (said("UID in the precondition") || said("UID in precondition"))
    }

    /// The fields that the API server objects to.
    pub(crate) fn fields(&self) -> Vec<String> {
        let fields = self.said.details.causes.iter().map(|cause| cause.field.clone());
        fields.filter(|field| !field.is_empty()).collect()
    }

    fn has_cause(&self, reason: &str) -> bool {
        self.said.details.causes.iter().any(|cause| cause.reason == reason)
    }

    /// The API server's own words. They may repeat what was sent.
    pub(crate) fn words(&self) -> &str {
        &self.said.message
    }

    /// How the request failed, when nothing that was sent could show in the answer.
    pub(crate) fn into_failure(self, asked: &Asked, plural: &str) -> Failure {
        asked.failed(self.cause(plural), self.words()).with_retry_after(self.retry_after)
    }

    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(status: u16, body: impl Into<Bytes>) -> RefusedAnswer {
        let status = StatusCode::from_u16(status).unwrap();
        Answer::new(status, &HeaderMap::new(), body.into()).into_refusal()
    }

    fn said(message: &str, details: &Value) -> String {
        json!({"kind": "Status", "message": message, "details": details}).to_string()
    }

    #[test]
    fn refusals_have_their_causes() {
        let field = json!({"causes": [{"field": "spec.size"}, {"field": ""}]});
        let ending = json!({"causes": [{"reason": "NamespaceTerminating"}]});
        let veto = "admission webhook \"a.b\" denied the request: in use";
        let words = || "words".to_owned();
        let rows = [
            (
                "our plural: the object",
                404,
                said("", &json!({"kind": "machines"})),
                Cause::ObjectAbsent,
            ),
            (
                "the namespace",
                404,
                said("", &json!({"kind": "namespaces"})),
                Cause::NamespaceAbsent,
            ),
            ("plain text: the kind", 404, "404 page not found\n".to_owned(), Cause::KindAbsent),
            ("a page of somebody else proves nothing", 404, words(), Cause::Refused(404)),
            ("nor does an empty one", 404, String::new(), Cause::Refused(404)),
            (
                "another kind of object",
                404,
                said("", &json!({"kind": "other"})),
                Cause::Refused(404),
            ),
            ("a lack of rights", 403, said("", &json!({})), Cause::Forbidden),
            ("an ending namespace", 403, said("", &ending), Cause::NamespaceTerminating),
            ("a webhook by 403", 403, said(veto, &json!({})), Cause::Vetoed),
            ("a webhook by 409", 409, said(veto, &json!({})), Cause::Vetoed),
            (
                "a policy of the API server itself",
                422,
                said(
                    "x \"y\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no",
                    &json!({}),
                ),
                Cause::Vetoed,
            ),
            ("a plain conflict", 409, said("changed", &json!({})), Cause::Conflict),
            ("fields by name", 422, said("", &field), Cause::Invalid(vec!["spec.size".into()])),
            ("an old page", 410, said("", &json!({})), Cause::Expired),
            ("too many", 429, words(), Cause::Throttled),
            ("a bad request", 400, words(), Cause::Refused(400)),
            ("a webhook that is broken", 500, said(veto, &json!({})), Cause::ServerError(500)),
            ("a redirection", 302, String::new(), Cause::Unreadable),
        ];
        for (why, status, body, expected) in rows {
            assert_eq!(refusal(status, body).cause("machines"), expected, "{why}");
        }
    }

    #[test]
    fn an_answer_without_words_is_put_into_some() {
        assert_eq!(refusal(503, "").words(), "Service Unavailable");
        assert_eq!(refusal(503, "later").words(), "later");
        assert_eq!(refusal(599, said("", &json!({}))).words(), "no reason was given");
    }

    #[test]
    fn patience_is_counted_in_seconds() {
        let rows = [("7", Some(7)), (" 1 ", Some(1)), ("soon", None), ("-1", None)];
        for (text, seconds) in rows {
            let headers = [(header::RETRY_AFTER, text.parse().unwrap())].into_iter().collect();
            let answer = Answer::new(StatusCode::TOO_MANY_REQUESTS, &headers, Bytes::new());
            assert_eq!(answer.retry_after, seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn half_an_answer_is_not_repeated() {
        let asked = Asked::about(crate::error::Verb::Get, "it");
        let answer =
            Answer::new(StatusCode::OK, &HeaderMap::new(), r#"{"userData": "canary"#.into());
        let Err(failure) = answer.into_object(&asked) else { panic!("half an answer was taken") };
        let cause = std::error::Error::source(&failure).and_then(|cause| cause.downcast_ref());
        assert_eq!(cause, Some(&Cause::Unreadable));
        assert!(!failure.to_string().contains("canary"), "{failure}");
    }
}
