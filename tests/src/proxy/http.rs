//! A proxy for the Kubernetes API. To its client it speaks plain HTTP, to the API server it is whom
//! it was told to be. One HTTP request is one request of the script.

use std::convert::Infallible;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use tokio::net::TcpStream;

use super::{
    Listener,
    script::{Moment, Request, Script, Verdict},
};
use crate::cluster;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// An answer that no server gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: StatusCode,
    /// Headers beside those that the body requires.
    pub headers: Vec<(&'static str, String)>,
    /// The body; JSON, if any.
    pub body: Bytes,
}

impl HttpAnswer {
    /// A bare status, as a load balancer in front of the API server would send it.
    pub fn status(status: StatusCode) -> Self {
        Self { status, headers: Vec::new(), body: Bytes::new() }
    }

    /// A `Status` object, as the API server would send it.
    pub fn failure(status: StatusCode, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {},
            "status": "Failure", "code": status.as_u16(), "reason": reason, "message": message,
        });
        Self { status, headers: Vec::new(), body: body.to_string().into() }
    }

    /// With one more header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A scripted proxy in front of an API server. Dropping it cuts all its connections.
#[derive(Debug)]
pub struct HttpProxy {
    listener: Listener,
    script: Script<HttpAnswer>,
}

impl HttpProxy {
    /// Forwards to where `upstream` sends its requests, as whom `upstream` sends them.
    ///
    /// # Panics
    ///
    /// When there is no free port.
    pub async fn to(upstream: Client) -> Self {
        let script = Script::default();
        let rules = script.clone();
        let listener =
            Listener::start(move |stream| serve(stream, upstream.clone(), rules.clone())).await;
        Self { listener, script }
    }

    /// What is to happen to which request.
    pub fn script(&self) -> &Script<HttpAnswer> {
        &self.script
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.listener.port)
    }

    /// The content of a kubeconfig for another process.
    pub fn kubeconfig(&self) -> String {
        xtask::servers::kubeconfig(&self.url(), None, None)
    }

    /// A client of this proxy.
    ///
    /// # Panics
    ///
    /// When it cannot be made.
    pub async fn client(&self) -> Client {
        cluster::client(&self.kubeconfig()).await
    }
}

async fn serve(stream: TcpStream, upstream: Client, script: Script<HttpAnswer>) {
    let service = service_fn(|request| answer(request, &upstream, &script));
    // An error is a cut connection, by the script or by the client; either side knows.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// An error makes hyper close the connection without an answer.
async fn answer(
    request: http::Request<Incoming>,
    upstream: &Client,
    script: &Script<HttpAnswer>,
) -> Result<Response<AnswerBody>, BoxError> {
    let (mut head, body) = request.into_parts();
    // A client that is gone before it has sent everything has not made a request.
    let body = body.collect().await?.to_bytes();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let request = script.receive(head.method.to_string(), target);
    if let Some(answer) = decide(script, Moment::BeforeForward, &request).await? {
        return Ok(answer);
    }
    for name in
        [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING]
    {
        head.headers.remove(name);
    }
    let answer = upstream.send(http::Request::from_parts(head, Body::from(body))).await?;
    if let Some(answer) = decide(script, Moment::BeforeAnswer, &request).await? {
        return Ok(answer);
    }
    // The body of a watch never ends, so it is passed on as it comes.
    Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

async fn decide(
    script: &Script<HttpAnswer>,
    moment: Moment,
    request: &Request,
) -> Result<Option<Response<AnswerBody>>, BoxError> {
    match script.perform(moment, request).await {
        Verdict::Continue => Ok(None),
        Verdict::Cut => Err("cut by the script".into()),
        Verdict::Answer(answer) => answer.into_response().map(Some),
    }
}

impl HttpAnswer {
    fn into_response(self) -> Result<Response<AnswerBody>, BoxError> {
        let Self { status, headers, body } = self;
        let mut response = Response::new(
            Full::new(body).map_err(|never: Infallible| match never {}).boxed_unsync(),
        );
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        for (name, value) in headers {
            response.headers_mut().insert(name, value.parse()?);
        }
        Ok(response)
    }
}
