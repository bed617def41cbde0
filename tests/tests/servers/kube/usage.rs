//! A Usage without Crossplane: an admission webhook that refuses deletions just as Crossplane's does.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::api::PostParams;
use kube::{Api, Client};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// The label by which Crossplane's webhook is asked about an object at all.
pub(super) const IN_USE: &str = "crossplane.io/in-use";

/// A webhook that refuses every deletion of what carries the label in one namespace. Dropping it lets them
/// through again.
pub(super) struct Usage {
    _server: JoinSet<()>,
}

impl Usage {
    /// Refuses in these words.
    pub(super) async fn of(admin: &Client, namespace: &str, words: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut server = JoinSet::new();
        let words = words.to_owned();
        server.spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(acceptor.clone(), stream, words.clone()));
            }
        });
        let name = format!("usage-{port}.{namespace}");
        let configuration = configuration(&name, namespace, port, &cert.pem());
        Api::<ValidatingWebhookConfiguration>::all(admin.clone())
            .create(&PostParams::default(), &serde_json::from_value(configuration).unwrap())
            .await
            .unwrap();
        Self { _server: server }
    }
}

fn configuration(name: &str, namespace: &str, port: u16, certificate: &str) -> Value {
    let bundle = k8s_openapi::ByteString(certificate.as_bytes().to_vec());
    json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "nousages.protection.crossplane.io",
            "rules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"],
                "resources": ["*"], "scope": "*",
            }],
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/"), "caBundle": bundle},
            "objectSelector": {"matchLabels": {IN_USE: "true"}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            // Nobody takes the configuration back, so it must not outlive the server in effect.
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }],
    })
}

async fn serve(acceptor: TlsAcceptor, stream: TcpStream, words: String) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| refuse(request, &words));
    // An error is a connection that the API server closed.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Crossplane puts its words where a reason belongs.
async fn refuse(
    request: Request<Incoming>,
    words: &str,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {
            "uid": review["request"]["uid"],
            "allowed": false,
            "status": {"code": 409, "reason": words},
        },
    });
    let mut response = Response::new(Full::new(answer.to_string().into()));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}
