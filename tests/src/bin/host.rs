//! A host process that embeds the broker: the unmodified runner over the shipped adapters, on the database
//! and API server that its arguments name. Tests kill it.
//!
//! ```text
//! host NAME DSN KUBECONFIG SWEEP_MS POLL_MS LEASE_MS
//! ```
//!
//! It prints `running` after it has started its adapters, and shuts down gracefully at the end of its
//! input.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use broker_embed::{ApiUrl, Broker, client_config};
use broker_ports::{Deadlines, WorkerId};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sqlx::postgres::PgPoolOptions;

type AnyResult<T> = Result<T, Box<dyn std::error::Error>>;

/// The timeout of every port call. The lease, which is shorter, bounds a pass.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Many such processes share one small Postgres.
const CONNECTIONS: u32 = 8;

/// See [`BrokerConfig::connections`](broker_embed::BrokerConfig::connections).
const WORKERS: usize = 2;

struct Arguments {
    name: String,
    dsn: String,
    kubeconfig: String,
    sweep: Duration,
    poll: Duration,
    lease: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match arguments() {
        Ok(arguments) => run(arguments).await,
        Err(error) => Err(error),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", broker_app::one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> AnyResult<Arguments> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [name, dsn, kubeconfig, sweep, poll, lease] = <[String; 6]>::try_from(arguments)
        .map_err(|arguments| format!("expected six arguments, got {}", arguments.len()))?;
    let parse = |milliseconds: &str| milliseconds.parse().map(Duration::from_millis);
    let (sweep, poll, lease) = (parse(&sweep)?, parse(&poll)?, parse(&lease)?);
    Ok(Arguments { name, dsn, kubeconfig, sweep, poll, lease })
}

async fn run(arguments: Arguments) -> AnyResult<()> {
    let Arguments { name, dsn, kubeconfig, sweep, poll, lease } = arguments;
    let options = PgPoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
    let pool = options.connect(&dsn).await?;
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(client_config(config, &name)?)?;
    let worker = WorkerId::new(name)?;
    let broker = Broker::builder(ApiUrl::new("https://mesh.example.org")?)
        .postgres(pool)
        .kubernetes(client)
        .configure(|config| {
            config.worker = worker;
            // Two lanes of two workers: one connection per pass, and four more.
            config.workers_per_lane = WORKERS;
            config.lease = lease;
            config.lease_margin = lease / 10;
            config.deadlines = Deadlines::each(lease.saturating_sub(lease / 10).min(TIMEOUT));
            config.event_claim = 3 * TIMEOUT;
            config.sweep_interval = sweep;
            config.poll_interval = poll;
            // The deletions of a test must not set the brake.
            config.allowance.min_permits = 1_000;
            config.allowance.max_permits = 1_000;
        })
        .build()
        .await?;
    println!("running");
    broker.run(end_of_input()).await?;
    Ok(())
}

/// Waits until the parent process closes the input or exits.
async fn end_of_input() {
    let end = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    // A failed read also means that the parent has exited.
    let _ = end.await;
}
