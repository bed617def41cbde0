//! Connects, migrates and serves until Ctrl-C.

use broker_embed::client_config;
use broker_embed::postgres::{migrate, resilient};
use sqlx::postgres::PgPoolOptions;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let mut arguments = std::env::args().skip(1);
    let (Some(dsn), Some(listen)) = (arguments.next(), arguments.next()) else {
        return Err("give a DSN and an address to listen at".into());
    };
    // Two lanes of eight workers, four more for the broker, and ten for the orders.
    let pool = resilient(PgPoolOptions::new().max_connections(30)).connect(&dsn).await?;
    migrate::up(&pool).await?;
    embed_axum::migrate(&pool).await?;
    let config = client_config(kube::Config::infer().await?, "embed-axum/0.1")?;
    let client = kube::Client::try_from(config)?;
    let listener = TcpListener::bind(listen).await?;
    embed_axum::serve(pool, client, listener, async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    Ok(())
}
