//! Delivers events over HTTP. The sink posts each envelope; a 2xx status acknowledges it.

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use broker_ports::{Envelope, EventSink, PortError};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, timeout};

use crate::settings::EventUrl;

/// The media type of an envelope in structured mode.
const CLOUD_EVENT: &str = "application/cloudevents+json; charset=utf-8";

/// The sink reads at most this much of a response body, only to keep the connection reusable.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The timeout for reading that body.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) struct HttpEventSink {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: EventUrl,
    deadline: Duration,
}

impl HttpEventSink {
    /// A sink with a timeout per delivery.
    ///
    /// # Errors
    ///
    /// The URL is `https` and the machine has no certificates to trust.
    pub(crate) fn new(url: EventUrl, deadline: Duration) -> io::Result<Self> {
        let mut trusted = RootCertStore::empty();
        // Plain `http` needs no certificates, and a machine may have none.
        if url.uri().scheme_str() == Some("https") {
            let found = rustls_native_certs::load_native_certs();
            if trusted.add_parsable_certificates(found.certs).0 == 0 {
                return Err(io::Error::other("the machine has no certificates to trust"));
            }
        }
        Self::trusting(trusted, url, deadline)
    }

    fn trusting(trusted: RootCertStore, url: EventUrl, deadline: Duration) -> io::Result<Self> {
        let config = ClientConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(trusted)
            .with_no_client_auth();
        let mut http = HttpConnector::new();
        http.enforce_http(false); // The TLS connector handles both schemes.
        // A connect timeout is `Transient`: nothing was sent. It must therefore end before the whole deadline, which is
        // `Unknown`.
        http.set_connect_timeout(Some(deadline / 2));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, url, deadline })
    }

    /// Sends the envelope and returns the response without its body.
    async fn post(&self, envelope: &Envelope) -> Result<Response<Incoming>, PortError> {
        let request = Request::post(self.url.uri())
            .header(CONTENT_TYPE, CLOUD_EVENT)
            .body(Full::new(Bytes::copy_from_slice(&envelope.json)))
            .map_err(|error| {
                // URL and headers are the same for every event, so the failure is not a rejection of this one.
                PortError::transient("cannot build the request").with_source(error)
            })?;
        self.client.request(request).await.map_err(|error| {
            if error.is_connect() {
                PortError::transient(format!("cannot connect to {}", self.url)).with_source(error)
            } else {
                let message = format!("the connection to {} broke", self.url);
                PortError::unknown(message).with_source(error)
            }
        })
    }

    fn classify<B>(&self, response: &Response<B>) -> Result<(), PortError> {
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let message = format!("{} answered {status}", self.url);
        if rejects_the_event(status) {
            return Err(PortError::rejected(message));
        }
        let error = PortError::transient(message);
        Err(match retry_after(response.headers()) {
            Some(wait) => error.with_retry_after(wait),
            None => error,
        })
    }
}

#[async_trait]
impl EventSink for HttpEventSink {
    async fn deliver(&self, envelope: &Envelope) -> Result<(), PortError> {
        let started = Instant::now();
        let response = timeout(self.deadline, self.post(envelope)).await.unwrap_or_else(|_| {
            let waited = humantime::format_duration(self.deadline);
            Err(PortError::unknown(format!("{} did not answer within {waited}", self.url)))
        })?;
        let result = self.classify(&response);
        // The status decides. The relay has the same deadline, so the body gets only part of the remaining time.
        let remaining = self.deadline.saturating_sub(started.elapsed()) / 2;
        let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect();
        let _ = timeout(remaining.min(BODY_TIMEOUT), body).await;
        result
    }
}

/// Whether the status rejects the event itself. Every other failure concerns the receiver, its address or our
/// permission: a retry succeeds once that is repaired.
fn rejects_the_event(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::UNPROCESSABLE_ENTITY
    )
}

/// Only the seconds form: the date form would need a clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
