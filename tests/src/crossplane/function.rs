//! A composition function that reports a terminal failure of a composite resource. No other component of the
//! harness sets such a condition.
//!
//! The protocol is one gRPC method over HTTP/2 with mutual TLS. The message types have only the fields that
//! the function uses; the desired state is passed on as bytes.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use h2::server::{Connection, SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::failure::OrFail;

/// The function's name in Compositions.
pub(super) const NAME: &str = "function-outcome";

/// The parameter of a composite resource that holds the reason of its failure.
const FAULT_PARAMETER: &str = "fault";

/// The condition type of a terminal failure.
const FAILURE_CONDITION: &str = "ProvisioningFailed";

/// The gRPC message prefix: a compression flag and the length.
const MESSAGE_PREFIX: usize = 5;

/// Serves on a thread until the process ends. Returns the port.
pub(super) fn serve(certificates: &Path) -> u16 {
    let config = Arc::new(tls(certificates));
    let (port_sender, port_receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.or_fail("cannot build a runtime for the function").block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
            let listener = listener.or_fail("cannot listen for the function");
            let address = listener.local_addr().or_fail("cannot read the function's address");
            port_sender.send(address.port()).or_fail("cannot send the function's port");
            let acceptor = TlsAcceptor::from(config);
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve_connection(acceptor.clone(), stream));
            }
        });
    });
    port_receiver.recv().or_fail("the function does not serve")
}

fn tls(certificates: &Path) -> ServerConfig {
    let read = |name: &str| {
        let path = certificates.join(name);
        std::fs::read(&path).or_fail(path.display())
    };
    let certificate = |name: &str| CertificateDer::from_pem_slice(&read(name)).or_fail(name);
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.crt")).or_fail("the run's authority");
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key")).or_fail("tls.key");
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .or_fail("TLS")
        .with_client_cert_verifier(clients.build().or_fail("TLS of clients"))
        .with_single_cert(vec![certificate("tls.crt")], key)
        .or_fail("the run's certificate");
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

/// Serves calls until Crossplane closes the connection.
async fn serve_connection(acceptor: TlsAcceptor, stream: TcpStream) -> Option<()> {
    let stream = acceptor.accept(stream).await.ok()?;
    let mut connection: Connection<_, Bytes> = h2::server::handshake(stream).await.ok()?;
    let mut calls = JoinSet::new();
    while let Some(Ok((request, sender))) = connection.accept().await {
        calls.spawn(handle_call(request, sender));
    }
    Some(())
}

async fn handle_call(
    request: Request<h2::RecvStream>,
    mut sender: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let mut body = request.into_body();
    let mut message = BytesMut::new();
    while let Some(part) = body.data().await.transpose()? {
        body.flow_control().release_capacity(part.len())?;
        message.extend_from_slice(&part);
    }
    let request = RunFunctionRequest::decode(message.get(MESSAGE_PREFIX..).unwrap_or_default());
    let response = request.map(report_failure).unwrap_or_default().encode_to_vec();
    let mut framed = BytesMut::with_capacity(MESSAGE_PREFIX + response.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(response.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(&response);

    let mut head = Response::new(());
    let grpc = HeaderValue::from_static("application/grpc");
    head.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    let mut stream = sender.send_response(head, false)?;
    stream.send_data(framed.freeze(), false)?;
    let status = (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    stream.send_trailers(HeaderMap::from_iter([status]))
}

/// Keeps the desired state and turns a fault in the parameters into a condition.
fn report_failure(request: RunFunctionRequest) -> RunFunctionResponse {
    let RunFunctionRequest { meta, observed, desired } = request;
    let composite = observed.and_then(|observed| observed.composite?.resource);
    let fault = composite.and_then(|xr| {
        let mut parameters = object_field(object_field(xr, "spec")?, "parameters")?;
        text(parameters.fields.remove(FAULT_PARAMETER)?)
    });
    let conditions = fault.map(|message| Condition {
        kind: FAILURE_CONDITION.to_owned(),
        status: Status::True.into(),
        reason: FAILURE_CONDITION.to_owned(),
        message: Some(message),
    });
    RunFunctionResponse {
        meta: Some(ResponseMeta { tag: meta.map(|meta| meta.tag).unwrap_or_default() }),
        desired,
        conditions: conditions.into_iter().collect(),
    }
}

fn object_field(mut object: Struct, field: &str) -> Option<Struct> {
    let Kind::StructValue(inner) = object.fields.remove(field)?.kind? else { return None };
    Some(inner)
}

fn text(value: Value) -> Option<String> {
    let Kind::StringValue(text) = value.kind? else { return None };
    (!text.is_empty()).then_some(text)
}

#[derive(Clone, PartialEq, Message)]
struct RunFunctionRequest {
    #[prost(message, optional, tag = "1")]
    meta: Option<ResponseMeta>,
    #[prost(message, optional, tag = "2")]
    observed: Option<State>,
    /// Passed on unparsed.
    #[prost(bytes = "vec", tag = "3")]
    desired: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RunFunctionResponse {
    #[prost(message, optional, tag = "1")]
    meta: Option<ResponseMeta>,
    #[prost(bytes = "vec", tag = "2")]
    desired: Vec<u8>,
    #[prost(message, repeated, tag = "6")]
    conditions: Vec<Condition>,
}

/// The tag that links request and response.
#[derive(Clone, PartialEq, Message)]
struct ResponseMeta {
    #[prost(string, tag = "1")]
    tag: String,
}

#[derive(Clone, PartialEq, Message)]
struct State {
    #[prost(message, optional, tag = "1")]
    composite: Option<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, optional, tag = "1")]
    resource: Option<Struct>,
}

#[derive(Clone, PartialEq, Message)]
struct Condition {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(enumeration = "Status", tag = "2")]
    status: i32,
    #[prost(string, tag = "3")]
    reason: String,
    #[prost(string, optional, tag = "4")]
    message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Status {
    Unspecified = 0,
    Unknown = 1,
    True = 2,
    False = 3,
}
