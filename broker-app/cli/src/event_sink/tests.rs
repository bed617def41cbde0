//! The HTTP sink against a server on loopback: the port contract, and the error class of each response.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response as AxumResponse};
use axum::routing::post;
use broker_domain::{EventType, ProvisionedResourceId};
use broker_ports::FailureClass;
use broker_testkit::builders::id;
use broker_testkit::event_sink::{EventSinkUnderTest, suite};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::settings::{EVENT_URL, Settings};

const DEADLINE: Duration = Duration::from_secs(5);

fn event_url(text: String) -> EventUrl {
    let environment = BTreeMap::from([(EVENT_URL.to_owned(), text)]);
    Settings::read(&environment).unwrap().event_url.unwrap()
}

fn sink_to(address: SocketAddr, deadline: Duration) -> HttpEventSink {
    HttpEventSink::new(event_url(format!("http://{address}/hook?key=hush")), deadline).unwrap()
}

fn envelope() -> Envelope {
    Envelope::new(id(1), EventType::Ready, id(2), 1, b"{}".to_vec())
}

/// The received bodies; the server checks the headers.
type ReceivedBodies = Arc<Mutex<Vec<Bytes>>>;

async fn accept_event(
    State(received_bodies): State<ReceivedBodies>,
    headers: HeaderMap,
    body: Bytes,
) -> AxumResponse {
    if headers.get(CONTENT_TYPE).is_none_or(|given| given != CLOUD_EVENT) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    received_bodies.lock().unwrap().push(body);
    StatusCode::ACCEPTED.into_response()
}

struct SinkWithServer {
    sink: HttpEventSink,
    received_bodies: ReceivedBodies,
    /// Dropping the sender makes the server close every connection; the task ends with the last one.
    server: Mutex<Option<(oneshot::Sender<()>, JoinSet<()>)>>,
}

impl SinkWithServer {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let sink = sink_to(listener.local_addr().unwrap(), DEADLINE);
        let received_bodies = ReceivedBodies::default();
        let router =
            Router::new().route("/hook", post(accept_event)).with_state(received_bodies.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let stopped = async { stopped.await.unwrap_or_default() };
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
        });
        Self { sink, received_bodies, server: Mutex::new(Some((stop, server))) }
    }
}

#[async_trait]
impl EventSinkUnderTest for SinkWithServer {
    fn sink(&self) -> &dyn EventSink {
        &self.sink
    }

    async fn received(&self, resource: ProvisionedResourceId) -> Result<Vec<Vec<u8>>, PortError> {
        let subject = resource.to_string();
        let received_bodies = self.received_bodies.lock().unwrap();
        // A malformed envelope names no resource; its contract case sends only that one.
        let of_resource = |body: &&Bytes| {
            let text = String::from_utf8_lossy(body);
            text.contains(&subject) || !text.contains("specversion")
        };
        Ok(received_bodies.iter().filter(of_resource).map(|body| body.to_vec()).collect())
    }

    async fn cut_off(&self) -> Result<(), PortError> {
        let server = self.server.lock().unwrap().take();
        if let Some((stop, mut server)) = server {
            drop(stop);
            server.join_next().await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn http_sink_keeps_the_event_sink_contract() {
    suite().run(SinkWithServer::new).await.assert_passed();
}

/// What the server does with the connection after its response.
#[derive(Clone, Copy)]
enum AfterResponse {
    Close,
    KeepOpen,
}

/// A server that reads one request and responds with these bytes.
async fn server_with_response(
    response: &str,
    after: AfterResponse,
    deadline: Duration,
) -> (HttpEventSink, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sink = sink_to(listener.local_addr().unwrap(), deadline);
    let (response, mut server) = (response.to_owned(), JoinSet::new());
    server.spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            connection.write_all(response.as_bytes()).await.unwrap();
            if let AfterResponse::KeepOpen = after {
                std::future::pending::<()>().await;
            }
        }
    });
    (sink, server)
}

#[tokio::test]
async fn only_400_413_415_and_422_reject_the_event() {
    let (rejected, transient) = (Some(FailureClass::Rejected), Some(FailureClass::Transient));
    let statuses: [(&[u16], Option<FailureClass>); 3] = [
        (&[200, 204], None),
        (&[400, 413, 415, 422], rejected),
        // These concern the receiver, its address or our permission, not the event.
        (&[401, 403, 404, 405, 408, 409, 410, 425, 429, 500, 503], transient),
    ];
    let mut rows = vec![
        // The sink follows no redirect: the operator must change the URL.
        ("HTTP/1.1 302 Found\r\nlocation: /other\r\n\r\n".to_owned(), transient),
        // The request was sent; its effect is unknown.
        (String::new(), Some(FailureClass::Unknown)),
        ("not HTTP\r\n\r\n".to_owned(), Some(FailureClass::Unknown)),
    ];
    for (statuses, class) in statuses {
        let response = |status| format!("HTTP/1.1 {status} Reason\r\ncontent-length: 0\r\n\r\n");
        rows.extend(statuses.iter().map(|status| (response(status), class)));
    }
    for (response, expected) in rows {
        let (sink, _server) = server_with_response(&response, AfterResponse::Close, DEADLINE).await;
        let delivered = sink.deliver(&envelope()).await;
        assert_eq!(delivered.as_ref().err().map(PortError::class), expected, "{response:?}");
        if let Err(error) = delivered {
            let line = broker_app::one_line(&error);
            assert!(!line.contains("hush") && !line.contains('\n'), "{line}");
        }
    }
}

#[tokio::test]
async fn delivery_failure_has_its_class_and_message() {
    let (sink, _server) =
        server_with_response("", AfterResponse::KeepOpen, Duration::from_millis(200)).await;
    let error = sink.deliver(&envelope()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Unknown);
    assert!(error.to_string().ends_with("did not answer within 200ms"), "{error}");

    let response = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 17\r\n\r\n";
    let (sink, _server) = server_with_response(response, AfterResponse::Close, DEADLINE).await;
    let error = sink.deliver(&envelope()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(17)));

    let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = sink_to(unused, DEADLINE).deliver(&envelope()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Transient);
    assert_eq!(error.to_string(), format!("cannot connect to http://{unused}"));
}

#[tokio::test]
async fn https_connects_only_to_trusted_servers() {
    let generated = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = generated.cert.der().clone();
    let key = generated.signing_key.serialize_der().try_into().unwrap();
    let config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A client that trusts no certificate hangs up.
            let Ok(mut connection) = acceptor.accept(connection).await else { continue };
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    });
    let url = event_url(format!("https://localhost:{port}/hook"));
    let mut trusted = RootCertStore::empty();
    trusted.add(certificate).unwrap();
    let sink = HttpEventSink::trusting(trusted, url.clone(), DEADLINE).unwrap();
    sink.deliver(&envelope()).await.unwrap();

    let sink = HttpEventSink::trusting(RootCertStore::empty(), url, DEADLINE).unwrap();
    let error = sink.deliver(&envelope()).await.unwrap_err();
    assert_eq!(error.class(), FailureClass::Transient, "{}", broker_app::one_line(&error));
}

/// The status decides; an endless body does not change the result.
#[tokio::test]
async fn status_decides_although_the_body_never_ends() {
    let rows = [
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n.\r\n", None),
        (
            "HTTP/1.1 422 Unprocessable Content\r\ncontent-length: 9\r\n\r\n.",
            Some(FailureClass::Rejected),
        ),
    ];
    for (response, expected) in rows {
        let deadline = Duration::from_millis(500);
        let (sink, _server) =
            server_with_response(response, AfterResponse::KeepOpen, deadline).await;
        // The relay's timeout equals the sink's.
        let delivered = timeout(deadline, sink.deliver(&envelope()))
            .await
            .expect("a delivery within the timeout");
        assert_eq!(delivered.err().map(|error| error.class()), expected, "{response:?}");
    }
}
