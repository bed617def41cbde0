//! A service that takes orders for machines over HTTP, with the broker embedded.

mod caller;
mod orders;
mod problem;
mod status;

use std::io;
use std::time::Duration;

use broker_embed::{ApiUrl, Broker, BrokerError, ErrorKind, one_line};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub use status::OrderStatus;

/// The URL at which agents enrol.
const API_URL: &str = "https://mesh.example.org";

/// The pause before the next start of the broker.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The advisory lock for the creation of the table: any number that is unique in this database.
const MIGRATION_LOCK: i64 = 0x6f72_6465_7273;

/// Creates the table of the service, unless it exists. Replicas may call it concurrently.
///
/// # Errors
///
/// The database rejects a statement.
pub async fn migrate(pool: &PgPool) -> Result<(), sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let lock = "SELECT pg_advisory_xact_lock($1)";
    sqlx::query(lock).bind(MIGRATION_LOCK).execute(&mut *transaction).await?;
    // `IF NOT EXISTS` would log a notice at each start.
    let exists = "SELECT to_regclass('public.orders') IS NOT NULL";
    let exists: bool = sqlx::query_scalar(exists).fetch_one(&mut *transaction).await?;
    if !exists {
        sqlx::raw_sql(include_str!("../schema.sql")).execute(&mut *transaction).await?;
    }
    transaction.commit().await
}

/// Installs the handlers and returns a future that resolves at Ctrl-C or SIGTERM, which ends a Pod.
///
/// # Errors
///
/// A handler cannot be installed.
pub fn shutdown_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Serves HTTP and runs the broker until `shutdown` resolves.
///
/// HTTP ends first, because running requests may still declare. The broker then finishes its passes. While store or cluster
/// do not answer, the start of the broker is retried. HTTP continues meanwhile, and stored orders are provisioned later.
///
/// # Errors
///
/// HTTP cannot be served, or the broker cannot start and a retry would not help.
pub async fn serve(
    pool: PgPool,
    client: kube::Client,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let broker = Broker::builder(ApiUrl::new(API_URL).map_err(io::Error::other)?)
        .postgres(pool.clone())
        .kubernetes(client)
        .event_sink(OrderStatus::new(pool.clone()))
        .build_unchecked()
        .map_err(io::Error::other)?;
    let routes = orders::routes(pool, broker.service().clone());
    let (http_runs, http_ended) = watch::channel(());
    let http = async {
        let served = axum::serve(listener, routes).with_graceful_shutdown(shutdown).await;
        drop(http_runs);
        served
    };
    let broker = async { run_broker(broker, http_ended).await.map_err(io::Error::other) };
    tokio::try_join!(http, broker)?;
    Ok(())
}

/// Starts the broker until it runs, and runs it until HTTP has ended.
async fn run_broker(broker: Broker, http_ended: watch::Receiver<()>) -> Result<(), BrokerError> {
    while let Err(error) = broker.run(ended(http_ended.clone())).await {
        if error.kind() != ErrorKind::Unavailable {
            return Err(error);
        }
        tracing::error!(error = one_line(&error), "the broker does not run; retrying");
        if tokio::time::timeout(RETRY_AFTER, ended(http_ended.clone())).await.is_ok() {
            break;
        }
    }
    Ok(())
}

/// Resolves when the sender is dropped.
async fn ended(mut sender: watch::Receiver<()>) {
    while sender.changed().await.is_ok() {}
}
