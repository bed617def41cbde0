//! Runs the broker and forwards its events until Ctrl-C or SIGTERM.

use broker_embed::postgres::{migrate, test_idle_connections};
use broker_embed::{ApiUrl, Broker, BrokerConfig, client_config};
use forward_events::HostOutbox;
use sqlx::postgres::PgPoolOptions;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dsn = std::env::args().nth(1).ok_or("give the DSN of a Postgres")?;
    let config = BrokerConfig::new(ApiUrl::new("https://mesh.example.org")?);
    // One connection more for each event that is forwarded at once.
    let connections = config.connections() + u32::from(config.deliveries_at_once.get());
    let pool = test_idle_connections(PgPoolOptions::new().max_connections(connections))
        .connect(&dsn)
        .await?;
    migrate::up(&pool).await?;

    let client = client_config(kube::Config::infer().await?, "forward-events/0.1")?;
    let broker = Broker::configured(config)
        .postgres(pool.clone())
        .kubernetes(kube::Client::try_from(client)?)
        .event_sink(HostOutbox::new(pool))
        .build()
        .await?;

    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = async {
        tokio::select! { _ = terminate.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
    };
    broker.run(shutdown).await?;
    Ok(())
}
