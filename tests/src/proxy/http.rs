//! A proxy for the Kubernetes API. Clients connect with plain HTTP; the proxy authenticates to the API
//! server with its upstream identity. One HTTP request is one request of the script.

use std::net::Ipv4Addr;

use http::{Response, header};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use tokio::net::TcpStream;

use super::{
    Listener,
    response::{BoxError, HttpResponse, ResponseBody, Socket},
    script::{Decision, InterceptPoint, Request, Script},
};
use crate::{cluster, wait::until};

/// A scripted proxy in front of an API server. Dropping it cuts all its connections.
#[derive(Debug)]
pub struct HttpProxy {
    listener: Listener,
    script: Script<HttpResponse>,
}

impl HttpProxy {
    /// A proxy that forwards to the server of `upstream`, with its identity.
    pub async fn start(upstream: Client) -> Self {
        let script = Script::default();
        let rules = script.clone();
        let listener =
            Listener::start(move |stream| serve(stream, upstream.clone(), rules.clone())).await;
        Self { listener, script }
    }

    /// The rules for requests.
    pub fn script(&self) -> &Script<HttpResponse> {
        &self.script
    }

    /// Closes the port permanently, and every connection: new connections are refused. The script and the
    /// recorded requests stay.
    ///
    /// # Panics
    ///
    /// When the port stays open.
    pub async fn close_port(&self) {
        self.listener.close();
        until("the port to be closed", || async {
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.listener.port)).await.err()
        })
        .await;
    }

    /// Cuts every connection, including watches, as a server does that stops. New connections are served by
    /// the script.
    pub fn hang_up(&self) {
        self.listener.hang_up();
    }

    /// The address of the proxy.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.listener.port)
    }

    /// The content of a kubeconfig for another process.
    pub fn kubeconfig(&self) -> String {
        broker_test_servers::servers::kubeconfig(&self.url(), None, None)
    }

    /// A client of this proxy.
    pub async fn client(&self) -> Client {
        cluster::client(&self.kubeconfig()).await
    }
}

async fn serve(stream: TcpStream, upstream: Client, script: Script<HttpResponse>) {
    let Ok(socket) = Socket::new(&stream) else { return };
    let service = service_fn(|request| handle(request, &upstream, &script, &socket));
    // An error means that the script or the client cut the connection.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Forwards a request, or follows its rules. An error makes hyper close the connection.
async fn handle(
    request: http::Request<Incoming>,
    upstream: &Client,
    script: &Script<HttpResponse>,
    socket: &Socket,
) -> Result<Response<ResponseBody>, BoxError> {
    let (mut head, body) = request.into_parts();
    // A client that disconnects before it has sent everything has not made a request.
    let body = body.collect().await?.to_bytes();
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let request = script.receive(head.method.to_string(), target);
    if let Some(response) = decide(script, InterceptPoint::BeforeForward, &request).await? {
        return response.send(None, socket).await;
    }
    for name in
        [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING]
    {
        head.headers.remove(name);
    }
    let response = upstream.send(http::Request::from_parts(head, Body::from(body))).await?;
    // The body of a watch never ends, so it is streamed.
    let response = response.map(|body| body.map_err(BoxError::from).boxed_unsync());
    match decide(script, InterceptPoint::BeforeResponse, &request).await? {
        None => Ok(response),
        Some(other) => other.send(Some(response), socket).await,
    }
}

async fn decide(
    script: &Script<HttpResponse>,
    moment: InterceptPoint,
    request: &Request,
) -> Result<Option<HttpResponse>, BoxError> {
    match script.perform(moment, request).await {
        Decision::Continue => Ok(None),
        Decision::Cut => Err("cut by the script".into()),
        Decision::Respond(response) => Ok(Some(response)),
    }
}
