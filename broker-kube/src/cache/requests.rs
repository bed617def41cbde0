//! The cache's requests: cluster identity, one list page, and a watch. A [`FollowError`] tells the
//! cache whether it can continue from the same version.

use std::time::Duration;

use broker_domain::ClusterId;
use broker_render::{FIELD_MANAGER, MANAGED_BY_LABEL};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::{GetParams, ListParams, WatchParams};
use kube::client::Body;
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::timeout;

use super::index::Event;
use super::options::CacheOptions;
use super::store::StoreMode;
use crate::body::collect_up_to;

/// Limit of one watch line, which holds one object. An API server accepts objects of a few MiB at most.
const MAX_LINE_BYTES: usize = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum FollowError {
    /// The server no longer has the events after that version.
    #[error("the version has expired")]
    Expired,
    /// The server sent a lower version than before: its store was restored.
    #[error("the version went back")]
    VersionWentBack,
    /// The server sent an error status.
    #[error("the API server sent status {status}")]
    Refused { status: StatusCode, retry_after: Option<Duration> },
    /// No data came within the timeout.
    #[error("the API server sent nothing for {0:?}")]
    Silent(Duration),
    /// The connection failed, or could not be established.
    #[error("the connection failed")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data is not a valid API server response.
    #[error("the response cannot be read")]
    Unreadable(#[source] Option<serde_json::Error>),
}

/// The endpoint of a kind, and what the cache stores of its objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KindEndpoint {
    pub(super) path: String,
    pub(super) mode: StoreMode,
}

/// The cluster identity: the uid of `kube-system`.
pub(super) async fn identity(
    client: &Client,
    options: &CacheOptions,
) -> Result<ClusterId, FollowError> {
    let namespaces = Request::new("/api/v1/namespaces");
    let request = namespaces.get_metadata("kube-system", &GetParams::default());
    let response = fetch_body(client, request, MAX_LINE_BYTES, options).await?;
    let response = response.ok_or(FollowError::Unreadable(None))?;
    let object: Value =
        serde_json::from_slice(&response).map_err(|error| FollowError::Unreadable(Some(error)))?;
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.and_then(|uid| ClusterId::new(uid).ok()).ok_or(FollowError::Unreadable(None))
}

/// The text of a page with at most `size` labelled objects. `None` if it exceeds [`CacheOptions::page_bytes`]; a
/// single object is accepted up to [`MAX_LINE_BYTES`].
pub(super) async fn list(
    client: &Client,
    endpoint: &KindEndpoint,
    (after, size): (Option<&str>, u32),
    options: &CacheOptions,
) -> Result<Option<Bytes>, FollowError> {
    let mut parameters = ListParams::default().labels(&selector()).limit(size);
    parameters.continue_token = after.map(str::to_owned);
    let request = Request::new(endpoint.path.as_str());
    let request = match endpoint.mode {
        StoreMode::Xrs(_) => request.list(&parameters),
        StoreMode::Identities => request.list_metadata(&parameters),
    };
    let max_bytes = if size > 1 { options.page_bytes } else { MAX_LINE_BYTES };
    fetch_body(client, request, max_bytes, options).await
}

pub(super) struct Watch {
    body: Body,
    /// The received part of the next line.
    buffer: Vec<u8>,
    silence: Duration,
}

#[derive(Debug, Deserialize)]
pub(super) struct WatchLine {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// Watches the labelled objects from a version on.
pub(super) async fn watch(
    client: &Client,
    endpoint: &KindEndpoint,
    version: &str,
    options: &CacheOptions,
) -> Result<Watch, FollowError> {
    let seconds = u32::try_from(options.watch_length().as_secs()).unwrap_or(u32::MAX);
    let parameters = WatchParams::default().labels(&selector()).timeout(seconds);
    let request = Request::new(endpoint.path.as_str());
    let request = match endpoint.mode {
        StoreMode::Xrs(_) => request.watch(&parameters, version),
        StoreMode::Identities => request.watch_metadata(&parameters, version),
    };
    let request = request.map(|mut request| {
        // A compressed line could wait in a buffer until the next one arrives.
        let uncompressed = HeaderValue::from_static("identity");
        request.headers_mut().insert(header::ACCEPT_ENCODING, uncompressed);
        request
    });
    let response = with_timeout(options.request_timeout, send(client, request)).await?;
    Ok(Watch { body: response.into_body(), buffer: Vec::new(), silence: options.silence })
}

impl Watch {
    /// The next line. `None` when the server ends the watch regularly; a partial line is dropped, because a watch
    /// from the previous version receives it again.
    pub(super) async fn next(&mut self) -> Result<Option<WatchLine>, FollowError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = serde_json::from_slice(&line);
                return line.map(Some).map_err(|error| FollowError::Unreadable(Some(error)));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(FollowError::Unreadable(None));
            }
            let frame = timeout(self.silence, self.body.frame()).await;
            match frame.map_err(|_| FollowError::Silent(self.silence))? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(transport_error)?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

impl WatchLine {
    pub(super) fn event(&self) -> Result<Event<'_>, FollowError> {
        match self.kind.as_str() {
            "ADDED" | "MODIFIED" => Ok(Event::Applied(&self.object)),
            "DELETED" => Ok(Event::Deleted(&self.object)),
            "BOOKMARK" => Ok(Event::Bookmark(&self.object)),
            "ERROR" => {
                let code = self.object.get("code").and_then(Value::as_u64).unwrap_or_default();
                let status = u16::try_from(code).ok().and_then(|code| code.try_into().ok());
                Err(status_error(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), None))
            }
            _ => Err(FollowError::Unreadable(None)),
        }
    }
}

fn selector() -> String {
    format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}")
}

/// The response body of a request. `None` if it exceeds `max_bytes`.
async fn fetch_body(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    max_bytes: usize,
    options: &CacheOptions,
) -> Result<Option<Bytes>, FollowError> {
    let response = async {
        let response = send(client, request).await?;
        collect_up_to(response.into_body(), max_bytes).await.map_err(transport_error)
    };
    with_timeout(options.request_timeout, response).await
}

async fn send(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Response<Body>, FollowError> {
    let response = client
        .send(request.map_err(transport_error)?.map(Body::from))
        .await
        .map_err(transport_error)?;
    if response.status().is_success() {
        return Ok(response);
    }
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    Err(status_error(response.status(), retry_after.map(Duration::from_secs)))
}

fn status_error(status: StatusCode, retry_after: Option<Duration>) -> FollowError {
    match status {
        StatusCode::GONE => FollowError::Expired,
        status => FollowError::Refused { status, retry_after },
    }
}

fn transport_error(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> FollowError {
    FollowError::Broken(error.into())
}

async fn with_timeout<T>(
    limit: Duration,
    response: impl Future<Output = Result<T, FollowError>>,
) -> Result<T, FollowError> {
    timeout(limit, response).await.unwrap_or(Err(FollowError::Silent(limit)))
}
