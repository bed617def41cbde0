//! The cache's requests: cluster identity, one list page, and a watch. A failure reports what the cache needs to
//! decide: whether it can continue from the same version.

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
use super::kept::Keep;
use super::options::CacheOptions;
use crate::body::collect;

/// Limit of one watch line, which holds one object. An API server accepts objects of a few MiB at most.
const MAX_LINE_BYTES: usize = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum Interrupted {
    /// The server no longer has the events after that version.
    #[error("the version has expired")]
    Expired,
    /// The server sent a lower version than before: its store was restored.
    #[error("the version went back")]
    WentBack,
    /// The server answered an error status.
    #[error("the API server answered {status}")]
    Refused { status: StatusCode, retry_after: Option<Duration> },
    /// No data came within the timeout.
    #[error("the API server sent nothing for {0:?}")]
    Silent(Duration),
    /// The connection failed or was never established.
    #[error("the connection failed")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The data is not a valid API server answer.
    #[error("the answer cannot be read")]
    Unreadable(#[source] Option<serde_json::Error>),
}

/// The endpoint of a kind, and the detail that the cache keeps of its objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) keep: Keep,
}

/// The cluster identity: the uid of `kube-system`.
pub(super) async fn identity(
    client: &Client,
    options: &CacheOptions,
) -> Result<ClusterId, Interrupted> {
    let namespaces = Request::new("/api/v1/namespaces");
    let request = namespaces.get_metadata("kube-system", &GetParams::default());
    let answer = collected(client, request, MAX_LINE_BYTES, options).await?;
    let answer = answer.ok_or(Interrupted::Unreadable(None))?;
    let object: Value =
        serde_json::from_slice(&answer).map_err(|error| Interrupted::Unreadable(Some(error)))?;
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.and_then(|uid| ClusterId::new(uid).ok()).ok_or(Interrupted::Unreadable(None))
}

/// The text of a page with at most `size` labelled objects. `None` if it exceeds [`CacheOptions::page_bytes`]; a
/// single object is accepted up to [`MAX_LINE_BYTES`].
pub(super) async fn list(
    client: &Client,
    source: &Source,
    (after, size): (Option<&str>, u32),
    options: &CacheOptions,
) -> Result<Option<Bytes>, Interrupted> {
    let mut parameters = ListParams::default().labels(&selector()).limit(size);
    parameters.continue_token = after.map(str::to_owned);
    let request = Request::new(source.path.as_str());
    let request = match source.keep {
        Keep::Entries(_) => request.list(&parameters),
        Keep::Names => request.list_metadata(&parameters),
    };
    let most = if size > 1 { options.page_bytes } else { MAX_LINE_BYTES };
    collected(client, request, most, options).await
}

pub(super) struct Watch {
    body: Body,
    /// The received part of the next line.
    buffer: Vec<u8>,
    silence: Duration,
}

#[derive(Debug, Deserialize)]
pub(super) struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// Watches the labelled objects from a version on.
pub(super) async fn watch(
    client: &Client,
    source: &Source,
    version: &str,
    options: &CacheOptions,
) -> Result<Watch, Interrupted> {
    let seconds = u32::try_from(options.watch_length().as_secs()).unwrap_or(u32::MAX);
    let parameters = WatchParams::default().labels(&selector()).timeout(seconds);
    let request = Request::new(source.path.as_str());
    let request = match source.keep {
        Keep::Entries(_) => request.watch(&parameters, version),
        Keep::Names => request.watch_metadata(&parameters, version),
    };
    let request = request.map(|mut request| {
        // A compressed line could wait in a buffer until the next one arrives.
        let plain = HeaderValue::from_static("identity");
        request.headers_mut().insert(header::ACCEPT_ENCODING, plain);
        request
    });
    let answer = within(options.request_timeout, send(client, request)).await?;
    Ok(Watch { body: answer.into_body(), buffer: Vec::new(), silence: options.silence })
}

impl Watch {
    /// The next line. `None` when the server ends the watch regularly; a partial line is dropped, because a watch
    /// from the previous version receives it again.
    pub(super) async fn next(&mut self) -> Result<Option<Line>, Interrupted> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = serde_json::from_slice(&line);
                return line.map(Some).map_err(|error| Interrupted::Unreadable(Some(error)));
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(Interrupted::Unreadable(None));
            }
            let frame = timeout(self.silence, self.body.frame()).await;
            match frame.map_err(|_| Interrupted::Silent(self.silence))? {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(broken)?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

impl Line {
    pub(super) fn event(&self) -> Result<Event<'_>, Interrupted> {
        match self.kind.as_str() {
            "ADDED" | "MODIFIED" => Ok(Event::Applied(&self.object)),
            "DELETED" => Ok(Event::Deleted(&self.object)),
            "BOOKMARK" => Ok(Event::Bookmark(&self.object)),
            "ERROR" => {
                let code = self.object.get("code").and_then(Value::as_u64).unwrap_or_default();
                let status = u16::try_from(code).ok().and_then(|code| code.try_into().ok());
                Err(refused(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), None))
            }
            _ => Err(Interrupted::Unreadable(None)),
        }
    }
}

fn selector() -> String {
    format!("{MANAGED_BY_LABEL}={FIELD_MANAGER}")
}

/// The whole answer to a request. `None` if it exceeds `most` bytes.
async fn collected(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    most: usize,
    options: &CacheOptions,
) -> Result<Option<Bytes>, Interrupted> {
    let answer = async {
        let answer = send(client, request).await?;
        collect(answer.into_body(), most).await.map_err(broken)
    };
    within(options.request_timeout, answer).await
}

async fn send(
    client: &Client,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Response<Body>, Interrupted> {
    let answer = client.send(request.map_err(broken)?.map(Body::from)).await.map_err(broken)?;
    if answer.status().is_success() {
        return Ok(answer);
    }
    let wait = answer.headers().get(header::RETRY_AFTER);
    let wait = wait.and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    Err(refused(answer.status(), wait.map(Duration::from_secs)))
}

fn refused(status: StatusCode, retry_after: Option<Duration>) -> Interrupted {
    match status {
        StatusCode::GONE => Interrupted::Expired,
        status => Interrupted::Refused { status, retry_after },
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Interrupted {
    Interrupted::Broken(error.into())
}

async fn within<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, Interrupted>>,
) -> Result<T, Interrupted> {
    timeout(limit, answer).await.unwrap_or(Err(Interrupted::Silent(limit)))
}
