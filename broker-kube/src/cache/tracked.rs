//! One followed kind, shared between its follower and its readers.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use broker_domain::{ClusterId, ProvisionedResourceId};
use broker_ports::{CachedXr, OwnedObject, ResourceIds};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::entry::Key;
use super::index::{Event, Index, Listing, WentBack};
use super::requests::Source;

#[derive(Debug)]
pub(super) struct Tracked {
    source: Source,
    state: Mutex<State>,
    followed: AtomicBool,
    pub(super) dropped: Notify,
    /// Notified when a list and its watch have succeeded or failed.
    decided: Notify,
}

#[derive(Debug)]
struct State {
    index: Index,
    /// The cluster of the current list or watch.
    cluster: Option<ClusterId>,
    listed: Option<Instant>,
    /// When the last watch data arrived. `None` without a watch.
    heard: Option<Instant>,
    used: Instant,
    /// Before the first list, and during a list after a failure: a caller that waits soon has an answer.
    list_pending: bool,
}

impl Tracked {
    pub(super) fn new(source: Source) -> Self {
        let index = Index::new(source.keep);
        let used = Instant::now();
        let state =
            State { index, cluster: None, listed: None, heard: None, used, list_pending: true };
        Self {
            source,
            state: Mutex::new(state),
            followed: AtomicBool::new(false),
            dropped: Notify::new(),
            decided: Notify::new(),
        }
    }

    pub(super) const fn source(&self) -> &Source {
        &self.source
    }

    pub(super) fn path(&self) -> &str {
        &self.source.path
    }

    /// Claims the kind for a follower; false if another follower has it.
    pub(super) fn claim(&self) -> bool {
        !self.followed.swap(true, Ordering::AcqRel)
    }

    /// Ends the follower's claim. The kind becomes cold.
    pub(super) fn release(&self) {
        self.watch_ended();
        self.followed.store(false, Ordering::Release);
    }

    /// Stops the follower and wakes every waiting caller.
    pub(super) fn stop(&self) {
        self.watch_ended();
        self.dropped.notify_one();
    }

    pub(super) fn touch(&self) {
        self.lock().used = Instant::now();
    }

    pub(super) fn is_unused_since(&self, moment: Instant) -> bool {
        self.lock().used < moment
    }

    /// Whether a watch, which starts only after a complete list, was active within `silence`.
    pub(super) fn is_warm(&self, silence: Duration) -> bool {
        self.lock().is_warm(silence)
    }

    /// Waits while a list is pending: until a watch starts or a request fails.
    pub(super) async fn decided(&self) {
        loop {
            let mut decided = pin!(self.decided.notified());
            // Subscribes before it checks, so that no notification is lost.
            decided.as_mut().enable();
            if !self.lock().list_pending {
                return;
            }
            decided.await;
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

    pub(super) fn has_name(&self, key: &Key) -> bool {
        self.lock().index.has_name(key)
    }

    pub(super) fn owned(&self, names: (&str, &str), except: &ResourceIds) -> Vec<OwnedObject> {
        self.lock().index.owned(names, except)
    }

    pub(super) fn version(&self) -> Option<String> {
        self.lock().index.version().map(str::to_owned)
    }

    /// A list or a watch starts on this cluster. Another cluster's versions and objects are invalid here.
    pub(super) fn begin_on(&self, cluster: ClusterId) {
        let mut state = self.lock();
        if state.cluster.as_ref().is_some_and(|before| *before != cluster) {
            state.heard = None;
            state.index.expire();
        }
        state.cluster = Some(cluster);
    }

    /// A list starts. Callers wait for it, unless the previous view still counts as warm.
    pub(super) fn begin_list(&self) {
        let mut state = self.lock();
        state.list_pending = state.heard.is_none();
    }

    /// When the current watch needs a relist.
    pub(super) fn trusted_until(&self, relist_after: Duration) -> Option<Instant> {
        self.lock().listed.and_then(|listed| listed.checked_add(relist_after))
    }

    /// Forces a list, because the watch is older than the relist interval. The previous view stays valid until its
    /// silence limit.
    pub(super) fn mark_stale(&self) {
        self.lock().index.expire();
    }

    pub(super) fn take(&self, listing: Listing, version: String) -> Vec<ProvisionedResourceId> {
        let mut state = self.lock();
        state.listed = Some(Instant::now());
        state.index.take(listing, version)
    }

    pub(super) fn apply(
        &self,
        event: Event<'_>,
    ) -> Result<Option<ProvisionedResourceId>, WentBack> {
        let mut state = self.lock();
        let changed = state.index.apply(event)?;
        state.heard = Some(Instant::now());
        Ok(changed)
    }

    pub(super) fn watch_started(&self) {
        self.decide(|state| state.heard = Some(Instant::now()));
    }

    pub(super) fn watch_ended(&self) {
        self.decide(|state| state.heard = None);
    }

    /// The watch ended, and no version is left to resume from.
    pub(super) fn expire(&self) {
        self.decide(|state| {
            state.heard = None;
            state.index.expire();
        });
    }

    /// Changes the state and wakes the waiting callers: the outcome of the list is known.
    fn decide(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.list_pending = false;
        drop(state);
        self.decided.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_warm(&self, silence: Duration) -> bool {
        self.heard.is_some_and(|heard| heard.elapsed() <= silence)
    }
}
