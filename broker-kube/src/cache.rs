//! Observe: a watch cache over everything that carries our label.
//!
//! A sweep looks at every resource there is and finds nearly all of them as it left them. The cache answers
//! that from memory: it lists each kind once, follows it by a watch, and keeps of each object about two
//! hundred bytes, of a ProviderConfig about half of that. **It decides only what needs attention.** Whoever
//! acts reads the object by its name; what the cache does not have may stand all the same.
//!
//! - *Kinds come and go.* A kind is followed from when it is first asked for ([`Cache::warm`],
//!   [`Cache::track`]) until nobody asked for [`CacheOptions::unused_after`], or [`Cache::untrack`] is called.
//!   All blueprint versions of one kind share one watch.
//! - *Warm or nothing.* A kind is warm while a watch that began where a complete list ended was heard within
//!   [`CacheOptions::silence`]. Otherwise the cache has no answer, and the caller lists; only for the first list of a
//!   kind it may wait ([`Cache::warming`]).
//! - *On which cluster.* Before each list and each watch the API server is asked which cluster it is. While
//!   every kind is warm, and on the same one, that is the answer for whoever asks.
//! - *One history.* A watch resumes from its version only if the API server ended it at the time that it was asked
//!   for. After every other end the kind is listed: the store may have been restored meanwhile.
//! - *Not for ever.* After [`CacheOptions::relist_after`] everything is listed anew, however well the watch is.
//! - *One future.* Nothing happens until somebody runs [`Cache::run`], and nothing outlives it: no task is
//!   started. Without it the cache stays cold, which costs requests and nothing else.
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

/// How many pages of lists are in memory at once, of all kinds together.
const PAGES_AT_ONCE: usize = 4;

/// A watch cache over the objects that carry our label. See the [module](self).
#[derive(Debug)]
pub struct Cache {
    client: Shown<Client>,
    options: CacheOptions,
    kinds: Mutex<HashMap<Source, Arc<Tracked>>>,
    /// The set of kinds has changed.
    changed: Notify,
    hints: Broadcast,
    /// A permit for each page that may be in memory.
    pages: Semaphore,
    /// Held by whoever runs the cache.
    running: tokio::sync::Mutex<()>,
    /// Somebody does.
    is_run: AtomicBool,
}

/// A kind that is warm.
#[derive(Debug)]
pub struct WarmKind {
    tracked: Arc<Tracked>,
}

impl Cache {
    /// A cold cache. Nothing is asked before [`Cache::run`].
    pub fn new(client: Client, options: CacheOptions) -> Self {
        Self {
            client: Shown(client),
            options,
            kinds: Mutex::default(),
            changed: Notify::new(),
            hints: Broadcast::new(),
            pages: Semaphore::new(PAGES_AT_ONCE),
            running: tokio::sync::Mutex::default(),
            is_run: AtomicBool::new(false),
        }
    }

    /// Follows every tracked kind until `stop`. A second call waits until the first has ended. Dropping the
    /// future ends it as well: every kind is cold and every stream of hints ends.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let _only_one = tokio::select! {
            () = &mut stop => return,
            running = self.running.lock() => running,
        };
        self.is_run.store(true, Ordering::Release);
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

    /// The composite resources of a kind, if the cache has them. Begins to follow the kind if nobody did.
    pub fn warm(&self, xrd: &Xrd) -> Option<WarmKind> {
        self.warm_source(composites(xrd))
    }

    /// The ProviderConfigs of a kind, if the cache has them. Begins to follow the kind if nobody did.
    pub fn warm_provider_configs(&self, api_version: &str, plural: &str) -> Option<WarmKind> {
        self.warm_source(provider_configs(api_version, plural))
    }

    /// As [`Cache::warm`], but a list that is under way is waited for, as long as somebody runs the cache and nothing
    /// has gone wrong: whoever would list instead would ask for the same once more.
    pub async fn warming(&self, xrd: &Xrd) -> Option<WarmKind> {
        self.warming_source(composites(xrd)).await
    }

    /// As [`Cache::warm_provider_configs`], waited for in the same way.
    pub async fn warming_provider_configs(
        &self,
        api_version: &str,
        plural: &str,
    ) -> Option<WarmKind> {
        self.warming_source(provider_configs(api_version, plural)).await
    }

    /// Which cluster everything here stands on: known while every kind is warm, and on one and the same.
    pub fn identity(&self) -> Option<ClusterId> {
        let kinds = self.lock();
        let mut clusters = kinds.values().map(|kind| kind.cluster(self.options.silence));
        let first = clusters.next()??;
        clusters.all(|other| other.as_ref() == Some(&first)).then_some(first)
    }

    /// Begins to follow the composite resources of a kind, so that it is warm by the time it is asked for.
    pub fn track(&self, xrd: &Xrd) {
        self.tracked(composites(xrd)).touch();
    }

    /// Begins to follow the ProviderConfigs of a kind.
    pub fn track_provider_configs(&self, api_version: &str, plural: &str) {
        self.tracked(provider_configs(api_version, plural)).touch();
    }

    /// Stops following the composite resources of a kind. Asking for it begins anew.
    pub fn untrack(&self, xrd: &Xrd) {
        if let Some(tracked) = self.lock().remove(&composites(xrd)) {
            tracked.drop_it();
        }
    }

    /// Ids of resources whose objects changed, from now on. The stream ends when [`Cache::run`] does.
    pub fn hints(&self) -> Hints {
        self.hints.listen()
    }

    fn warm_source(&self, source: Source) -> Option<WarmKind> {
        let tracked = self.tracked(source);
        tracked.touch();
        tracked.is_warm(self.options.silence).then_some(WarmKind { tracked })
    }

    async fn warming_source(&self, source: Source) -> Option<WarmKind> {
        if self.is_run.load(Ordering::Acquire) {
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
                tracing::debug!(kind = tracked.path(), "nobody asks for it any more");
                tracked.drop_it();
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
    /// What is known of one composite resource of this kind.
    pub fn observe(&self, target: &XrTarget) -> CachedXr {
        self.tracked.get(&Key::new(target.resource, target.project, target.xrd.scope()))
    }

    /// Whether the ProviderConfig of a target stands, if this is its kind.
    pub fn config(&self, target: &XrTarget, scope: ProviderConfigScope) -> ConfigPresence {
        if self.tracked.has_name(&Key::of_config(target, scope)) {
            ConfigPresence::Present
        } else {
            ConfigPresence::Missing
        }
    }

    /// Every object of this kind that carries our label, whatever its name, as objects of this API version and
    /// kind; those of some resources excepted.
    pub fn owned(&self, api_version: &str, kind: &str, except: &ResourceIds) -> Vec<OwnedObject> {
        self.tracked.owned((api_version, kind), except)
    }
}

/// However a run ends, nothing is warm and nobody waits for a hint after it.
struct EndOfRun<'a>(&'a Cache);

impl Drop for EndOfRun<'_> {
    fn drop(&mut self) {
        self.0.is_run.store(false, Ordering::Release);
        for tracked in self.0.lock().values() {
            tracked.release();
        }
        self.0.hints.end();
    }
}

/// A client says nothing of itself.
struct Shown<T>(T);

impl<T> std::fmt::Debug for Shown<T> {
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
