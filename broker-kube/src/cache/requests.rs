//! The requests of a cache: which cluster it is, a page of a list, and a watch. Each says of a failure just
//! what the cache has to know: whether going on from the same version makes sense.

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

/// One line of a watch is one object; an API server takes none of more than a few MiB. Beyond this it is not
/// an API server that speaks.
const MAX_LINE_BYTES: usize = 32 << 20;

/// Why a list or a watch did not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Interrupted {
    /// The server no longer has what happened since that version.
    #[error("the version has expired")]
    Expired,
    /// The server sent a version below the one that it had sent before: its store was restored.
    #[error("the version went back")]
    WentBack,
    /// The server answered something else.
    #[error("the API server answered {status}")]
    Refused {
        /// The status of the answer.
        status: StatusCode,
        /// How long the server asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// Nothing came for too long.
    #[error("the API server said nothing for {0:?}")]
    Silent(Duration),
    /// The connection broke, or was never made.
    #[error("the connection failed")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What came is not what an API server sends.
    #[error("the answer cannot be read")]
    Unreadable(#[source] Option<serde_json::Error>),
}

/// Where the objects of a kind are served, and what is kept of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) keep: Keep,
}

/// Which cluster answers here: the uid of its `kube-system`.
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

/// The text of a page of the objects that carry our label, of at most `size` of them; `None` if the page would have
/// more than [`CacheOptions::page_bytes`]. A single object is taken whatever its size.
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

/// A watch that has begun.
pub(super) struct Watch {
    body: Body,
    /// What has come of the next line.
    buffer: Vec<u8>,
    silence: Duration,
}

/// A line of a watch.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

/// Watches the objects that carry our label, from a version on.
pub(super) async fn watch(
    client: &Client,
    source: &Source,
    version: &str,
    options: &CacheOptions,
) -> Result<Watch, Interrupted> {
    let seconds = u32::try_from(options.watch_timeout().as_secs()).unwrap_or(u32::MAX);
    let parameters = WatchParams::default().labels(&selector()).timeout(seconds);
    let request = Request::new(source.path.as_str());
    let request = match source.keep {
        Keep::Entries(_) => request.watch(&parameters, version),
        Keep::Names => request.watch_metadata(&parameters, version),
    };
    let request = request.map(|mut request| {
        // A compressed line may wait in a buffer until the next one comes.
        let plain = HeaderValue::from_static("identity");
        request.headers_mut().insert(header::ACCEPT_ENCODING, plain);
        request
    });
    let answer = within(options.request_timeout, send(client, request)).await?;
    Ok(Watch { body: answer.into_body(), buffer: Vec::new(), silence: options.silence })
}

impl Watch {
    /// The next line; `None` when the server has ended the watch in good order. Whatever of a line had come
    /// by then is dropped: it is sent again, whole, to whoever goes on from the version before it.
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
    /// What the line tells, if it is not that the watch is over.
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

/// The whole answer to a request, unless it has more than `most` bytes.
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
    patience: Duration,
    answer: impl Future<Output = Result<T, Interrupted>>,
) -> Result<T, Interrupted> {
    timeout(patience, answer).await.unwrap_or(Err(Interrupted::Silent(patience)))
}
