//! Proxies between a client and a real server. A test scripts single requests: the proxy holds, cuts or
//! delays them, responds instead of the server, or kills the client.
//!
//! Both protocols are reduced to numbered requests with a verb and a target, so that one engine
//! ([`Script`]) serves both. A proxy runs in the test's runtime: a test that blocks its thread blocks its
//! proxies too.

mod response;
mod http;
mod postgres;
mod script;

pub use self::{
    http::HttpProxy,
    postgres::PgProxy,
    response::HttpResponse,
    script::{HeldRequests, Request, RuleBuilder, Script, TimedRuleBuilder},
};

use std::{
    future::Future,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

use crate::failure::OrFail;

/// A loopback port with one task per connection. Dropping it cuts all connections.
#[derive(Debug)]
struct Listener {
    port: u16,
    tasks: Mutex<JoinSet<()>>,
    hang_up: Arc<Notify>,
}

impl Listener {
    async fn start<F>(serve: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.or_fail("no port for a proxy");
        let port = listener.local_addr().or_fail("no port for a proxy").port();
        let serve = Arc::new(serve);
        let hang_up = Arc::new(Notify::new());
        let hang_up_signal = Arc::clone(&hang_up);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                        connections.spawn(serve(stream));
                    },
                    () = hang_up_signal.notified() => connections.abort_all(),
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { port, tasks: Mutex::new(tasks), hang_up }
    }

    /// Cuts all connections asynchronously and keeps listening.
    fn hang_up(&self) {
        self.hang_up.notify_one();
    }

    /// Releases the port and cuts all connections asynchronously.
    fn close(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}
