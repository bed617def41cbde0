//! Observe: a watch cache over every object that carries the broker's label.
//!
//! A sweep reads every resource, and nearly all of them are unchanged. The cache serves these reads from memory: it
//! lists each kind once, follows it with a watch, and keeps about 200 bytes per composite resource and 100 per
//! ProviderConfig. **Its data only decides which resources need a pass.** Before the broker acts, it reads the object
//! by name. An object that is missing from the cache may still exist.
//!
//! - *Tracked kinds.* The cache follows a kind from its first use ([`Cache::warm`], [`Cache::track`]) until it is
//!   unused for [`CacheOptions::unused_after`] or [`Cache::untrack`] is called. All blueprint versions of one kind
//!   share one watch.
//! - *Warm and cold.* A kind is warm while a watch that started from a complete list was active within
//!   [`CacheOptions::silence`]. For a cold kind the cache returns `None`, and the caller lists. [`Cache::warming`]
//!   waits for a list that is in progress.
//! - *Cluster identity.* The cache reads the cluster's identity before each list and each watch. While every kind is
//!   warm on one cluster, [`Cache::identity`] returns it.
//! - *No resume after a failure.* A watch resumes from its version only if the API server ended it at the requested
//!   timeout. After any other end the cache lists the kind, because the store may have been restored.
//! - *Periodic relist.* After [`CacheOptions::relist_after`] the cache lists each kind, even if its watch works.
//! - *No background task.* All work happens inside [`Cache::run`]. Without that call the cache stays cold, which only
//!   costs requests.
//!
//! ```
//! # async fn embed(client: kube::Client, stop: impl Future<Output = ()>) {
//! use broker_kube::cache::{Cache, CacheOptions};
//!
//! let cache = Cache::new(client, CacheOptions::default());
//! cache.run(stop).await;
//! # }
//! ```

mod entry;
mod follow;
mod index;
mod store;
mod options;
mod page;
mod requests;
mod tracked;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker_domain::ClusterId;
use broker_ports::{
    CachedXr, ConfigKind, ConfigPresence, Hints, OwnedObject, ResourceIds, XrTarget,
};
use broker_render::{Xrd, namespace};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kube::Client;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

pub use options::CacheOptions;

use crate::hints::HintBroadcast;
use entry::Key;
use follow::follow;
use requests::KindEndpoint;
use store::StoreMode;
use tracked::TrackedKind;

/// List pages in memory at once, over all kinds.
const MAX_PAGES_IN_MEMORY: usize = 4;

/// A watch cache over the objects that carry the broker's label. See the [module](self).
#[derive(Debug)]
pub struct Cache {
    client: Opaque<Client>,
    options: CacheOptions,
    kinds: Mutex<HashMap<KindEndpoint, Arc<TrackedKind>>>,
    /// Notified when the set of kinds changes.
    changed: Notify,
    hints: HintBroadcast,
    /// One permit per list page in memory.
    pages: Semaphore,
    /// Held by the active [`Cache::run`].
    running: tokio::sync::Mutex<()>,
    /// Whether a [`Cache::run`] is active.
    is_running: AtomicBool,
}

/// A warm kind.
#[derive(Debug)]
pub struct WarmKind {
    tracked: Arc<TrackedKind>,
}

impl Cache {
    /// A cold cache. It sends no request before [`Cache::run`].
    pub fn new(client: Client, options: CacheOptions) -> Self {
        Self {
            client: Opaque(client),
            options,
            kinds: Mutex::default(),
            changed: Notify::new(),
            hints: HintBroadcast::new(),
            pages: Semaphore::new(MAX_PAGES_IN_MEMORY),
            running: tokio::sync::Mutex::default(),
            is_running: AtomicBool::new(false),
        }
    }

    /// Follows every tracked kind until `stop`. A second call waits until the first ends. When the future ends or is
    /// dropped, every kind becomes cold and every hint stream ends.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let _run_lock = tokio::select! {
            () = &mut stop => return,
            running = self.running.lock() => running,
        };
        self.is_running.store(true, Ordering::Release);
        let _end = EndRunOnDrop(self);
        let mut followers = FuturesUnordered::new();
        loop {
            for tracked in self.claim_unfollowed() {
                followers.push(self.follow_until_untracked(tracked));
            }
            tokio::select! {
                () = &mut stop => return,
                () = self.changed.notified() => {}
                Some(()) = followers.next() => {}
                () = sleep(self.options.unused_after / 4) => self.untrack_unused(),
            }
        }
    }

    /// The composite resources of a kind, if it is warm. Tracks the kind.
    pub fn warm(&self, xrd: &Xrd) -> Option<WarmKind> {
        self.warm_endpoint(composite_endpoint(xrd))
    }

    /// The ProviderConfigs of a kind, if it is warm. Tracks the kind.
    pub fn warm_provider_configs(&self, api_version: &str, plural: &str) -> Option<WarmKind> {
        self.warm_endpoint(provider_config_endpoint(api_version, plural))
    }

    /// As [`Cache::warm`], but waits for a list in progress while the cache runs and no request has failed. A list by
    /// the caller would repeat the same requests.
    pub async fn warming(&self, xrd: &Xrd) -> Option<WarmKind> {
        self.warming_endpoint(composite_endpoint(xrd)).await
    }

    /// As [`Cache::warming`], for ProviderConfigs.
    pub async fn warming_provider_configs(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Option<WarmKind> {
        self.warming_endpoint(provider_config_endpoint(api_version, plural)).await
    }

    /// The cluster of all kinds. `None` unless every kind is warm on the same cluster.
    pub fn identity(&self) -> Option<ClusterId> {
        let kinds = self.lock();
        let mut clusters = kinds.values().map(|kind| kind.cluster(self.options.silence));
        let first = clusters.next()??;
        clusters.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// Tracks the composite resources of a kind, so that the kind is warm at its first use.
    pub fn track(&self, xrd: &Xrd) {
        self.tracked_kind(composite_endpoint(xrd)).touch();
    }

    /// Tracks the ProviderConfigs of a kind.
    pub fn track_provider_configs(&self, api_version: &str, plural: &str) {
        self.tracked_kind(provider_config_endpoint(api_version, plural)).touch();
    }

    /// Stops following the composite resources of a kind. The next use tracks the kind again.
    pub fn untrack(&self, xrd: &Xrd) {
        if let Some(tracked) = self.lock().remove(&composite_endpoint(xrd)) {
            tracked.stop();
        }
    }

    /// Ids of resources whose objects change after this call. The stream ends with [`Cache::run`].
    pub fn hints(&self) -> Hints {
        self.hints.listen()
    }

    fn warm_endpoint(&self, endpoint: KindEndpoint) -> Option<WarmKind> {
        let tracked = self.tracked_kind(endpoint);
        tracked.touch();
        tracked.is_warm(self.options.silence).then_some(WarmKind { tracked })
    }

    async fn warming_endpoint(&self, endpoint: KindEndpoint) -> Option<WarmKind> {
        if self.is_running.load(Ordering::Acquire) {
            self.tracked_kind(endpoint.clone()).wait_for_list().await;
        }
        self.warm_endpoint(endpoint)
    }

    fn tracked_kind(&self, endpoint: KindEndpoint) -> Arc<TrackedKind> {
        let mut kinds = self.lock();
        if let Some(tracked) = kinds.get(&endpoint) {
            return Arc::clone(tracked);
        }
        let tracked = Arc::new(TrackedKind::new(endpoint.clone()));
        kinds.insert(endpoint, Arc::clone(&tracked));
        self.changed.notify_one();
        tracked
    }

    fn claim_unfollowed(&self) -> Vec<Arc<TrackedKind>> {
        self.lock().values().filter(|tracked| tracked.claim()).map(Arc::clone).collect()
    }

    fn untrack_unused(&self) {
        let Some(limit) = Instant::now().checked_sub(self.options.unused_after) else { return };
        self.lock().retain(|_, tracked| {
            let is_unused = tracked.is_unused_since(limit);
            if is_unused {
                tracing::debug!(kind = tracked.path(), "the kind is unused; its watch ends");
                tracked.stop();
            }
            !is_unused
        });
    }

    async fn follow_until_untracked(&self, tracked: Arc<TrackedKind>) {
        tokio::select! {
            () = follow(&self.client.0, &tracked, &self.options, (&self.hints, &self.pages)) => {}
            () = tracked.untracked.notified() => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KindEndpoint, Arc<TrackedKind>>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WarmKind {
    /// The cached view of one composite resource of this kind.
    pub fn observe(&self, target: &XrTarget) -> CachedXr {
        self.tracked.get(&Key::new(target.resource, target.project, target.xrd.scope()))
    }

    /// Whether the ProviderConfig of a target exists; `self` must be its kind.
    pub fn config(&self, target: &XrTarget, kind: &ConfigKind) -> ConfigPresence {
        let exists = match &kind.shared {
            None => self.tracked.has_identity(&Key::for_config(target, kind.scope)),
            Some(name) => {
                self.tracked.has_foreign(namespace(target.project).as_str(), name.as_str())
            }
        };
        if exists { ConfigPresence::Present } else { ConfigPresence::Missing }
    }

    /// Every labelled object of this kind, whatever its name, reported under this API version and kind. Skips the
    /// objects of the resources in `except`.
    pub fn owned(&self, api_version: &str, kind: &str, except: &ResourceIds) -> Vec<OwnedObject> {
        self.tracked.owned((api_version, kind), except)
    }
}

/// Makes every kind cold and ends every hint stream, also when the run is dropped.
struct EndRunOnDrop<'a>(&'a Cache);

impl Drop for EndRunOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
        for tracked in self.0.lock().values() {
            tracked.release();
        }
        self.0.hints.end_streams();
    }
}

/// Hides the client in `Debug` output.
struct Opaque<T>(T);

impl<T> std::fmt::Debug for Opaque<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

fn composite_endpoint(xrd: &Xrd) -> KindEndpoint {
    let path = format!("/apis/{}/{}/{}", xrd.group(), xrd.version(), xrd.plural());
    KindEndpoint { path, mode: StoreMode::Xrs(xrd.scope()) }
}

fn provider_config_endpoint(api_version: &str, plural: &str) -> KindEndpoint {
    KindEndpoint { path: format!("/apis/{api_version}/{plural}"), mode: StoreMode::Identities }
}
