//! A recording of every version of a composite resource and its objects, from watches.

use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use time::OffsetDateTime;
use tokio::task::JoinSet;

use super::blueprint::Objects;
use crate::failure::OrFail;

/// One version of an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// When the watch reported this version.
    pub at: OffsetDateTime,
    /// The object at this version.
    pub object: DynamicObject,
    /// Whether this is the last version before the deletion.
    pub deleted: bool,
}

/// The versions of a recording.
pub type History = Vec<Change>;

/// A recording that continues until it is dropped.
pub struct Recording {
    recorded: Arc<Mutex<History>>,
    _watches: JoinSet<()>,
}

impl Recording {
    /// Watches kinds of objects from now on.
    pub async fn start(kinds: Vec<Objects>) -> Self {
        let recorded = Arc::new(Mutex::new(History::new()));
        let mut watches = JoinSet::new();
        for objects in kinds {
            let now =
                objects.list(&ListParams::default()).await.or_fail("cannot list objects to watch");
            let mut since = now.metadata.resource_version.unwrap_or_default();
            let recorded = Arc::clone(&recorded);
            watches.spawn(async move {
                loop {
                    since = record_watch(&objects, since, &recorded).await;
                }
            });
        }
        Self { recorded, _watches: watches }
    }

    /// The versions so far of the objects that `select` accepts, by resource version: each kind has its own
    /// watch, and one may lag behind another.
    pub fn changes(&self, select: impl Fn(&DynamicObject) -> bool) -> History {
        let changes = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut selected: History =
            changes.iter().filter(|change| select(&change.object)).cloned().collect();
        selected.sort_by_key(|change| version(&change.object));
        selected
    }
}

/// The resource version as a number, by which all versions of all objects can be ordered.
fn version(object: &DynamicObject) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Records one watch to its end. Returns the version at which the next watch begins.
async fn record_watch(objects: &Objects, since: String, recorded: &Mutex<History>) -> String {
    let mut since = since;
    let parameters = WatchParams::default().timeout(60);
    let Ok(events) = objects.watch(&parameters, &since).await else { return since };
    let mut events = events.boxed();
    while let Ok(Some(event)) = events.try_next().await {
        let (object, deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
        };
        since = object.resource_version().unwrap_or(since);
        let change = Change { at: OffsetDateTime::now_utc(), object, deleted };
        recorded.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }
    since
}
