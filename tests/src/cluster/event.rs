//! Kubernetes Events, which controllers write about objects.

use broker_domain::ObjectReference;
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::failure::OrFail;

/// Creates an Event of type Warning for an object, as a controller would.
pub async fn create_warning_event(admin: &Client, object: &ObjectReference, message: &str) {
    let namespace = object.namespace().unwrap_or("default");
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"generateName": "said-", "namespace": namespace},
        "involvedObject": {
            "apiVersion": object.api_version(), "kind": object.kind(), "name": object.name(),
            "namespace": object.namespace(),
        },
        "reason": "Refused", "message": message, "type": "Warning",
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z",
        "source": {"component": "provider"},
    });
    let request = Request::post(format!("/api/v1/namespaces/{namespace}/events"))
        .header("content-type", "application/json")
        .body(event.to_string().into_bytes())
        .or_fail("cannot build a request");
    admin.request::<Value>(request).await.or_fail("cannot create an Event");
}
