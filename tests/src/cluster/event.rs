//! Kubernetes Events, which controllers write about objects.

use broker_domain::ObjectReference;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::failure::OrFail;

/// Creates an Event about an object, as a controller would.
pub async fn say(admin: &Client, about: &ObjectReference, message: &str) {
    let namespace = about.namespace().unwrap_or("default");
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": "said-", "namespace": namespace},
        "involvedObject": {
            "apiVersion": about.api_version(), "kind": about.kind(), "name": about.name(),
            "namespace": about.namespace(),
        },
        "reason": "Refused", "message": message, "type": "Warning",
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z",
        "source": {"component": "provider"},
    });
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/events"))
        .header("content-type", "application/json")
        .body(event.to_string().into_bytes())
        .or_fail("a request");
    admin.request::<Value>(request).await.or_fail("an event");
}
