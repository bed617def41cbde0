//! The smallest service that runs the broker on Postgres and Kubernetes.

use broker_embed::postgres::{migrate, resilient};
use broker_embed::{ApiUrl, Broker, client_config};
use sqlx::postgres::PgPoolOptions;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dsn = std::env::args().nth(1).ok_or("give the DSN of a Postgres")?;
    // Two lanes of eight workers, and four more.
    let pool = resilient(PgPoolOptions::new().max_connections(20)).connect(&dsn).await?;
    migrate::up(&pool).await?;

    let config = client_config(kube::Config::infer().await?, "my-service/1.0")?;
    let broker = Broker::builder(ApiUrl::new("https://mesh.example.org")?)
        .postgres(pool)
        .kubernetes(kube::Client::try_from(config)?)
        .build()
        .await?;
    let _service = broker.service().clone(); // for your handlers: provision, get, list, …

    broker.run(async { drop(tokio::signal::ctrl_c().await) }).await?;
    Ok(())
}
