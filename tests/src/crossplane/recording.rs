//! A recording of a composite resource and the objects that belong to it, version by version, from watches.

use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::{DynamicObject, ListParams, WatchEvent, WatchParams};
use time::OffsetDateTime;
use tokio::task::JoinSet;

use super::blueprint::Objects;
use crate::failure::OrFail;

/// One version of an object, or its end.
#[derive(Debug, Clone)]
pub struct Change {
    /// When the watch reported it.
    pub at: OffsetDateTime,
    /// The object at this version.
    pub object: DynamicObject,
    /// Whether this was the last version.
    pub gone: bool,
}

/// The versions of a recording.
pub type History = Vec<Change>;

/// Watches until it is dropped.
pub struct Recording {
    heard: Arc<Mutex<History>>,
    _watching: JoinSet<()>,
}

impl Recording {
    /// Watches kinds of objects from now on.
    pub async fn of(kinds: Vec<Objects>) -> Self {
        let heard = Arc::new(Mutex::new(History::new()));
        let mut watching = JoinSet::new();
        for objects in kinds {
            let now = objects.list(&ListParams::default()).await.or_fail("a list to begin with");
            let mut since = now.metadata.resource_version.unwrap_or_default();
            let heard = Arc::clone(&heard);
            watching.spawn(async move {
                loop {
                    since = follow(&objects, since, &heard).await;
                }
            });
        }
        Self { heard, _watching: watching }
    }

    /// The versions so far of the objects that `wanted` selects, in the order in which they happened: each
    /// kind has its own watch, and one may lag behind another.
    pub fn heard(&self, wanted: impl Fn(&DynamicObject) -> bool) -> History {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let mut chosen: History =
            heard.iter().filter(|change| wanted(&change.object)).cloned().collect();
        chosen.sort_by_key(|change| version(&change.object));
        chosen
    }
}

/// The position of a version among all versions of all objects.
fn version(object: &DynamicObject) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Follows one watch to its end; returns the version at which the next begins.
async fn follow(objects: &Objects, since: String, heard: &Mutex<History>) -> String {
    let mut since = since;
    let parameters = WatchParams::default().timeout(60);
    let Ok(events) = objects.watch(&parameters, &since).await else { return since };
    let mut events = events.boxed();
    while let Ok(Some(event)) = events.try_next().await {
        let (object, gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
        };
        since = object.resource_version().unwrap_or(since);
        let change = Change { at: OffsetDateTime::now_utc(), object, gone };
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(change);
    }
    since
}
