//! Runs a replica: logging, metrics, the health server and the broker, until a stop signal.

mod counters;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use broker_app::LogEventSink;
use broker_ports::{Deadlines, EventSink};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing_subscriber::EnvFilter;

use crate::cli::RunArguments;
use crate::wiring::Wiring;
use crate::event_sink::HttpEventSink;
use crate::failure::Failure;
use crate::serve::{Health, ReplicaState, serve};
use crate::settings::Settings;
use crate::wiring::Wiring;

/// The timeout for requests in flight at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The interval at which the recorder moves samples into buckets. Between scrapes, samples would otherwise accumulate.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Histogram buckets in seconds: from one SQL statement to the boot of a machine.
const BUCKETS: [f64; 12] =
    [0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0];

/// Runs a replica until SIGTERM or SIGINT.
pub(crate) async fn run(
    settings: &Settings,
    arguments: &RunArguments,
    wiring: &dyn Wiring,
) -> Result<(), Failure> {
    let stop = stop_signal()?;
    let metrics = install(arguments)?;
    let listener = listen(settings.listen).await?;
    serve_and_replicate(settings, arguments, wiring, HealthServer { listener, metrics }, stop)
        .await
}

/// The listener and the metrics that the health server needs.
struct HealthServer {
    listener: TcpListener,
    metrics: PrometheusHandle,
}

async fn serve_and_replicate(
    settings: &Settings,
    arguments: &RunArguments,
    wiring: &dyn Wiring,
    HealthServer { listener, metrics }: HealthServer,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Failure> {
    let health = Health::starting();
    let (shutdown_sender, shutdown) = oneshot::channel::<()>();
    let server = serve(listener, health.clone(), metrics.clone(), async {
        // A sent value and a dropped sender both mean shutdown.
        let _ = shutdown.await;
    });
    let mut server = pin!(server);
    let result = tokio::select! {
        biased;
        result = run_replica(settings, arguments, wiring, &health, stop) => result,
        result = &mut server => result.map_err(|source| Failure::Process {
            operation: "serve health and metrics",
            source: source.into(),
        }),
        never = upkeep(&metrics) => match never {},
    };
    drop(shutdown_sender);
    // A client that keeps its connection open must not block the shutdown.
    let _ = timeout(DRAIN_TIMEOUT, server).await;
    result
}

async fn run_replica(
    settings: &Settings,
    arguments: &RunArguments,
    wiring: &dyn Wiring,
    health: &Health,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), Failure> {
    let stop = async {
        stop.await;
        tracing::info!("received a stop signal");
        health.set(ReplicaState::Stopping);
    };
    let Some(replica) = settings.replica()? else {
        tracing::info!("PLEXSPHERE_DSN is empty: this replica is inert");
        health.set(ReplicaState::Inert);
        stop.await;
        return Ok(());
    };
    let mut stop = pin!(stop);
    let broker = tokio::select! {
        biased;
        // No work has started, so there is nothing to finish.
        () = &mut stop => return Ok(()),
        built = wiring.replica(replica, arguments, event_sink(settings)?) => built?,
    };
    health.set(ReplicaState::Working(broker.probe()));
    broker.run(stop).await?;
    tracing::info!("stopped");
    Ok(())
}

fn event_sink(settings: &Settings) -> Result<Arc<dyn EventSink>, Failure> {
    let Some(url) = &settings.event_url else { return Ok(Arc::new(LogEventSink)) };
    tracing::info!(%url, "posting events");
    let sink = HttpEventSink::new(url.clone(), Deadlines::DEFAULT.deliver);
    let sink = sink.map_err(|source| Failure::Process {
        operation: "find certificates to trust for the event URL",
        source: source.into(),
    })?;
    Ok(Arc::new(sink))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| Failure::Listen { address, source })?;
    // With port 0, the operating system chose the port.
    let address = listener.local_addr().unwrap_or(address);
    tracing::info!(%address, "serving /livez, /readyz and /metrics");
    Ok(listener)
}

/// Installs logging and metrics of this process.
fn install(arguments: &RunArguments) -> Result<PrometheusHandle, Failure> {
    let process_failure = |operation, source| Failure::Process { operation, source };
    let filter = EnvFilter::builder().parse(&arguments.log);
    let filter = filter.map_err(|error| process_failure("read the log filter", error.into()))?;
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_env_filter(filter)
        .try_init()
        .map_err(|error| process_failure("start logging", error))?;
    let builder = PrometheusBuilder::new().set_buckets(&BUCKETS);
    let metrics = builder
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| process_failure("start metrics", error.into()))?;
    counters::register_at_zero();
    Ok(metrics)
}

/// Resolves at the first SIGTERM or SIGINT.
fn stop_signal() -> Result<impl Future<Output = ()> + Send, Failure> {
    let listen = |kind| {
        signal(kind).map_err(|source| Failure::Process {
            operation: "listen for signals",
            source: source.into(),
        })
    };
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

async fn upkeep(metrics: &PrometheusHandle) -> Infallible {
    let mut ticks = interval(UPKEEP_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        metrics.run_upkeep();
    }
}
