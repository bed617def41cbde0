//! The requests that the API server received, from its own audit log.
//!
//! The server writes one line when a request arrives and another one after its response, which the client
//! may already have. The reader therefore waits until every request has its second line: then it has missed
//! no request whose client got a response.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use serde::Deserialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{failure::OrFail, wait::until};

/// The requests of one API server.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

/// A position in the log.
#[derive(Debug, Clone, Copy)]
pub struct LogPosition(u64);

/// One request with its response. The response of a watch is its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRequest {
    /// The user.
    pub user: String,
    /// The API's verb: `patch`, `list`, `watch`, …
    pub verb: String,
    /// The plural, followed by a slash and the subresource if there is one; empty for non-resource
    /// requests.
    pub resource: String,
    /// The API group, empty for the core.
    pub group: String,
    /// The namespace, if the request names one.
    pub namespace: Option<String>,
    /// The object's name, if the request names one.
    pub name: Option<String>,
    /// Path and query.
    pub uri: String,
    /// The HTTP status of the response. An apply that created an object is a `patch` with 201.
    pub code: u16,
    /// The arrival time, by the API server's clock.
    pub at: OffsetDateTime,
}

impl AuditedRequest {
    /// Whether the request is a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

impl AuditLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// The beginning of the log.
    pub fn start(&self) -> LogPosition {
        LogPosition(0)
    }

    /// The current end of the log.
    pub fn mark(&self) -> LogPosition {
        LogPosition(self.path.metadata().or_fail("the audit log cannot be read").len())
    }

    /// All requests by `user` since the position, in order of arrival. Waits until each has a response.
    pub async fn since(&self, mark: LogPosition, user: &str) -> Vec<AuditedRequest> {
        until(format_args!("the responses to all requests of {user}"), || async {
            with_responses(&self.read(mark), user)
        })
        .await
    }

    fn read(&self, LogPosition(start): LogPosition) -> String {
        let read = || {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(start.saturating_sub(1)))?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(text)
        };
        let text = read().or_fail("the audit log cannot be read");
        if start == 0 {
            return text;
        }
        // A position within a line excludes that line.
        text.split_once('\n').map_or_else(String::new, |(_, tail)| tail.to_owned())
    }
}

/// The user's requests, or `None` while one has no response.
fn with_responses(log: &str, user: &str) -> Option<Vec<AuditedRequest>> {
    let mut order = Vec::new();
    let mut responses = HashMap::new();
    // The last line may be incomplete.
    let complete = log.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    // Skips other users' lines without parsing them.
    for line in complete.filter(|line| line.contains(user)) {
        let event: Event = serde_json::from_str(line).or_fail("an audit line cannot be read");
        if event.user.username != user {
            continue;
        }
        if event.stage == "RequestReceived" {
            order.push(event.audit_id);
        } else {
            // A watch has a second response when it ends; the first one counts.
            responses.entry(event.audit_id.clone()).or_insert_with(|| event.into_request());
        }
    }
    order.into_iter().map(|id| responses.remove(&id)).collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    request_received_timestamp: String,
    user: EventUser,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
}

#[derive(Deserialize)]
struct EventUser {
    /// Absent when the credentials were refused.
    #[serde(default)]
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    api_group: String,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl Event {
    fn into_request(self) -> AuditedRequest {
        let ObjectRef { mut resource, subresource, api_group, namespace, name } = self.object_ref;
        if !subresource.is_empty() {
            resource = format!("{resource}/{subresource}");
        }
        AuditedRequest {
            user: self.user.username,
            verb: self.verb,
            resource,
            group: api_group,
            namespace,
            name,
            uri: self.request_uri,
            code: self.response_status.code,
            at: OffsetDateTime::parse(&self.request_received_timestamp, &Rfc3339)
                .or_fail("an audit line has an invalid time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, stage: &str, user: &str, code: u16) -> String {
        let event = serde_json::json!({
            "auditID": id,
            "stage": stage,
            "requestURI": "/api/v1/pods/p/status",
            "verb": "get",
            "requestReceivedTimestamp": "2026-11-17T03:00:00.123456Z",
            "user": { "username": user },
            "objectRef": { "resource": "pods", "subresource": "status" },
            "responseStatus": { "code": code },
        });
        format!("{event}\n")
    }

    #[test]
    fn request_counts_after_its_response() {
        let received = line("1", "RequestReceived", "ann", 0);
        assert_eq!(with_responses(&received, "ann"), None, "no response yet");
        assert_eq!(with_responses(&received, "bob"), Some(Vec::new()), "a line of another user");

        let log = received + &line("1", "ResponseComplete", "ann", 200);
        let requests = with_responses(&log, "ann").unwrap();
        assert_eq!(requests.len(), 1);
        assert_eq!((requests[0].resource.as_str(), requests[0].code), ("pods/status", 200));
    }
}
