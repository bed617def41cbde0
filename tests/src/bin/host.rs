//! A process that embeds the broker as any service would: the unmodified runner over the shipped adapters, on a
//! database and an API server that its arguments name. Tests kill it.
//!
//! ```text
//! host NAME DSN KUBECONFIG SWEEP_MS POLL_MS LEASE_MS
//! ```
//!
//! It says `running` when it has booted its adapters, and ends in good order when its input ends.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use broker_embed::{ApiUrl, Broker, client_config};
use broker_ports::{Deadlines, WorkerId};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sqlx::postgres::PgPoolOptions;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Every wait for a collaborator; the lease is what really bounds a pass.
const PATIENCE: Duration = Duration::from_secs(30);

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
    let outcome = match arguments() {
        Ok(arguments) => run(arguments).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", broker_app::one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Outcome<Arguments> {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let [name, dsn, kubeconfig, sweep, poll, lease] = <[String; 6]>::try_from(given)
        .map_err(|given| format!("{} arguments were given; give six", given.len()))?;
    let time = |text: &str| text.parse().map(Duration::from_millis);
    let (sweep, poll, lease) = (time(&sweep)?, time(&poll)?, time(&lease)?);
    Ok(Arguments { name, dsn, kubeconfig, sweep, poll, lease })
}

async fn run(arguments: Arguments) -> Outcome<()> {
    let Arguments { name, dsn, kubeconfig, sweep, poll, lease } = arguments;
    let options = PgPoolOptions::new().max_connections(8).test_before_acquire(false);
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
            config.lease = lease;
            config.lease_margin = lease / 10;
            config.deadlines = Deadlines::each(lease.saturating_sub(lease / 10).min(PATIENCE));
            config.event_claim = 3 * PATIENCE;
            config.sweep_interval = sweep;
            config.poll_interval = poll;
            // Replicas that are killed on purpose meet one loss after the other.
            config.allowance.least = 1_000;
            config.allowance.most = 1_000;
        })
        .build()
        .await?;
    println!("running");
    broker.run(end_of_input()).await?;
    Ok(())
}

/// Whoever started this process has closed its input, or is gone.
async fn end_of_input() {
    let drained = tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
    // Whatever ended it, nobody is there any more.
    let _ = drained.await;
}
