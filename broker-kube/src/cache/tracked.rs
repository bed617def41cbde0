//! One kind that is followed, shared between the one who follows it and those who ask.

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

/// A kind, what was seen of it, and how fresh that is.
#[derive(Debug)]
pub(super) struct Tracked {
    source: Source,
    state: Mutex<State>,
    followed: AtomicBool,
    /// Nobody wants it any more.
    pub(super) dropped: Notify,
    /// It is known whether a list and its watch came about.
    decided: Notify,
}

#[derive(Debug)]
struct State {
    index: Index,
    /// The cluster that it was found on when the list or the watch began.
    cluster: Option<ClusterId>,
    /// When the last list was taken in.
    listed: Option<Instant>,
    /// When the server was heard last. `None` while there is no watch.
    heard: Option<Instant>,
    /// When somebody asked last.
    used: Instant,
    /// The first list is to be made, or one after a failure is under way: a caller that waits will soon have an
    /// answer.
    hopeful: bool,
}

impl Tracked {
    pub(super) fn new(source: Source) -> Self {
        let index = Index::new(source.keep);
        let used = Instant::now();
        let state = State { index, cluster: None, listed: None, heard: None, used, hopeful: true };
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

    /// Takes the kind for oneself to follow; false if somebody has.
    pub(super) fn claim(&self) -> bool {
        !self.followed.swap(true, Ordering::AcqRel)
    }

    /// Nobody follows it from now on.
    pub(super) fn release(&self) {
        self.lose();
        self.followed.store(false, Ordering::Release);
    }

    /// Nobody shall follow it any more, and nobody wait for it.
    pub(super) fn drop_it(&self) {
        self.lose();
        self.dropped.notify_one();
    }

    /// Somebody asked.
    pub(super) fn touch(&self) {
        self.lock().used = Instant::now();
    }

    pub(super) fn is_unused_since(&self, moment: Instant) -> bool {
        self.lock().used < moment
    }

    /// There is a watch, which begins only where a complete list ended, and it was heard within `silence`.
    pub(super) fn is_warm(&self, silence: Duration) -> bool {
        self.lock().is_warm(silence)
    }

    /// Waits while there is a list to wait for: until there is a watch, or something has failed.
    pub(super) async fn decided(&self) {
        loop {
            let mut decided = pin!(self.decided.notified());
            // Listened before it is looked, so that nothing is missed in between.
            decided.as_mut().enable();
            if !self.lock().hopeful {
                return;
            }
            decided.await;
        }
    }

    /// The cluster that it stands on, as long as it is warm.
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

    /// A list or a watch is about to begin, on this cluster. A version of another one means nothing here, and
    /// what was seen there is no answer.
    pub(super) fn begin_on(&self, cluster: ClusterId) {
        let mut state = self.lock();
        if state.cluster.as_ref().is_some_and(|before| *before != cluster) {
            state.heard = None;
            state.index.expire();
        }
        state.cluster = Some(cluster);
    }

    /// A list is about to begin. A caller waits for it, unless what was seen before still counts as warm.
    pub(super) fn begin_list(&self) {
        let mut state = self.lock();
        state.hopeful = state.heard.is_none();
    }

    /// Until when its watches are believed.
    pub(super) fn believed_until(&self, relist_after: Duration) -> Option<Instant> {
        self.lock().listed.and_then(|listed| listed.checked_add(relist_after))
    }

    /// The watch was believed for long enough. What it told stays the answer while the list is made, for no
    /// longer than a silence.
    pub(super) fn doubt(&self) {
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

    /// A watch has begun.
    pub(super) fn hear(&self) {
        self.decide(|state| state.heard = Some(Instant::now()));
    }

    /// There is no watch.
    pub(super) fn lose(&self) {
        self.decide(|state| state.heard = None);
    }

    /// There is no watch, and no version to begin one from.
    pub(super) fn expire(&self) {
        self.decide(|state| {
            state.heard = None;
            state.index.expire();
        });
    }

    /// Whether there is a watch is known from now on.
    fn decide(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.hopeful = false;
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
