//! The smallest service that runs the broker on Postgres and Kubernetes.

use broker_embed::postgres::{migrate, test_idle_connections};
use broker_embed::{ApiUrl, Broker, BrokerConfig, client_config};
use sqlx::postgres::PgPoolOptions;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dsn = std::env::args().nth(1).ok_or("give the DSN of a Postgres")?;
    let config = BrokerConfig::new(ApiUrl::new("https://mesh.example.org")?);
    let pool = PgPoolOptions::new().max_connections(config.connections());
    let pool = test_idle_connections(pool).connect(&dsn).await?;
    migrate::up(&pool).await?;

    let client = client_config(kube::Config::infer().await?, "my-service/1.0")?;
    let broker = Broker::configured(config)
        .postgres(pool)
        .kubernetes(kube::Client::try_from(client)?)
        .build()
        .await?;
    let _service = broker.service().clone(); // for your handlers: provision, get, list, …

    let mut terminate = signal(SignalKind::terminate())?; // a Pod ends with SIGTERM
    let shutdown = async {
        tokio::select! { _ = terminate.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
    };
    broker.run(shutdown).await?;
    Ok(())
}
