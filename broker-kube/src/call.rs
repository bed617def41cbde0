//! One request to the API server: sent once, with a deadline, and with every kind of failure told apart.

use std::error::Error as StdError;
use std::num::NonZeroU32;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use hyper_util::client::legacy;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use crate::answer::Answer;
use crate::body::collect;
use crate::error::{Cause, Failure, RequestLabel, Verb};

/// Objects per list page, by default.
const PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).expect("it is not zero");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Whole,
    /// Metadata only: an answer without a spec holds no secret.
    Metadata,
}

impl Detail {
    /// Accepts the full object, too: an API server without partial metadata sends that.
    const fn accept(self, list: bool) -> &'static str {
        match (self, list) {
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
        asked: &RequestLabel,
        path: &str,
        extent: Detail,
    ) -> Result<Answer, Failure> {
        let answer = self.get_within(asked, path, extent, usize::MAX).await?;
        answer.ok_or_else(|| asked.failed(Cause::Unreadable, "the answer exceeds the size limit"))
    }

    /// As [`get`](Self::get), but `None` if the answer has more bytes than `most`.
    pub(crate) async fn get_within(
        &self,
        asked: &RequestLabel,
        path: &str,
        extent: Detail,
        most: usize,
    ) -> Result<Option<Answer>, Failure> {
        let is_list = asked.verb() == Verb::List;
        let request = Request::get(path).header(ACCEPT, extent.accept(is_list));
        // Boxed: a caller holds the futures of many concurrent reads.
        Box::pin(self.send(asked, request.body(Body::empty()), most)).await
    }

    /// Sends a body to a path. The body may hold a secret, so it is never logged.
    pub(crate) async fn put(
        &self,
        asked: &RequestLabel,
        (method, path): (Method, &str),
        (content_type, body): (&str, Vec<u8>),
        extent: Detail,
    ) -> Result<Answer, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, extent.accept(false))
            .header(CONTENT_TYPE, content_type);
        let answer = self.send(asked, request.body(Body::from(body)), usize::MAX).await?;
        answer.ok_or_else(|| asked.failed(Cause::Unreadable, "the answer exceeds the size limit"))
    }

    /// Sends one request once. `None` if the answer has more bytes than `most`.
    async fn send(
        &self,
        asked: &RequestLabel,
        request: http::Result<Request<Body>>,
        most: usize,
    ) -> Result<Option<Answer>, Failure> {
        let request = request.map_err(|error| {
            asked.failed(Cause::Unaddressable, &format!("the request cannot be built: {error}"))
        })?;
        let limit = match asked.verb() {
            Verb::Apply | Verb::Delete => self.options.write_deadline,
            Verb::Get | Verb::List | Verb::Discover | Verb::DryRun => self.options.read_deadline,
        };
        let exchange = async {
            let (head, body) = self.client.send(request).await?.into_parts();
            let body = collect(body, most).await?;
            let answer = body.map(|body| Answer::new(head.status, &head.headers, body));
            Ok::<_, kube::Error>(answer)
        };
        match timeout(limit, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(asked.failed(transport(&error), &describe(&error))),
            Err(_) => {
                let text = format!("no answer within {limit:?}");
                Err(asked.failed(Cause::Deadline, &text))
            }
        }
    }
}

/// Classifies a transport error. `Unreachable` needs proof that nothing was sent.
fn transport(error: &kube::Error) -> Cause {
    // Without credentials no request was sent.
    let unauthenticated = matches!(error, kube::Error::Auth(_));
    let unconnected =
        || chain(error).filter_map(|error| error.downcast_ref()).any(legacy::Error::is_connect);
    if unauthenticated || unconnected() { Cause::Unreachable } else { Cause::Broken }
}

/// An error and its sources in one line, without the text that an outer error repeats.
fn describe(error: &kube::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for text in chain(error).map(ToString::to_string) {
        match parts.last_mut() {
            Some(outer) if outer.ends_with(&text) => {
                let kept = outer.len() - text.len();
                outer.truncate(kept);
                *outer = outer.trim_end_matches([':', ' ']).to_owned();
                parts.push(text);
            }
            _ => parts.push(text),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}

fn chain(error: &kube::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |error| (*error).source())
}
