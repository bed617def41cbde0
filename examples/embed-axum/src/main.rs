//! Connects, migrates and serves until Ctrl-C or SIGTERM.

use broker_embed::postgres::{migrate, test_idle_connections};
use broker_embed::{BrokerConfig, client_config};
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let mut arguments = std::env::args().skip(1);
    let (Some(dsn), Some(listen)) = (arguments.next(), arguments.next()) else {
        return Err("give a DSN and an address to listen at".into());
    };
    // The connections of the broker, and ten for the orders.
    let connections = BrokerConfig::default().connections() + 10;
    let pool = PgPoolOptions::new().max_connections(connections);
    let pool = test_idle_connections(pool).connect(&dsn).await?;
    migrate::up(&pool).await?;
    embed_axum::migrate(&pool).await?;
    let config = client_config(kube::Config::infer().await?, "embed-axum/0.1")?;
    let client = kube::Client::try_from(config)?;
    let listener = TcpListener::bind(listen).await?;
    embed_axum::serve(pool, client, listener, embed_axum::shutdown_signal()?).await?;
    Ok(())
}
