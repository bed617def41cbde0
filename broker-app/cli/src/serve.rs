//! Health and metrics over HTTP, for whoever keeps replicas alive and watches them.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use broker_app::Probe;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

/// What a replica is doing, as far as its readiness goes.
#[derive(Clone)]
pub(crate) enum Standing {
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
pub(crate) struct Health(Arc<Mutex<Standing>>);

impl Health {
    /// The health of a replica that starts.
    pub(crate) fn starting() -> Self {
        Self(Arc::new(Mutex::new(Standing::Starting)))
    }

    /// Says what the replica does now.
    pub(crate) fn set(&self, standing: Standing) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }

    /// Whether the replica is ready: what to say, either way.
    fn readiness(&self) -> Result<&'static str, String> {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match standing {
            Standing::Inert => Ok("ok: inert, PLEXSPHERE_DSN is empty"),
            Standing::Working(probe) => {
                probe.check().map(|()| "ok").map_err(|failure| failure.to_string())
            }
            Standing::Starting => Err(format!("{}: the replica is starting", Probe::NAME)),
            Standing::Stopping => Err(format!("{}: the replica is stopping", Probe::NAME)),
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
    axum::serve(listener, router(health, metrics)).with_graceful_shutdown(stop).await
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
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn scrape(State(metrics): State<PrometheusHandle>) -> Response {
    let format = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, format)], metrics.render()).into_response()
}
