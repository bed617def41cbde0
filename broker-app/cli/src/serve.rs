//! Serves health and metrics over HTTP.
//!
//! The port may be reachable by untrusted clients: connections are limited in number and time, and no response quotes
//! an error of a dependency.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker_app::Probe;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The limit of concurrent connections. Others wait in the queue of the operating system.
const MAX_CONNECTIONS: usize = 64;

/// The timeout for the head of a request, and the idle timeout between two requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The server closes an older connection after the current request.
const MAX_CONNECTION_AGE: Duration = Duration::from_mins(1);

/// The timeout for that request, for clients that do not read the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The state of a replica, for its readiness.
#[derive(Clone)]
pub(crate) enum ReplicaState {
    Starting,
    /// Without a store: always ready.
    Inert,
    /// Readiness comes from the probe.
    Working(Probe),
    Stopping,
}

/// The replica state, shared by clones.
#[derive(Clone)]
pub(crate) struct Health(Arc<Mutex<ReplicaState>>);

impl Health {
    pub(crate) fn starting() -> Self {
        Self(Arc::new(Mutex::new(ReplicaState::Starting)))
    }

    pub(crate) fn set(&self, state: ReplicaState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// The body of `/readyz`: `Ok` means 200, `Err` means 503.
    fn readiness(&self) -> Result<&'static str, &'static str> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match state {
            ReplicaState::Inert => Ok("ok: inert, PLEXSPHERE_DSN is empty"),
            ReplicaState::Working(probe) => {
                probe.check().map(|()| "ok").map_err(|failure| failure.reason())
            }
            ReplicaState::Starting => Err("the replica is starting"),
            ReplicaState::Stopping => Err("the replica is stopping"),
        }
    }
}

/// Serves until `stop` resolves and the requests in flight are done.
pub(crate) async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: PrometheusHandle,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let service = TowerToHyperService::new(router(health, metrics));
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let stopping = watch::Sender::new(false);
    // Dropping this future drops the connections.
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            let slot = Arc::clone(&slots).acquire_owned().await.map_err(std::io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let stopping = stopping.subscribe();
                    connections.spawn(serve_connection(stream, service.clone(), stopping, slot));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        biased;
        () = stop => {}
        result = accept => return result,
    }
    drop(listener);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

async fn serve_connection(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    mut stopping: watch::Receiver<bool>,
    _slot: OwnedSemaphorePermit,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // The client caused the error and sees it.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => {}
        () = sleep(MAX_CONNECTION_AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(RESPONSE_TIMEOUT, connection).await;
}

fn router(health: Health, metrics: PrometheusHandle) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(readyz).with_state(health))
        .route("/metrics", get(scrape).with_state(metrics))
}

async fn readyz(State(health): State<Health>) -> Response {
    match health.readiness() {
        Ok(ready) => format!("{ready}\n").into_response(),
        Err(reason) => {
            let reason = format!("{}: {reason}\n", Probe::NAME);
            (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
        }
    }
}

async fn scrape(State(metrics): State<PrometheusHandle>) -> Response {
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, format)], metrics.render()).into_response()
}
