//! Observe: a watch cache over every object that carries the broker's label.
//!
//! A sweep reads every resource, and nearly all of them are unchanged. The cache answers from memory: it lists each
//! kind once, follows it with a watch, and keeps about 200 bytes per composite resource and 100 per ProviderConfig.
//! **It only decides which resources need attention.** Before the broker acts, it reads the object by name. An object
//! that is missing from the cache may still exist.
//!
//! - *Tracked kinds.* The cache follows a kind from its first use ([`Cache::warm`], [`Cache::track`]) until it is
//!   unused for [`CacheOptions::unused_after`] or [`Cache::untrack`] is called. All blueprint versions of one kind
//!   share one watch.
//! - *Warm or no answer.* A kind is warm while a watch that started from a complete list was active within
//!   [`CacheOptions::silence`]. A cold kind has no answer, and the caller lists. [`Cache::warming`] waits for a list
//!   that is in progress.
//! - *Cluster identity.* The cache reads the cluster's identity before each list and each watch. While every kind is
//!   warm on one cluster, [`Cache::identity`] returns it.
//! - *One history.* A watch resumes from its version only if the API server ended it at the requested timeout. After
//!   any other end the cache lists the kind, because the store may have been restored.
//! - *Periodic relist.* After [`CacheOptions::relist_after`] the cache lists each kind, even if its watch works.
//! - *One future.* All work happens inside [`Cache::run`]; the cache starts no task. Without it the cache stays cold,
//!   which costs requests only.
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
mod kept;
mod options;
mod page;
mod requests;
mod tracked;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use broker_domain::ClusterId;
use broker_ports::{CachedXr, ConfigPresence, Hints, OwnedObject, ResourceIds, XrTarget};
use broker_render::{ProviderConfigScope, Xrd};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kube::Client;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

pub use options::CacheOptions;

use crate::hints::Broadcast;
use entry::Key;
use follow::follow;
use kept::Keep;
use requests::Source;
use tracked::Tracked;

/// List pages in memory at once, over all kinds.
const MAX_PAGES_IN_MEMORY: usize = 4;

/// A watch cache over the objects that carry the broker's label. See the [module](self).
#[derive(Debug)]
pub struct Cache {
    client: Opaque<Client>,
    options: CacheOptions,
    kinds: Mutex<HashMap<Source, Arc<Tracked>>>,
    /// Notified when the set of kinds changes.
    changed: Notify,
    hints: Broadcast,
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
    tracked: Arc<Tracked>,
}

impl Cache {
    /// A cold cache. It sends no request before [`Cache::run`].
    pub fn new(client: Client, options: CacheOptions) -> Self {
        Self {
            client: Opaque(client),
            options,
            kinds: Mutex::default(),
            changed: Notify::new(),
            hints: Broadcast::new(),
            pages: Semaphore::new(MAX_PAGES_IN_MEMORY),
            running: tokio::sync::Mutex::default(),
            is_running: AtomicBool::new(false),
        }
    }

    /// Follows every tracked kind until `stop`. A second call waits until the first ends. When the future ends or is
    /// dropped, every kind becomes cold and every hint stream ends.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let _only_one = tokio::select! {
            () = &mut stop => return,
            running = self.running.lock() => running,
        };
        self.is_running.store(true, Ordering::Release);
        let _end = EndOfRun(self);
        let mut followers = FuturesUnordered::new();
        loop {
            for tracked in self.unfollowed() {
                followers.push(self.follow_while_wanted(tracked));
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
        self.warm_source(composites(xrd))
    }

    /// The ProviderConfigs of a kind, if it is warm. Tracks the kind.
    pub fn warm_provider_configs(&self, api_version: &str, plural: &str) -> Option<WarmKind> {
        self.warm_source(provider_configs(api_version, plural))
    }

    /// As [`Cache::warm`], but waits for a list in progress while the cache runs and no request has failed. A list by
    /// the caller would repeat the same requests.
    pub async fn warming(&self, xrd: &Xrd) -> Option<WarmKind> {
        self.warming_source(composites(xrd)).await
    }

    /// As [`Cache::warming`], for ProviderConfigs.
    pub async fn warming_provider_configs(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Option<WarmKind> {
        self.warming_source(provider_configs(api_version, plural)).await
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
        self.tracked(composites(xrd)).touch();
    }

    /// Tracks the ProviderConfigs of a kind.
    pub fn track_provider_configs(&self, api_version: &str, plural: &str) {
        self.tracked(provider_configs(api_version, plural)).touch();
    }

    /// Stops following the composite resources of a kind. The next use tracks it again.
    pub fn untrack(&self, xrd: &Xrd) {
        if let Some(tracked) = self.lock().remove(&composites(xrd)) {
            tracked.stop();
        }
    }

    /// Ids of resources whose objects change after this call. The stream ends with [`Cache::run`].
    pub fn hints(&self) -> Hints {
        self.hints.listen()
    }

    fn warm_source(&self, source: Source) -> Option<WarmKind> {
        let tracked = self.tracked(source);
        tracked.touch();
        tracked.is_warm(self.options.silence).then_some(WarmKind { tracked })
    }

    async fn warming_source(&self, source: Source) -> Option<WarmKind> {
        if self.is_running.load(Ordering::Acquire) {
            self.tracked(source.clone()).decided().await;
        }
        self.warm_source(source)
    }

    fn tracked(&self, source: Source) -> Arc<Tracked> {
        let mut kinds = self.lock();
        if let Some(tracked) = kinds.get(&source) {
            return Arc::clone(tracked);
        }
        let tracked = Arc::new(Tracked::new(source.clone()));
        kinds.insert(source, Arc::clone(&tracked));
        self.changed.notify_one();
        tracked
    }

    fn unfollowed(&self) -> Vec<Arc<Tracked>> {
        self.lock().values().filter(|tracked| tracked.claim()).map(Arc::clone).collect()
    }

    fn untrack_unused(&self) {
        let Some(limit) = Instant::now().checked_sub(self.options.unused_after) else { return };
        self.lock().retain(|_, tracked| {
            let unused = tracked.is_unused_since(limit);
            if unused {
                tracing::debug!(kind = tracked.path(), "the kind is unused; its watch ends");
                tracked.stop();
            }
            !unused
        });
    }

    async fn follow_while_wanted(&self, tracked: Arc<Tracked>) {
        tokio::select! {
            () = follow(&self.client.0, &tracked, &self.options, (&self.hints, &self.pages)) => {}
            () = tracked.dropped.notified() => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Source, Arc<Tracked>>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WarmKind {
    /// The cached view of one composite resource of this kind.
    pub fn observe(&self, target: &XrTarget) -> CachedXr {
        self.tracked.get(&Key::new(target.resource, target.project, target.xrd.scope()))
    }

    /// Whether the ProviderConfig of a target exists, if this is its kind.
    pub fn config(&self, target: &XrTarget, scope: ProviderConfigScope) -> ConfigPresence {
        if self.tracked.has_name(&Key::of_config(target, scope)) {
            ConfigPresence::Present
        } else {
            ConfigPresence::Missing
        }
    }

    /// Every labelled object of this kind, whatever its name, reported under this API version and kind. Skips the
    /// objects of the resources in `except`.
    pub fn owned(&self, api_version: &str, kind: &str, except: &ResourceIds) -> Vec<OwnedObject> {
        self.tracked.owned((api_version, kind), except)
    }
}

/// However a run ends, every kind becomes cold and every hint stream ends.
struct EndOfRun<'a>(&'a Cache);

impl Drop for EndOfRun<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
        for tracked in self.0.lock().values() {
            tracked.release();
        }
        self.0.hints.end();
    }
}

/// Hides the client in `Debug` output.
struct Opaque<T>(T);

impl<T> std::fmt::Debug for Opaque<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

fn composites(xrd: &Xrd) -> Source {
    let path = format!("/apis/{}/{}/{}", xrd.group(), xrd.version(), xrd.plural());
    Source { path, keep: Keep::Entries(xrd.scope()) }
}

fn provider_configs(api_version: &str, plural: &str) -> Source {
    Source { path: format!("/apis/{api_version}/{plural}"), keep: Keep::Names }
}
