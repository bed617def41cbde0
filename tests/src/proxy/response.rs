//! Replacements of the server's response: a canned response, a truncated one, or a broken connection.

use std::{
    convert::Infallible,
    io::{self, Write},
    os::fd::AsFd,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Frame};
use rustix::net::sockopt::set_socket_linger;
use tokio::net::TcpStream;

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// The replacement of the server's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    content: Content,
    end: BodyEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// A canned response. The body is JSON or empty.
    Canned { status: StatusCode, headers: Vec<(&'static str, String)>, body: Bytes },
    /// The server's response.
    FromServer,
    /// A TCP reset.
    Reset,
    /// Part of a head, then silence.
    PartialHead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Complete,
    Cut { after: usize },
    Stall { after: usize },
}

impl HttpResponse {
    /// A bare status, as a load balancer in front of the API server would send it.
    pub fn status(status: StatusCode) -> Self {
        Self::canned(status, Bytes::new())
    }

    /// A `Status` object, as the API server would send it.
    pub fn failure(status: StatusCode, reason: &str, message: &str) -> Self {
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "Status", "metadata": {},
            "status": "Failure", "code": status.as_u16(), "reason": reason, "message": message,
        });
        Self::canned(status, body.to_string())
    }

    /// A success with this body.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::canned(StatusCode::OK, body)
    }

    fn canned(status: StatusCode, body: impl Into<Bytes>) -> Self {
        let content = Content::Canned { status, headers: Vec::new(), body: body.into() };
        Self { content, end: BodyEnd::Complete }
    }

    /// The server's own response, to be truncated. Only for a rule with `before_response`.
    pub fn from_server() -> Self {
        Self { content: Content::FromServer, end: BodyEnd::Complete }
    }

    /// A TCP reset, as a host sends that has lost the connection.
    pub fn reset() -> Self {
        Self { content: Content::Reset, end: BodyEnd::Complete }
    }

    /// A status line and half a header, then silence until the client gives up.
    pub fn partial_head() -> Self {
        Self { content: Content::PartialHead, end: BodyEnd::Complete }
    }

    /// Adds a header to a canned response.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        if let Content::Canned { headers, .. } = &mut self.content {
            headers.push((name, value.into()));
        }
        self
    }

    /// Cuts the connection after `bytes` of the body.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.end = BodyEnd::Cut { after: bytes };
        self
    }

    /// Sends nothing after `bytes` of the body and keeps the connection open.
    #[must_use]
    pub fn stalled_after(mut self, bytes: usize) -> Self {
        self.end = BodyEnd::Stall { after: bytes };
        self
    }

    /// Sends the response. An error makes hyper close the connection.
    pub(super) async fn send(
        self,
        servers: Option<Response<ResponseBody>>,
        socket: &Socket,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let Self { content, end } = self;
        let response = match (content, servers) {
            (Content::Canned { status, headers, body }, _) => canned(status, headers, body)?,
            (Content::FromServer, Some(response)) => response,
            (Content::FromServer, None) => {
                return Err("the server has not received the request yet".into());
            }
            (Content::Reset, _) => {
                socket.reset_when_closed()?;
                return Err("reset by the script".into());
            }
            (Content::PartialHead, _) => {
                socket.write(b"HTTP/1.1 200 OK\r\nContent-Ty")?;
                std::future::pending().await
            }
        };
        Ok(response.map(|body| match end {
            BodyEnd::Complete => body,
            BodyEnd::Cut { after } | BodyEnd::Stall { after } => {
                TruncatedBody { body, remaining: after, end }.boxed_unsync()
            }
        }))
    }
}

fn canned(
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    body: Bytes,
) -> Result<Response<ResponseBody>, BoxError> {
    let body = Full::new(body).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    for (name, value) in headers {
        response.headers_mut().insert(name, value.parse()?);
    }
    Ok(response)
}

/// A truncated body.
struct TruncatedBody {
    body: ResponseBody,
    remaining: usize,
    end: BodyEnd,
}

impl Body for TruncatedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.remaining == 0 {
            return match self.end {
                BodyEnd::Stall { .. } => Poll::Pending,
                BodyEnd::Complete | BodyEnd::Cut { .. } => {
                    Poll::Ready(Some(Err("cut by the script".into())))
                }
            };
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        Poll::Ready(frame.map(|frame| {
            Ok(frame?.map_data(|mut data| {
                let kept = data.copy_to_bytes(self.remaining.min(data.len()));
                self.remaining -= kept.len();
                kept
            }))
        }))
    }
}

/// A second handle on a connection that hyper owns, for what hyper cannot do.
pub(super) struct Socket(std::net::TcpStream);

impl Socket {
    pub(super) fn new(stream: &TcpStream) -> io::Result<Self> {
        Ok(Self(stream.as_fd().try_clone_to_owned()?.into()))
    }

    /// From now on, closing the connection sends a reset instead of a regular end.
    fn reset_when_closed(&self) -> io::Result<()> {
        Ok(set_socket_linger(&self.0, Some(Duration::ZERO))?)
    }

    /// Writes a few bytes, bypassing hyper. They fit into the socket buffer, which is still empty.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }
}
