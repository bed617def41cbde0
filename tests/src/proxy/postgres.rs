//! A proxy for Postgres. One request of the script is what a client sends before it waits: a simple
//! query, or everything up to a `Sync`. Logging in is not a request.

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

/// Nothing is answered in a database's stead: its answers depend on too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {}

/// A scripted proxy in front of a database. Dropping it cuts all its connections.
#[derive(Debug)]
pub struct PgProxy {
    listener: Listener,
    script: Script<NoAnswer>,
    silence: Arc<Notify>,
    options: PgConnectOptions,
    url: String,
}

impl PgProxy {
    /// Forwards to the server of this database.
    ///
    /// # Panics
    ///
    /// When there is no free port.
    pub async fn to(database: &TestDatabase) -> Self {
        let script = Script::default();
        let rules = script.clone();
        let silence = Arc::new(Notify::new());
        let silenced = Arc::clone(&silence);
        let server = (database.options().get_host().to_owned(), database.options().get_port());
        let listener = Listener::start(move |client| {
            let (server, rules, silence) = (server.clone(), rules.clone(), Arc::clone(&silenced));
            // An error is a cut connection, by the script or by either side.
            async move { drop(connection::serve(client, &server, &rules, &silence).await) }
        })
        .await;
        let options = database.options().host("127.0.0.1").port(listener.port);
        let url = database.url_at(listener.port);
        Self { listener, script, silence, options, url }
    }

    /// What is to happen to which request.
    pub fn script(&self) -> &Script<NoAnswer> {
        &self.script
    }

    /// Stops carrying anything on the connections of now, without closing them, as a network that drops packets does.
    /// New connections pass.
    pub fn go_silent(&self) {
        self.silence.notify_waiters();
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.listener.port
    }

    /// How to connect to the database through it.
    pub fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// The same as a URL, for another process.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A pool of one connection, which does not test it before use: what the test asks for, and
    /// nothing else, is a request.
    pub fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            .connect_lazy_with(self.options())
    }
}
