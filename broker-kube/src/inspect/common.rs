//! Reads what several inspections share once: the cluster identity, their namespaces, and the objects of kinds that
//! more than one target uses, page by page.
//!
//! A failure here proves nothing: each inspection then reads for itself and reports its own error.

use std::collections::{BTreeMap, BTreeSet};

use broker_domain::{ClusterId, ObjectReference};
use broker_ports::{Inspected, NamespaceState, Target};
use broker_render::namespace;
use serde_json::Value;

use crate::call::Detail;
use crate::error::Failure;
use crate::objects::{Lookup, Objects, Selection};
use crate::read::{identity, named, namespace_state};

/// A kind, by requested API version and name.
type Kind = (String, String);

/// The shared readings. Empty for a single inspection.
#[derive(Default)]
pub(super) struct Common {
    cluster: Option<ClusterId>,
    namespaces: BTreeMap<String, NamespaceState>,
    kinds: BTreeMap<Kind, Listed>,
}

enum Listed {
    /// No version of the kind is served.
    NoKind,
    Objects {
        /// The wanted objects that the list contains.
        found: BTreeMap<ObjectReference, Value>,
        /// Whether the list was read to its end: then a missing object does not exist.
        complete: bool,
    },
}

impl Common {
    pub(super) async fn of(objects: &Objects, targets: &[Target]) -> Self {
        let mut common = Self { cluster: identity(objects).await.ok(), ..Self::default() };
        let mut wanted = BTreeMap::<Kind, BTreeSet<ObjectReference>>::new();
        let mut want = |it: ObjectReference| {
            let kind = (it.api_version().to_owned(), it.kind().to_owned());
            wanted.entry(kind).or_default().insert(it);
        };
        for target in targets {
            objects.kinds().learn(&target.xr.xrd);
            target.xr.reference().ok().map(&mut want);
            target.provider_config.clone().map(&mut want);
            let home = namespace(target.xr.project);
            if !common.namespaces.contains_key(home.as_str())
                && let Ok(state) = namespace_state(objects, home.as_str()).await
            {
                common.namespaces.insert(home.as_str().to_owned(), state);
            }
        }
        for (kind, wanted) in wanted.into_iter().filter(|(_, wanted)| wanted.len() > 1) {
            let listed = list(objects, &kind, &wanted).await;
            common.kinds.insert(kind, listed);
        }
        common
    }

    pub(super) async fn cluster(&self, objects: &Objects) -> Inspected<ClusterId> {
        match &self.cluster {
            Some(known) => Ok(known.clone()),
            None => identity(objects).await,
        }
    }

    pub(super) async fn namespace(
        &self,
        objects: &Objects,
        name: &str,
    ) -> Inspected<NamespaceState> {
        match self.namespaces.get(name) {
            Some(known) => Ok(*known),
            None => namespace_state(objects, name).await,
        }
    }

    pub(super) async fn get(
        &self,
        objects: &Objects,
        name: &ObjectReference,
    ) -> Result<Lookup, Failure> {
        match self.known(name) {
            Some(known) => Ok(known),
            None => objects.get(name, Detail::Whole).await,
        }
    }

    fn known(&self, name: &ObjectReference) -> Option<Lookup> {
        match self.kinds.get(&(name.api_version().to_owned(), name.kind().to_owned()))? {
            Listed::NoKind => Some(Lookup::NoKind),
            Listed::Objects { found, complete } => match found.get(name) {
                Some(object) => Some(Lookup::Found(object.clone())),
                None => complete.then_some(Lookup::NoObject),
            },
        }
    }
}

/// Lists a kind in all namespaces, without a label selector, so that a complete list proves absence. Stops after one
/// page per wanted object: reading them by name would then be cheaper.
async fn list(
    objects: &Objects,
    (api_version, kind): &Kind,
    wanted: &BTreeSet<ObjectReference>,
) -> Listed {
    let selection =
        Selection { api_version, kind, namespace: None, selector: ("labelSelector", "") };
    let (mut found, mut complete) = (BTreeMap::new(), false);
    let mut after: Option<String> = None;
    for _ in wanted {
        let page = match objects.page(&selection, after.as_deref(), Detail::Whole).await {
            Ok(Some(page)) => page,
            Ok(None) => return Listed::NoKind,
            Err(_) => break,
        };
        let names =
            page.items.into_iter().filter_map(|it| Some((named(&selection, &it).ok()?, it)));
        found.extend(names.filter(|(name, _)| wanted.contains(name)));
        complete = page.next.is_none();
        after = page.next;
        if complete || found.len() == wanted.len() {
            break;
        }
    }
    Listed::Objects { found, complete }
}
