//! A kind of the cache, shared between its follower and its readers.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker_domain::{ClusterId, ProvisionedResourceId};
use broker_ports::{CachedXr, OwnedObject, ResourceIds};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::entry::Key;
use super::index::{Event, Index, Listing, VersionWentBack};
use super::requests::KindEndpoint;

#[derive(Debug)]
pub(super) struct TrackedKind {
    endpoint: KindEndpoint,
    state: Mutex<State>,
    has_follower: AtomicBool,
    pub(super) untracked: Notify,
    /// Notified when a list and its watch have succeeded or failed.
    list_decided: Notify,
}

#[derive(Debug)]
struct State {
    index: Index,
    /// The cluster of the current list or watch.
    cluster: Option<ClusterId>,
    last_list: Option<Instant>,
    /// When the watch last sent data. `None` without a watch.
    last_data: Option<Instant>,
    last_use: Instant,
    /// Set before the first list, and during a list after a failure. A caller may then wait for the list.
    list_pending: bool,
}

impl TrackedKind {
    pub(super) fn new(endpoint: KindEndpoint) -> Self {
        let index = Index::new(endpoint.mode);
        let last_use = Instant::now();
        let state = State {
            index,
            cluster: None,
            last_list: None,
            last_data: None,
            last_use,
            list_pending: true,
        };
        Self {
            endpoint,
            state: Mutex::new(state),
            has_follower: AtomicBool::new(false),
            untracked: Notify::new(),
            list_decided: Notify::new(),
        }
    }

    pub(super) const fn endpoint(&self) -> &KindEndpoint {
        &self.endpoint
    }

    pub(super) fn path(&self) -> &str {
        &self.endpoint.path
    }

    /// Claims the kind for a follower; false if another follower has it.
    pub(super) fn claim(&self) -> bool {
        !self.has_follower.swap(true, Ordering::AcqRel)
    }

    /// Ends the follower's claim. The kind becomes cold.
    pub(super) fn release(&self) {
        self.watch_ended();
        self.has_follower.store(false, Ordering::Release);
    }

    /// Stops the follower and wakes every waiting caller.
    pub(super) fn stop(&self) {
        self.watch_ended();
        self.untracked.notify_one();
    }

    pub(super) fn touch(&self) {
        self.lock().last_use = Instant::now();
    }

    pub(super) fn is_unused_since(&self, limit: Instant) -> bool {
        self.lock().last_use < limit
    }

    /// Whether a watch, which starts only after a complete list, was active within `silence`.
    pub(super) fn is_warm(&self, silence: Duration) -> bool {
        self.lock().is_warm(silence)
    }

    /// Waits while a list is pending: until a watch starts or a request fails.
    pub(super) async fn wait_for_list(&self) {
        loop {
            let mut notified = pin!(self.list_decided.notified());
            // Subscribes before it checks, so that no notification is lost.
            notified.as_mut().enable();
            if !self.lock().list_pending {
                return;
            }
            notified.await;
        }
    }

    /// The cluster of the kind, while it is warm.
    pub(super) fn cluster(&self, silence: Duration) -> Option<ClusterId> {
        let state = self.lock();
        state.cluster.clone().filter(|_| state.is_warm(silence))
    }

    pub(super) fn get(&self, key: &Key) -> CachedXr {
        self.lock().index.get(key)
    }

    pub(super) fn has_identity(&self, key: &Key) -> bool {
        self.lock().index.has_identity(key)
    }

    pub(super) fn has_foreign(&self, namespace: &str, name: &str) -> bool {
        self.lock().index.has_foreign(namespace, name)
    }

    pub(super) fn owned(&self, kind_name: (&str, &str), except: &ResourceIds) -> Vec<OwnedObject> {
        self.lock().index.owned(kind_name, except)
    }

    pub(super) fn version(&self) -> Option<String> {
        self.lock().index.version().map(str::to_owned)
    }

    /// Records the cluster of the starting list or watch. Versions and objects of another cluster become invalid.
    pub(super) fn start_on_cluster(&self, cluster: ClusterId) {
        let mut state = self.lock();
        if state.cluster.as_ref().is_some_and(|before| *before != cluster) {
            state.last_data = None;
            state.index.expire();
        }
        state.cluster = Some(cluster);
    }

    /// Records the start of a list. Callers wait for it, unless the previous view still counts as warm.
    pub(super) fn start_list(&self) {
        let mut state = self.lock();
        state.list_pending = state.last_data.is_none();
    }

    /// When the kind must be listed again.
    pub(super) fn relist_at(&self, relist_after: Duration) -> Option<Instant> {
        self.lock().last_list.and_then(|last_list| last_list.checked_add(relist_after))
    }

    /// Forces a list. The previous view stays valid until its silence limit.
    pub(super) fn require_relist(&self) {
        self.lock().index.expire();
    }

    pub(super) fn replace(&self, listing: Listing, version: String) -> Vec<ProvisionedResourceId> {
        let mut state = self.lock();
        state.last_list = Some(Instant::now());
        state.index.replace(listing, version)
    }

    pub(super) fn apply(
        &self,
        event: Event<'_>,
    ) -> Result<Option<ProvisionedResourceId>, VersionWentBack> {
        let mut state = self.lock();
        let changed = state.index.apply(event)?;
        state.last_data = Some(Instant::now());
        Ok(changed)
    }

    pub(super) fn watch_started(&self) {
        self.finish_list_attempt(|state| state.last_data = Some(Instant::now()));
    }

    pub(super) fn watch_ended(&self) {
        self.finish_list_attempt(|state| state.last_data = None);
    }

    /// Records that the watch ended and cannot be resumed.
    pub(super) fn watch_lost(&self) {
        self.finish_list_attempt(|state| {
            state.last_data = None;
            state.index.expire();
        });
    }

    /// Changes the state and wakes the callers that wait for the list.
    fn finish_list_attempt(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.list_pending = false;
        drop(state);
        self.list_decided.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_warm(&self, silence: Duration) -> bool {
        self.last_data.is_some_and(|last_data| last_data.elapsed() <= silence)
    }
}
