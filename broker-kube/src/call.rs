//! How a request reaches the API server: once, with a deadline, and with every way to fail told apart.

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
use crate::error::{Asked, Cause, Failure, Verb};

/// How many objects a page of a list holds, unless somebody chooses.
const PAGE_SIZE: NonZeroU32 = NonZeroU32::new(500).expect("it is not zero");

/// How much of an object an answer shall hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// Its metadata, where nothing else is looked at: an answer without a spec holds no secret.
    Metadata,
}

impl Extent {
    /// An API server that cannot leave anything out may answer everything.
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

/// How the adapter behaves. Only the composition root knows how slow its API server may be.
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
    /// How long one request may take that reads. A call of the port may need several.
    pub read_deadline: Duration,
    /// How long one request may take that writes.
    pub write_deadline: Duration,
    /// How many objects a page of a list holds.
    pub page_size: NonZeroU32,
}

impl KubeOptions {
    /// With these deadlines, and pages of 500.
    pub const fn new(read_deadline: Duration, write_deadline: Duration) -> Self {
        Self { read_deadline, write_deadline, page_size: PAGE_SIZE }
    }

    /// With pages of another size.
    #[must_use]
    pub const fn with_page_size(self, page_size: NonZeroU32) -> Self {
        Self { page_size, ..self }
    }
}

/// An API server, and how it is called.
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

    /// Asks for what stands at a path.
    pub(crate) async fn get(
        &self,
        asked: &Asked,
        path: &str,
        extent: Extent,
    ) -> Result<Answer, Failure> {
        let answer = self.get_within(asked, path, extent, usize::MAX).await?;
        answer.ok_or_else(|| asked.failed(Cause::Unreadable, "the answer has no end"))
    }

    /// As [`get`](Self::get), unless the answer has more bytes than `most`: then `None`.
    pub(crate) async fn get_within(
        &self,
        asked: &Asked,
        path: &str,
        extent: Extent,
        most: usize,
    ) -> Result<Option<Answer>, Failure> {
        let is_list = asked.verb() == Verb::List;
        let request = Request::get(path).header(ACCEPT, extent.accept(is_list));
        // Boxed: a caller holds the futures of many reads side by side.
        Box::pin(self.send(asked, request.body(Body::empty()), most)).await
    }

    /// Sends a body to a path. The body may hold a secret; it goes out as it is and is seen by nobody.
    pub(crate) async fn put(
        &self,
        asked: &Asked,
        (method, path): (Method, &str),
        (content_type, body): (&str, Vec<u8>),
        extent: Extent,
    ) -> Result<Answer, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(ACCEPT, extent.accept(false))
            .header(CONTENT_TYPE, content_type);
        let answer = self.send(asked, request.body(Body::from(body)), usize::MAX).await?;
        answer.ok_or_else(|| asked.failed(Cause::Unreadable, "the answer has no end"))
    }

    /// One request, sent once; `None` if the answer has more bytes than `most`.
    async fn send(
        &self,
        asked: &Asked,
        request: http::Result<Request<Body>>,
        most: usize,
    ) -> Result<Option<Answer>, Failure> {
        let request = request.map_err(|error| {
            asked.failed(Cause::Unaddressable, &format!("no request can be made of it: {error}"))
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
            Ok(Err(error)) => Err(asked.failed(transport(&error), &words(&error))),
            Err(_) => {
                let words = format!("no answer within {limit:?}");
                Err(asked.failed(Cause::Deadline, &words))
            }
        }
    }
}

/// Whether anything was sent. Only what provably was not counts as unreachable.
fn transport(error: &kube::Error) -> Cause {
    // Without credentials there was no request either.
    let nobody = matches!(error, kube::Error::Auth(_));
    let unconnected =
        || chain(error).filter_map(|error| error.downcast_ref()).any(legacy::Error::is_connect);
    if nobody || unconnected() { Cause::Unreachable } else { Cause::Broken }
}

/// An error and its causes in one line, without what the outer ones repeat of the inner.
fn words(error: &kube::Error) -> String {
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
