//! A service that takes orders for machines over HTTP, with the broker embedded.

mod caller;
mod orders;
mod problem;
mod status;

use std::io;
use std::time::Duration;

use broker_embed::{ApiUrl, Broker, one_line};
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

pub use status::OrderStatus;

/// Where agents enrol.
const API_URL: &str = "https://mesh.example.org";

/// How long to wait before the broker is started again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The advisory lock under which replicas create the table. Any number that nothing else in this database uses.
const MIGRATION_LOCK: i64 = 0x6f72_6465_7273;

/// Creates the service's own table, unless it exists. Replicas may call it at the same time.
///
/// # Errors
///
/// When the database refuses.
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

/// Ready on Ctrl-C, and on SIGTERM, which ends a Pod. The handlers are installed before this returns.
///
/// # Errors
///
/// When a handler cannot be installed.
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

/// Serves HTTP and runs the broker until `shutdown` is ready.
///
/// HTTP ends first: requests under way may still declare. The broker then finishes its passes. A broker that cannot start
/// is started again after a pause, and HTTP goes on meanwhile: orders that the store takes are provisioned later.
///
/// # Errors
///
/// When HTTP cannot be served.
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
    let (served, ()) = tokio::join!(http, run_broker(broker, http_ended));
    served
}

/// Starts the broker until it runs, and runs it until HTTP has ended.
async fn run_broker(broker: Broker, http_ended: watch::Receiver<()>) {
    while let Err(error) = broker.run(ended(http_ended.clone())).await {
        tracing::error!(error = one_line(&error), "the broker does not run; retrying");
        if tokio::time::timeout(RETRY_AFTER, ended(http_ended.clone())).await.is_ok() {
            return;
        }
    }
}

/// Ready when the sender is gone.
async fn ended(mut sender: watch::Receiver<()>) {
    while sender.changed().await.is_ok() {}
}
