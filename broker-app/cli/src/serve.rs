//! Health and metrics over HTTP, for the supervisor of the replicas and for Prometheus.
//!
//! The port may be reachable by strangers. Connections are limited in number and in time, and no answer quotes an error
//! of a dependency.

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

/// Connections at once. Later ones wait in the queue of the operating system.
const MOST_CONNECTIONS: usize = 64;

/// How long a client may take to send the head of a request, and how long it may be idle before the next one.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// A connection that is older is closed after the request that is under way.
const RENEW_AFTER: Duration = Duration::from_mins(1);

/// How long that request may take then: a client that does not read its answer ends here.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// After a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// What a replica is doing, as far as its readiness goes.
#[derive(Clone)]
pub(crate) enum ReplicaState {
    /// Not at work yet.
    Starting,
    /// There is no store, so there is nothing to do: ready at once, and for ever.
    Inert,
    /// At work; its probe knows how well.
    Working(Probe),
    /// On its way out: no new work should be counted on.
    Stopping,
}

/// Where a replica's standing is said and asked for. Clones are handles on the same one.
#[derive(Clone)]
pub(crate) struct Health(Arc<Mutex<ReplicaState>>);

impl Health {
    /// The health of a replica that starts.
    pub(crate) fn starting() -> Self {
        Self(Arc::new(Mutex::new(ReplicaState::Starting)))
    }

    /// Says what the replica does now.
    pub(crate) fn set(&self, standing: ReplicaState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    /// Whether the replica is ready: what to say, either way.
    fn readiness(&self) -> Result<&'static str, &'static str> {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match standing {
            ReplicaState::Inert => Ok("ok: inert, PLEXSPHERE_DSN is empty"),
            ReplicaState::Working(probe) => {
                probe.check().map(|()| "ok").map_err(|failure| failure.reason())
            }
            ReplicaState::Starting => Err("the replica is starting"),
            ReplicaState::Stopping => Err("the replica is stopping"),
        }
    }
}

/// Serves until `stop` is ready and the requests under way are answered.
pub(crate) async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: PrometheusHandle,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let service = TowerToHyperService::new(router(health, metrics));
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let stopping = watch::Sender::new(false);
    // Dropped with this future, and its connections with it.
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            let place = Arc::clone(&places).acquire_owned().await.map_err(std::io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let stopping = stopping.subscribe();
                    connections.spawn(answer(stream, service.clone(), stopping, place));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        biased;
        () = stop => {}
        closed = accept => return closed,
    }
    drop(listener);
    stopping.send_replace(true);
    while connections.join_next().await.is_some() {}
    Ok(())
}

/// Answers the requests of one connection.
async fn answer(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    mut stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // An error is the client's, and it knows.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stopping| *stopping) => {}
        () = sleep(RENEW_AFTER) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(ANSWER_WITHIN, connection).await;
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
        Err(why) => {
            let why = format!("{}: {why}\n", Probe::NAME);
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

async fn scrape(State(metrics): State<PrometheusHandle>) -> Response {
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, format)], metrics.render()).into_response()
}
