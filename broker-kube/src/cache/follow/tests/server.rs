//! A scripted API server: one kind, whose objects, versions and watches the test controls.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use broker_ports::{CachedXr, XrTarget};
use broker_render::Xrd;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, mpsc};
use tokio::task::JoinSet;

use crate::cache::{Cache, CacheOptions};
use crate::testing::{PROJECT, id, object, resource_id, xrd};

type HttpResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

#[derive(Debug, Clone, Copy)]
pub(super) enum WatchEnd {
    /// With the last chunk of the response.
    Closed,
    /// With a broken connection.
    Cut,
}

#[derive(Clone, Default)]
pub(super) struct Server {
    state: Arc<Mutex<State>>,
    /// Read by every list; a test holds the write lock to block lists.
    list_gate: Arc<RwLock<()>>,
}

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<usize, u64>,
    lists: usize,
    /// Per list page: its limit, and the bytes sent.
    pages: Vec<(usize, usize)>,
    /// Per watch: its start version, and the sender of its lines.
    watches: Vec<(String, Option<mpsc::UnboundedSender<io::Result<Bytes>>>)>,
}

impl Server {
    /// Replaces the content and the version of the store.
    pub(super) fn restore(&self, objects: &[(usize, u64)], version: u64) {
        let mut state = self.lock();
        state.objects = objects.iter().copied().collect();
        state.version = version;
    }

    pub(super) fn send_line(&self, line: String) {
        let state = self.lock();
        let (_, Some(lines)) = state.watches.last().unwrap() else { panic!("the watch has ended") };
        lines.send(Ok(line.into())).unwrap();
    }

    pub(super) fn end_watch(&self, end: WatchEnd) {
        let lines = self.lock().watches.last_mut().and_then(|(_, lines)| lines.take()).unwrap();
        match end {
            WatchEnd::Closed => drop(lines),
            WatchEnd::Cut => lines.send(Err(io::ErrorKind::ConnectionReset.into())).unwrap(),
        }
    }

    /// Blocks every list until the guard is dropped.
    pub(super) fn block_lists(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.list_gate).try_write_owned().unwrap()
    }

    pub(super) fn list_count(&self) -> usize {
        self.lock().lists
    }

    pub(super) fn page_sizes(&self) -> Vec<(usize, usize)> {
        self.lock().pages.clone()
    }

    pub(super) fn watch_start_versions(&self) -> Vec<String> {
        self.lock().watches.iter().map(|(from, _)| from.clone()).collect()
    }

    async fn serve(self, request: Request<Body>) -> Result<HttpResponse, Infallible> {
        let complete_response = |body: &Value| {
            let body = Full::from(body.to_string()).map_err(|never| match never {});
            Ok(Response::new(body.boxed_unsync()))
        };
        if request.uri().path() == "/api/v1/namespaces/kube-system" {
            return complete_response(&json!({"metadata": {"uid": id(0)}}));
        }
        let query = request.uri().query().unwrap_or_default();
        let value = |key: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        if query.contains("watch=true") {
            let from = value("resourceVersion").unwrap().to_owned();
            let (lines, mut sent) = mpsc::unbounded_channel();
            self.lock().watches.push((from, Some(lines)));
            let sent = stream::poll_fn(move |context| sent.poll_recv(context));
            let body = StreamBody::new(sent.map(|line| line.map(Frame::data)));
            return Ok(Response::new(body.boxed_unsync()));
        }
        self.lock().lists += 1;
        let _open = self.list_gate.read().await;
        let mut state = self.lock();
        let number = |key: &str| value(key).and_then(|value| value.parse::<usize>().ok());
        let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap());
        let page = state.objects.iter().skip(from).take(limit);
        let items: Vec<_> = page.map(|(number, at)| object(*number, *at)).collect();
        let mut page = json!({"metadata": {"resourceVersion": state.version.to_string()}});
        if from + items.len() < state.objects.len() {
            page["metadata"]["continue"] = json!((from + items.len()).to_string());
        }
        page["items"] = items.into();
        state.pages.push((limit, page.to_string().len()));
        complete_response(&page)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

pub(super) struct CacheFixture {
    pub(super) server: Server,
    pub(super) cache: Arc<Cache>,
    pub(super) xrd: Arc<Xrd>,
    _running: JoinSet<()>,
}

impl CacheFixture {
    /// A warm cache over these objects at `version`.
    pub(super) async fn new(objects: &[(usize, u64)], version: u64) -> Self {
        Self::with(CacheOptions::default(), objects, version).await
    }

    pub(super) async fn with(
        options: CacheOptions,
        objects: &[(usize, u64)],
        version: u64,
    ) -> Self {
        let server = Server::default();
        server.restore(objects, version);
        let service_server = server.clone();
        let service = tower::service_fn(move |request| service_server.clone().serve(request));
        let cache = Cache::new(Client::new(service, "default"), options);
        let cache = Arc::new(cache);
        let mut running = JoinSet::new();
        let running_cache = Arc::clone(&cache);
        running.spawn(async move { running_cache.run(std::future::pending()).await });
        let machine = Xrd::parse(xrd("Machine", "v1", "Namespaced").as_bytes()).unwrap();
        let fixture = Self { server, cache, xrd: Arc::new(machine), _running: running };
        fixture.cache.track(&fixture.xrd);
        fixture.wait_for_watches(1).await;
        fixture
    }

    /// Waits until `count` watches have started and the kind is warm.
    pub(super) async fn wait_for_watches(&self, count: usize) {
        self.wait_until("the expected number of watches", |server| {
            server.watch_start_versions().len() == count
        })
        .await;
        while self.cache.warm(&self.xrd).is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits for a condition and advances the clock.
    pub(super) async fn wait_until(&self, what: &str, condition: impl Fn(&Server) -> bool) {
        // Longer than every timeout of the cache, shorter than the periodic relist.
        for _ in 0..180_000 {
            if condition(&self.server) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        panic!(
            "timed out waiting for {what}: {} lists, watches {:?}",
            self.server.list_count(),
            self.server.watch_start_versions()
        );
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        let warm = self.cache.warm(&self.xrd).expect("the kind is warm");
        let project = PROJECT.parse().unwrap();
        let target = XrTarget::new(resource_id(number), project, Arc::clone(&self.xrd));
        matches!(warm.observe(&target), CachedXr::Present { .. })
    }
}

pub(super) fn bookmark(version: u64) -> String {
    let object = json!({"metadata": {"resourceVersion": version.to_string()}});
    format!("{}\n", json!({"type": "BOOKMARK", "object": object}))
}
