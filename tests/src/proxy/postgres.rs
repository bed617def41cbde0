//! A proxy for Postgres. One request of the script is what a client sends before it waits: a simple query,
//! or everything up to a `Sync`. The login is not a request.

mod connection;
mod message;

use std::sync::Arc;

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::sync::Notify;

use super::{Listener, script::Script};
use crate::postgres::TestDatabase;

/// Postgres has no canned responses: a valid one depends on too much state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCannedResponse {}

/// A scripted proxy in front of a database. Dropping it cuts all its connections.
#[derive(Debug)]
pub struct PgProxy {
    listener: Listener,
    script: Script<NoCannedResponse>,
    silence: Arc<Notify>,
    options: PgConnectOptions,
    url: String,
}

impl PgProxy {
    /// A proxy that forwards to the server of this database.
    pub async fn start(database: &TestDatabase) -> Self {
        let script = Script::default();
        let rules = script.clone();
        let silence = Arc::new(Notify::new());
        let silenced = Arc::clone(&silence);
        let server = (database.options().get_host().to_owned(), database.options().get_port());
        let listener = Listener::start(move |client| {
            let (server, rules, silence) = (server.clone(), rules.clone(), Arc::clone(&silenced));
            // An error means that the script or either side cut the connection.
            async move { drop(connection::serve(client, &server, &rules, &silence).await) }
        })
        .await;
        let options = database.options().host("127.0.0.1").port(listener.port);
        let url = database.url_with_port(listener.port);
        Self { listener, script, silence, options, url }
    }

    /// The rules for requests.
    pub fn script(&self) -> &Script<NoCannedResponse> {
        &self.script
    }

    /// Stops forwarding on the current connections without closing them, as a network that drops packets
    /// does. New connections pass.
    pub fn go_silent(&self) {
        self.silence.notify_waiters();
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.listener.port
    }

    /// Options to connect to the database through the proxy.
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// The URL of the database through the proxy, for another process.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A pool of one connection without liveness tests: only the test's statements are requests.
    pub fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect_lazy_with(self.options())
    }
}
