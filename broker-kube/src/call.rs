//! One request to the API server: sent once, with a deadline, and with a cause for every failure.

use std::error::Error as StdError;
use std::num::NonZeroU32;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use hyper_util::client::legacy;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use crate::body::collect_up_to;
use crate::error::{Cause, Failure, RequestLabel, Verb};
use crate::response::ApiResponse;

/// Objects per list page, by default.
const PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).expect("it is not zero");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Whole,
    /// Metadata only: a response without a spec holds no secret.
    Metadata,
}

impl Detail {
    /// Also accepts the full object, which an API server without partial metadata sends.
    const fn accept_header(self, is_list: bool) -> &'static str {
        match (self, is_list) {
            (Self::Whole, _) => "application/json",
            (Self::Metadata, false) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            (Self::Metadata, true) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

/// Settings of the adapter. Only the composition root knows how slow its API server may be.
///
/// ```
/// use std::time::Duration;
///
/// use broker_kube::KubeOptions;
///
/// let options = KubeOptions::new(Duration::from_secs(10), Duration::from_secs(5));
/// assert_eq!(options.page_size.get(), 500);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KubeOptions {
    /// Timeout of one reading request. One port call may send several.
    pub read_deadline: Duration,
    /// Timeout of one writing request.
    pub write_deadline: Duration,
    /// Objects per list page.
    pub page_size: NonZeroU32,
}

impl KubeOptions {
    /// Options with these deadlines and pages of 500 objects.
    pub const fn new(read_deadline: Duration, write_deadline: Duration) -> Self {
        Self { read_deadline, write_deadline, page_size: PAGE_SIZE }
    }

    /// Sets [`KubeOptions::page_size`].
    #[must_use]
    pub const fn with_page_size(self, page_size: NonZeroU32) -> Self {
        Self { page_size, ..self }
    }
}

pub(crate) struct Server {
    client: Client,
    options: KubeOptions,
}

impl Server {
    pub(crate) const fn new(client: Client, options: KubeOptions) -> Self {
        Self { client, options }
    }

    pub(crate) const fn options(&self) -> &KubeOptions {
        &self.options
    }

    pub(crate) async fn get(
        &self,
        label: &RequestLabel,
        path: &str,
        detail: Detail,
    ) -> Result<ApiResponse, Failure> {
        let response = self.get_up_to(label, path, detail, usize::MAX).await?;
        response
            .ok_or_else(|| label.failure(Cause::Unreadable, "the response exceeds the size limit"))
    }

    /// As [`get`](Self::get), but `None` if the response has more than `max_bytes`.
    pub(crate) async fn get_up_to(
        &self,
        label: &RequestLabel,
        path: &str,
        detail: Detail,
        max_bytes: usize,
    ) -> Result<Option<ApiResponse>, Failure> {
        let is_list = label.verb() == Verb::List;
        let request = Request::get(path).header(ACCEPT, detail.accept_header(is_list));
        // Boxed: a caller holds many of these futures at once.
        Box::pin(self.send(label, request.body(Body::empty()), max_bytes)).await
    }

    /// Sends a body to a path. The body may hold a secret, so it is never logged.
    pub(crate) async fn send_body(
        &self,
        label: &RequestLabel,
        (method, path): (Method, &str),
        (content_type, body): (&str, Vec<u8>),
        detail: Detail,
    ) -> Result<ApiResponse, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, detail.accept_header(false))
            .header(CONTENT_TYPE, content_type);
        let response = self.send(label, request.body(Body::from(body)), usize::MAX).await?;
        response
            .ok_or_else(|| label.failure(Cause::Unreadable, "the response exceeds the size limit"))
    }

    /// Sends one request once. `None` if the response has more than `max_bytes`.
    async fn send(
        &self,
        label: &RequestLabel,
        request: http::Result<Request<Body>>,
        max_bytes: usize,
    ) -> Result<Option<ApiResponse>, Failure> {
        let request = request.map_err(|error| {
            label.failure(Cause::Unaddressable, &format!("the request cannot be built: {error}"))
        })?;
        let limit = match label.verb() {
            Verb::Apply | Verb::Delete => self.options.write_deadline,
            Verb::Get | Verb::List | Verb::Discover | Verb::DryRun => self.options.read_deadline,
        };
        let round_trip = async {
            let (head, body) = self.client.send(request).await?.into_parts();
            let body = collect_up_to(body, max_bytes).await?;
            let response = body.map(|body| ApiResponse::new(head.status, &head.headers, body));
            Ok::<_, kube::Error>(response)
        };
        match timeout(limit, round_trip).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(label.failure(transport_cause(&error), &error_text(&error))),
            Err(_) => {
                let text = format!("no response within {limit:?}");
                Err(label.failure(Cause::Deadline, &text))
            }
        }
    }
}

/// Classifies a transport error. `Unreachable` needs proof that nothing was sent.
fn transport_cause(error: &kube::Error) -> Cause {
    // Without credentials no request was sent.
    let unauthenticated = matches!(error, kube::Error::Auth(_));
    let unconnected = || {
        error_chain(error).filter_map(|error| error.downcast_ref()).any(legacy::Error::is_connect)
    };
    if unauthenticated || unconnected() { Cause::Unreachable } else { Cause::Broken }
}

/// An error and its sources in one line. Text that an outer error repeats is left out.
fn error_text(error: &kube::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for text in error_chain(error).map(ToString::to_string) {
        match parts.last_mut() {
            Some(outer) if outer.ends_with(&text) => {
                let kept_length = outer.len() - text.len();
                outer.truncate(kept_length);
                *outer = outer.trim_end_matches([':', ' ']).to_owned();
                parts.push(text);
            }
            _ => parts.push(text),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}

fn error_chain(error: &kube::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |error| (*error).source())
}
